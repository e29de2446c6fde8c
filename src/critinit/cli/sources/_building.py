"""What the sources share: unknown names, and factories that fail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from critinit.cli._console import no_results
from critinit.cli.errors import CommandError, is_out_of_memory
from critinit.errors import CritinitError


def known(family: str, name: str, names: Iterable[str]) -> None:
    """Refuse a name that the family does not have, with the nearest."""
    names = list(names)
    if name in names:
        return
    near = get_close_matches(name.lower(), names, 3, 0.5)
    hint = f"Did you mean {' or '.join(f'{family}:{n}' for n in near)}? " if near else ""
    raise CommandError(
        f"{family} has no model {name!r}. {hint}`critinit models {family}:` lists them."
    )


@contextmanager
def building(what: str) -> Iterator[None]:
    """Say which factory failed, and how; what it prints is no result."""
    try:
        with no_results():
            yield
    except CritinitError:
        raise
    except (Exception, SystemExit) as error:
        if is_out_of_memory(error):
            raise
        raise CommandError(
            f"{what} cannot be built: {type(error).__name__}: {error}. Check the --set arguments."
        ) from error
