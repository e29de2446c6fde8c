"""``--set key=value``: the arguments of a factory, in the types that it asks for."""

from __future__ import annotations

import ast
import types
from collections.abc import Mapping, Sequence
from inspect import Parameter
from typing import Any, Literal, Union, get_args, get_origin

from critinit.cli.errors import CommandError
from critinit.models._options import suggestion

_WORDS = {"true": True, "false": False, "none": None, "null": None}


def split(pairs: Sequence[str]) -> dict[str, str]:
    """Keys and values as they were typed.

    >>> split(["depth=50", "activation=gelu"])
    {'depth': '50', 'activation': 'gelu'}
    """
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (equals and all(part.isidentifier() for part in key.split("."))):
            raise CommandError(f"--set {pair}: write it as key=value, such as depth=50.")
        if key in found:
            raise CommandError(f"--set {key} is given twice, as {found[key]} and {value}.")
        found[key] = value
    return found


def guessed(values: Mapping[str, str]) -> dict[str, Any]:
    """In the types that the values look like, for a factory that does not say.

    >>> guessed({"a": "2", "b": "1e-3", "c": "true", "d": "none", "e": "(1, 2)", "f": "gelu"})
    {'a': 2, 'b': 0.001, 'c': True, 'd': None, 'e': (1, 2), 'f': 'gelu'}
    """
    return {key: _literal(value) for key, value in values.items()}


def typed(
    values: Mapping[str, str], parameters: Mapping[str, Parameter], owner: str
) -> dict[str, Any]:
    """In the types of the factory's parameters.

    Raises:
        CommandError: There is no such parameter, or the value is none of its type.
    """
    open_ended = any(p.kind is Parameter.VAR_KEYWORD for p in parameters.values())
    known = {
        name: p
        for name, p in parameters.items()
        if p.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    }
    found: dict[str, Any] = {}
    for key, value in values.items():
        if key in known:
            found[key] = _converted(key, value, known[key].annotation)
        elif open_ended:
            found[key] = _literal(value)
        else:
            hint = suggestion(key, known) if known else "It takes no arguments."
            raise CommandError(f"--set {key}={value}: {owner} has no argument {key!r}. {hint}")
    return found


def _converted(key: str, text: str, annotation: Any) -> Any:
    kinds = _alternatives(annotation)
    value = _literal(text)
    simple = (bool, int, float, str, type(None))
    if any(kind not in simple and get_origin(kind) is not Literal for kind in kinds):
        return text if str in kinds else value  # what else it may be, the factory will tell
    for kind in kinds:
        if get_origin(kind) is Literal:
            if match := [choice for choice in get_args(kind) if text == str(choice)]:
                return match[0]
        elif kind is float and type(value) in (int, float):
            return float(value)
        elif type(value) is kind and kind is not str:
            return value
    if str in kinds:
        return text
    raise CommandError(f"--set {key}={text}: {_wanted(kinds)} is needed.")


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) in (Union, types.UnionType):
        return get_args(annotation)
    return (annotation,)


def _literal(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _wanted(kinds: Sequence[Any]) -> str:
    words = {bool: "true or false", int: "a whole number", float: "a number", type(None): "none"}
    parts = []
    for kind in kinds:
        is_choice = get_origin(kind) is Literal
        parts += [str(c) for c in get_args(kind)] if is_choice else [words[kind]]
    return " or ".join(parts)
