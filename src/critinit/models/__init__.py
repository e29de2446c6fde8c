"""Networks whose partition and theory are known."""

from critinit.models.mlp import mlp

__all__ = ["mlp"]
