"""Three ways to measure the average partial Jacobian norm of a block.

``J^{l,l+1} = ‖∂h^{l+1}/∂h^l‖²_F / (|B| N_{l+1})``: the squared Frobenius norm of the whole
Jacobian, derivatives across examples included, per component of the output.
"""

from critinit.apjn._estimator import Estimator, examples_of
from critinit.apjn.exact import Exact
from critinit.apjn.jvp import JVP
from critinit.apjn.probes import Probes
from critinit.apjn.vjp import VJP

__all__ = ["JVP", "VJP", "Estimator", "Exact", "Probes", "examples_of"]
