"""What a user could take instead: one file a peer, each with its ``METHODS``."""

from peers import (
    closed_forms,
    gradinit_from_its_paper,
    gradinit_package,
    lsuv_package,
    metainit_from_its_paper,
    ours,
)
from peers._method import Batches, Method

METHODS: dict[str, Method] = {
    method.name: method
    for peer in (
        ours,
        closed_forms,
        lsuv_package,
        gradinit_package,
        gradinit_from_its_paper,
        metainit_from_its_paper,
    )
    for method in peer.METHODS
}

__all__ = ["METHODS", "Batches", "Method"]
