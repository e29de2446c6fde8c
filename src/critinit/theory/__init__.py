"""What infinite width predicts: K, J and the tuning of them, for every formula of the paper.

``mlp``, ``bn_mlp``, ``ln_mlp`` and ``resmlp`` predict what `critinit.measure` finds in networks of
these kinds; `layers` composes others. The rest is about the phases of an MLP, and about tuning it.
`predict` does so for a given network. Nothing here measures one.
"""

from critinit.theory import layers
from critinit.theory._names import ActivationLike, activation
from critinit.theory.activations import Activation
from critinit.theory.bn_mlp import batch_correction, bn_limit, bn_mlp
from critinit.theory.dynamics import Dynamics, dynamics
from critinit.theory.errors import ActivationError, DivergenceError, TheoryError
from critinit.theory.gradients import LossGradient, Sensitivity, loss_gradient, sensitivity
from critinit.theory.learning_rates import eta_0, eta_one_step, eta_t
from critinit.theory.ln_mlp import ln_mlp
from critinit.theory.mlp import mlp, nngp
from critinit.theory.phases import (
    CorrelationPoint,
    CriticalPoint,
    FixedPoint,
    correlation_depth,
    correlation_point,
    critical_line,
    critical_points,
    fixed_point,
    fixed_points,
    phase,
)
from critinit.theory.predict import predict
from critinit.theory.prediction import Prediction
from critinit.theory.resmlp import largest_layer_scale, resmlp

__all__ = [
    "Activation",
    "ActivationError",
    "ActivationLike",
    "CorrelationPoint",
    "CriticalPoint",
    "DivergenceError",
    "Dynamics",
    "FixedPoint",
    "LossGradient",
    "Prediction",
    "Sensitivity",
    "TheoryError",
    "activation",
    "batch_correction",
    "bn_limit",
    "bn_mlp",
    "correlation_depth",
    "correlation_point",
    "critical_line",
    "critical_points",
    "dynamics",
    "eta_0",
    "eta_one_step",
    "eta_t",
    "fixed_point",
    "fixed_points",
    "largest_layer_scale",
    "layers",
    "ln_mlp",
    "loss_gradient",
    "mlp",
    "nngp",
    "phase",
    "predict",
    "resmlp",
    "sensitivity",
]
