"""The main job in half a minute: is a deep network critical at initialization?

>>> main()  # doctest: +ELLIPSIS
A 50-layer ReLU network as PyTorch makes it:
...
not critical: gradient norms vanish by a factor 10^... over the depth
...
"""

from __future__ import annotations

import math

import torch

from critinit.measurement import measure
from critinit.models import mlp
from critinit.profile import Profile


def main() -> None:
    """Measure one network at two initializations and say what the difference means."""
    torch.manual_seed(0)
    batch = torch.randn(64, 784)
    print("A 50-layer ReLU network as PyTorch makes it:\n")
    before = measure(mlp(256, 50), batch)
    print(shortened(before))
    print("\nThe same network with weights of variance 2/fan_in, the critical ones for ReLU:\n")
    after = measure(mlp(256, 50, sigma_w=math.sqrt(2)), batch, probes=4)
    print(shortened(after))
    print(
        "\nJ is how much a block scales the squared gradient: below 1 (▒) gradients vanish, above"
        "\n1 (█) they explode. K is the mean square of the signal, corr the cosine between"
        "\nexamples. Over all blocks but the first, the norm of a gradient changes by a factor"
        f"\n{change(before)} in the first network and {change(after)} in the second. What is left"
        "\nthere is the chance of one draw at finite width."
    )


def shortened(profile: Profile, ends: int = 7) -> str:
    """The table without its middle rows."""
    lines = str(profile).splitlines()
    hidden = len(lines) - 2 * ends - 3
    return "\n".join([*lines[: ends + 3], f"   … {hidden} more …", *lines[-ends - 2 :]])


def change(profile: Profile) -> str:
    """By what factor the norm of a gradient changes over the hidden blocks."""
    return f"{math.exp(float(profile.log_apjn[profile.is_hidden].sum()) / 2):.2g}"


if __name__ == "__main__":
    main()
