"""The model as a chain of blocks: found, walked, and run block by block."""

from critinit.chain._chain import Block, Chain
from critinit.chain._trace import trace

__all__ = ["Block", "Chain", "trace"]
