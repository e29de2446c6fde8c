"""AutoInit: tune one scalar per parameter tensor until the network is critical."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice

import torch
from torch import nn

from critinit._state import all_or_nothing, draw_seed, untouched, with_own_randomness
from critinit.apjn import VJP, Probes
from critinit.base import Base, reset_
from critinit.chain._cut import Blocks, Output
from critinit.chain._inputs import Batch, check_batch, check_model, read_batches
from critinit.errors import InputError
from critinit.keep import Keep, check_keep, keep_multipliers
from critinit.losses import JKL, Loss, check_loss
from critinit.measurement import check_count, checked_generator, find_and_measure
from critinit.profile import Profile
from critinit.result import Result
from critinit.solvers import Sweep
from critinit.solvers._problem import Problem, Solver
from critinit.twin import Scale, Twin, choose_parameters


def tune_(
    model: nn.Module,
    inputs: object,
    loss: Loss | None = None,
    solver: Solver | None = None,
    scale: Scale = None,
    keep: Keep = "fold",
    blocks: Blocks = None,
    span: int = 1,
    probes: int = 1,
    base: Base | None = None,
    generator: torch.Generator | None = None,
    progress: Callable[[int, int], None] | None = None,
    *,
    bias_std: float | None = 0.1,
    output: Output | None = None,
) -> Result:
    """Multiply each parameter tensor of ``model`` by a scalar that makes the network critical.

    The model is changed in place, at the very end: any exception, Ctrl-C included, leaves it as
    it was.

    Args:
        model: Any feed-forward network, in the mode (training or evaluation) it will be used in.
        inputs: As for `critinit.measure`. Of several batches the first is held back to judge the
            result by. With BatchNorm, give the batch size of training.
        loss: `JLL`, `JSL`, `JKL` or any function of J and K; ``JKL(0.05)`` by default.
        solver: `Sweep` (the default) or `SGD`, the paper's.
        scale: Which parameters get a multiplier: all, names or patterns, module types, or a
            function of name and parameter.
        keep: ``"fold"`` multiplies the parameters (``θ ← a θ``) and leaves a plain model. With
            ``"frozen"`` the multipliers stay beside them as buffers, with ``"trainable"`` as
            parameters; `fold_` turns both into the first.
        blocks: Where the blocks end; see `critinit.trace`.
        span: Tune the non-overlapping ``J^{l,l+span}``, when resources are short.
        probes: Random vectors for each J (N_v in the paper).
        base: Draw the weights afresh first: ``"kaiming"``, ``"orthogonal"``, ``"default"`` or a
            function; see `reset_`. None keeps what is there.
        bias_std: Of the biases that ``base`` draws: a zero bias cannot be scaled.
        generator: The only source of randomness; by default a fresh one with seed 0.
        progress: Called with how much is done, and of how much.
        output: Picks the output tensor from what the model returns.

    >>> import torch, critinit
    >>> from critinit.models import mlp
    >>> _ = torch.manual_seed(0)
    >>> model = mlp(256, 8, inputs=64)
    >>> result = critinit.tune_(model, torch.randn(64, 64), loss=critinit.JLL(), probes=4)
    >>> result.before.is_critical(), result.after.is_critical()
    (False, True)
    """
    module = check_model(model)
    generator = checked_generator(generator)
    if solver is not None and (isinstance(solver, type) or not hasattr(solver, "solve")):
        raise InputError(
            f"solver={solver!r} is no solver. Pass critinit.Sweep() or critinit.SGD(lr, steps)."
        )
    parameters = choose_parameters(module, scale)
    check_keep(module, parameters, keep)
    drawn = nullcontext() if base is None else all_or_nothing(module)
    with drawn:
        if base is not None:
            reset_(module, base, bias_std=bias_std, generator=generator)
        problem, before, judge = _posed(
            module, inputs, parameters, loss, blocks, span, probes, generator, progress, output
        )
        with untouched(module, draw_seed(generator)):
            solution = (solver or Sweep()).solve(problem)
            multipliers = {name: torch.tensor(a) for name, a in solution.multipliers.items()}
            with problem.twin.applied(multipliers):
                _, after = find_and_measure(
                    problem.chain, judge, None, 1, VJP(problem.probes), generator, None
                )
        keep_multipliers(module, solution.multipliers, keep)
    message = "; ".join([solution.message, *problem.limits()])
    converged = solution.converged and torch.equal(problem.counted(), problem.in_loss())
    after = replace(after, span=span)  # it was measured on the chain that is merged already
    return Result(before, after, solution.multipliers, solution.history, converged, message)


def _posed(
    module: nn.Module,
    inputs: object,
    parameters: Mapping[str, nn.Parameter],
    loss: Loss | None,
    blocks: Blocks,
    span: int,
    probes: int,
    generator: torch.Generator,
    progress: Callable[[int, int], None] | None,
    output: Output | None,
) -> tuple[Problem, Profile, Batch]:
    """The problem to solve, the profile before, and the batch that judges."""
    check_count("probes", probes)
    estimator = VJP(Probes(probes, generator))
    batches = _Batches(module, inputs, generator)
    judge = batches.held_back
    chain, before = find_and_measure(module, judge, blocks, span, estimator, generator, output)
    problem = Problem(
        chain=chain,
        twin=Twin(module, parameters, chain.opened),
        loss=JKL() if loss is None else check_loss(loss, len(chain)),
        alive=before.apjn > 0,
        batches=batches.to_tune,
        probes=estimator.probes,
        report=progress or (lambda done, total: None),
    )
    if problem.may_conflict and not before.kernel[0] > 0:
        raise InputError(
            "the inputs are all zero, so K^0 = 0 and no multiplier keeps K steady. Pass real "
            "inputs, or noise."
        )
    return problem, before, judge


def tuned(model: nn.Module, inputs: object, **options: object) -> nn.Module:
    """A deep copy of ``model``, tuned; see `tune_` for the options."""
    twin = copy.deepcopy(model)
    tune_(twin, inputs, **options)  # type: ignore[arg-type]
    return twin


class _Batches:
    """The batches of ``inputs``: the first to judge by, the others to tune on.

    Every round is drawn with the same randomness, so that what is held back stays the same.
    """

    def __init__(self, model: nn.Module, inputs: object, generator: torch.Generator) -> None:
        if isinstance(inputs, Iterator):
            inputs = list(inputs)  # several rounds are needed
        self.model = model
        self.inputs = inputs
        self.generator = generator
        first_two = list(islice(self._round(), 2))
        self.held_back = first_two[0]
        self.several = len(first_two) > 1

    def _round(self) -> Iterator[Batch]:
        return with_own_randomness(lambda: read_batches(self.model, self.inputs), self.generator)

    def to_tune(self) -> Iterator[Batch]:
        """A round over all but the first."""
        count = 0
        for batch in islice(self._round(), int(self.several), None):
            check_batch(self.model, batch)
            count += 1
            yield batch
        if not count:
            raise InputError(
                "inputs gave fewer batches when it was read again. Pass something that can be "
                "iterated several times, such as a list or a DataLoader."
            )
