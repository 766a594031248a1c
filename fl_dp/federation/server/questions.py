"""Nodes that were asked who they are, and those whose answer was no."""

from dataclasses import dataclass

from flwr.app import Message


@dataclass(frozen=True, slots=True)
class Question:
    """Asks a node who it is. awaited: whether a round waits for the answer. site: as the grid knows it."""

    message: Message
    when: float
    awaited: bool
    site: str | None = None

    @property
    def node(self) -> int:
        return self.message.metadata.dst_node_id


@dataclass(frozen=True, slots=True)
class Refused:
    """A node that takes no part. passing: it did before, and could not answer now, say for a full disk.

    again: when it is asked next; earlier where the next round begins earlier. who: its site, or its node.
    """

    who: str
    why: str
    passing: bool
    again: float
