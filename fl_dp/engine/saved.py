"""Gives rules what the forward pass saved, even if it was not kept and must be computed again.

Under gradient checkpointing (`torch.utils.checkpoint`, Chen et al. 2016, arXiv 1604.06174) nothing is saved
until it is asked for. PyTorch then runs that part of the model again, and hands out each tensor once per
backward pass. The backward pass itself needs all of them. So rules ask under a group of their own, for which
the part is run once more. Each tensor is remembered while its node is in use, since two rules may want it.
"""

from typing import Any

from torch.autograd.graph import Node
from torch.utils.checkpoint import GraphExecGroup


class SavedNode:
    """The `_saved_*` attributes of an autograd node. It holds all that were read: release it after its rules.

    group: the same for all nodes of a backward pass.
    """

    __slots__ = ("_group", "_node", "_read")

    def __init__(self, node: Node, group: GraphExecGroup) -> None:
        self._node, self._group = node, group
        self._read: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name not in self._read:
            with self._group:
                self._read[name] = getattr(self._node, name)
        return self._read[name]
