"""The main job in half a minute: is a deep network critical at initialization?

>>> main()  # doctest: +ELLIPSIS
A 50-layer ReLU network as PyTorch makes it:
...
not critical: gradients vanish by a factor 10^... over the depth; worst block ...
"""

from __future__ import annotations

import math
import sys

import torch

from critinit.measurement import measure
from critinit.models import mlp


def main() -> None:
    """Measure one network at two initializations and print both tables."""
    torch.manual_seed(0)
    batch = torch.randn(64, 784)
    sys.stdout.write("A 50-layer ReLU network as PyTorch makes it:\n\n")
    print(measure(mlp(256, 50), batch))
    sys.stdout.write("\nThe same network with weights of variance 2/fan_in:\n\n")
    print(measure(mlp(256, 50, sigma_w=math.sqrt(2)), batch, probes=4))


if __name__ == "__main__":
    main()
