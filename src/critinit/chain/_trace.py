"""Find the chain of a network: discover it on a few examples, cut it, and walk it."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from critinit._state import gradients_for, untouched
from critinit.chain._chain import Chain
from critinit.chain._cut import Blocks, Output, cut
from critinit.chain._discovery import discover
from critinit.chain._inputs import (
    Batch,
    check_batch,
    check_model,
    first_tensor,
    read_batches,
    uses_batch_statistics,
)
from critinit.chain._walk import DivergedError, LeakError
from critinit.errors import ModelError


def trace(
    model: nn.Module, inputs: object, blocks: Blocks = None, output: Output | None = None
) -> Chain:
    """Find the blocks of ``model``.

    Args:
        model: Any feed-forward network. It is left exactly as it was.
        inputs: As for `critinit.measure`; of several batches the first is used.
        blocks: None to find them (the rule is in ``docs/blocks.md``); the name of a container
            whose children are the blocks; the names of the modules that end a block; or a
            function of name and module that says which do.
        output: Picks the output tensor from what the model returns; by default the first
            floating tensor.

    >>> import torch, critinit
    >>> from torch import nn
    >>> model = nn.Sequential(nn.Linear(9, 8), nn.Tanh(), nn.Linear(8, 8), nn.ReLU())
    >>> chain = critinit.trace(model, torch.randn(4, 9))
    >>> chain.names
    ['0', '2']
    >>> chain.run(1, torch.randn(4, 8)).shape
    torch.Size([4, 8])
    """
    model = check_model(model)
    batch = next(read_batches(model, inputs))
    check_batch(model, batch)
    with untouched(model, seed=0):
        return find_and_walk(
            model, batch, blocks, output or first_tensor, lambda chain: chain._record(batch)
        )


def find_and_walk(
    model: nn.Module, batch: Batch, blocks: Blocks, output: Output, walk: Callable[[Chain], None]
) -> Chain:
    """Find the chain on a few examples and ``walk`` it; on all of them if it then diverges.

    Where a tensor from before a block turns up behind it again, by a way that no call shows, the
    blocks between are joined.
    """
    for whole_batch in (False, True):
        chain = find_chain(model, batch, blocks, output, whole_batch)
        while True:
            try:
                walk(chain)
            except LeakError as leak:
                chain = chain.joined(leak.start, leak.stop)
                continue
            except DivergedError:
                break
            return chain
    raise ModelError(
        f"{type(model).__name__} runs other layers each time it is called (layer drop?), so it has "
        "no fixed chain of blocks. Call model.eval(), or switch that randomness off."
    )


def find_chain(
    model: nn.Module, batch: Batch, blocks: Blocks, output: Output, whole_batch: bool
) -> Chain:
    """Discover the model on a few examples of ``batch`` and cut it into blocks.

    A few examples, and a sketch of the run, make the same calls as the whole does; where they do
    not, the walk diverges.
    """
    names = {module: name for name, module in model.named_modules()}
    if not any(p.is_floating_point() for p in model.parameters()):
        raise ModelError(
            f"{type(model).__name__} has no weights of real numbers, so there is nothing to "
            "measure. Layers in a plain list are not seen (use nn.ModuleList); complex and "
            "quantised weights are not supported."
        )
    with gradients_for(model.parameters()):
        few = batch if whole_batch else batch.head(_examples_needed(model))
        found = discover(model, names, few, output, sketch=not whole_batch)
        if found.failure is not None and not whole_batch:
            found = discover(model, names, batch, output, sketch=False)
    return cut(model, found, blocks, output)


def _examples_needed(model: nn.Module) -> int:
    """The fewest examples that run through every layer: BatchNorm in training wants two."""
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    return 2 if any(uses_batch_statistics(norm) for norm in norms) else 1
