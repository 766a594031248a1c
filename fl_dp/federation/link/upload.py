"""Uploads of sites' replies: the objects of each are bounded, and kept apart from those of other sites.

All nodes share Flower's own store, and it trusts each node about the children of an object. A site could say
that another site's objects have children that never come, or send a tree that expands to 2^90.
"""

import hashlib
import json
from dataclasses import dataclass, field
from itertools import islice

from flwr.app import ArrayRecord, Message, RecordDict
from flwr.proto.message_pb2 import ObjectTree
from flwr.supercore.inflatable.inflatable_object import (
    get_object_head_values_from_object_content,
    iterate_object_tree,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

_ARRAY, _CHUNK = "Array", "ArrayChunk"
_DIVIDER = b"\0"  # between an object's head and its body


@dataclass(frozen=True, slots=True)
class Room:
    """The limits of a reply: the number of objects, and the bytes of what is sent and of its arrays."""

    parts: int = 1024
    size: int = 2**24

    @classmethod
    def of_reply_to(cls, asked: RecordDict) -> "Room":
        """For a reply with arrays like those of the message that it answers, and little besides."""
        records = [record for record in asked.values() if isinstance(record, ArrayRecord)]
        arrays = [len(array.data) for record in records for array in record.values()]
        size = 2**24 + 2 * sum(arrays)
        return cls(1024 + 4 * len(arrays) + size // 2**20, size)


@dataclass(slots=True)
class Upload:
    """One reply. node: its sender; session: the id of the upload; root: the reply's id.

    wanted: the ids of all its objects. held: bytes received.
    """

    node: int
    session: str
    root: str
    wanted: frozenset[str]
    room: Room
    contents: dict[str, bytes] = field(default_factory=dict)
    held: int = 0

    def missing(self) -> list[str]:
        return sorted(self.wanted - self.contents.keys())

    def is_complete(self) -> bool:
        return len(self.contents) == len(self.wanted)

    def take(self, object_id: str, content: bytes) -> bool:
        """Keep an object; False if it does not belong to the reply, or if there is no room for it."""
        if object_id not in self.wanted or hashlib.sha256(content).hexdigest() != object_id:
            return False
        if object_id not in self.contents:
            if self.held + len(content) > self.room.size:
                return False
            self.held += len(content)
            self.contents[object_id] = content
        return True

    def whole(self) -> Message:
        """The decoded reply. May raise anything, as Flower's parser does on a site's bytes."""
        if unfolded(self.contents) > self.room.size:
            raise ValueError("arrays that are larger than the reply may be")
        whole = inflate_object_from_contents(self.root, dict(self.contents))
        if not isinstance(whole, Message):
            raise TypeError("no message")
        return whole


def object_ids(tree: ObjectTree, most: int) -> frozenset[str] | None:
    """The ids in the tree; None if it has more than `most` nodes."""
    nodes = list(islice(iterate_object_tree(tree), most + 1))
    return None if len(nodes) > most else frozenset(node.object_id for node in nodes)


def unfolded(contents: dict[str, bytes]) -> int:
    """The bytes of all arrays, decoded: an array may name one chunk a million times. Raises like `whole`."""
    total = 0
    for content in contents.values():
        kind, children, _ = get_object_head_values_from_object_content(content)
        if kind != _ARRAY:
            continue
        if any(get_object_head_values_from_object_content(contents[one])[0] != _CHUNK for one in children):
            raise ValueError("an array whose parts are not chunks")
        chunks = json.loads(content.partition(_DIVIDER)[2])["arraychunk_ids"]
        total += sum(len(contents[children[chunk]]) for chunk in chunks)
    return total
