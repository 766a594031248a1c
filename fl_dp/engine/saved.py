"""What the forward pass saved, for rules to read, also where it was not kept but is computed again.

Under gradient checkpointing (`torch.utils.checkpoint`, Chen et al. 2016, arXiv 1604.06174) nothing is saved
until it is asked for. PyTorch then runs the part of the model again, and gives each tensor out once for each
backward pass. The backward pass itself needs all of them. So rules ask under a group of their own, for which
the part is run once more. Each tensor is remembered for as long as its node is looked at: two rules may want
the same.
"""

from typing import Any

from torch.autograd.graph import Node
from torch.utils.checkpoint import GraphExecGroup


class SavedTensors:
    """Of all nodes of one backward pass."""

    def __init__(self) -> None:
        self._group = GraphExecGroup()

    def of(self, node: Node) -> "SavedNode":
        """What stands for `node`. Let go of it once its rules were asked: it holds what they have read."""
        return SavedNode(node, self._group)


class SavedNode:
    """The `_saved_*` attributes of an autograd node."""

    __slots__ = ("_group", "_node", "_read")

    def __init__(self, node: Node, group: GraphExecGroup) -> None:
        self._node, self._group = node, group
        self._read: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name not in self._read:
            with self._group:
                self._read[name] = getattr(self._node, name)
        return self._read[name]
