"""Signed messages: requests to a site, signed by the server's key, and replies, signed by the site's.

The signature is a separate record in the message. It is valid for one federation, run, round, site and kind
of message, so nobody who relays a message can change it or send it elsewhere.
"""

from dataclasses import astuple, dataclass
from typing import Self

from flwr.app import ConfigRecord, Metadata, RecordDict

from fl_dp.errors import FederationError
from fl_dp.kits.keys import SigningKey, is_signed

SIGNED = "signed"
_ASKED, _ANSWERED = "instruction", "reply"


@dataclass(frozen=True, slots=True)
class Bearing:
    """What a signature covers besides the content, in this order. site: public key of the site that is asked.

    answers: the id of the message that is answered, a hash of all of it; empty in an instruction.
    """

    federation: str
    run: int
    message_type: str
    group: str
    site: str
    created: float
    answers: str = ""

    @classmethod
    def of(cls, federation: str, metadata: Metadata, site: str, answers: str = "") -> Self:
        """For the message with that metadata, or for the answer to it; the same at both ends."""
        kind, created = metadata.message_type, metadata.created_at
        return cls(federation, metadata.run_id, kind, metadata.group_id, site, created, answers)

    def to_bytes(self, content: RecordDict) -> bytes:
        return "\n".join(map(str, (*astuple(self), content.object_id))).encode()

    @property
    def purpose(self) -> str:
        return _ANSWERED if self.answers else _ASKED


def signed(content: RecordDict, bearing: Bearing, key: SigningKey) -> RecordDict:
    """The content with a signature added. The other records are shared, not copied."""
    plain = _plain(content)
    signature = key.sign(bearing.purpose, bearing.to_bytes(plain))
    return RecordDict({**plain, SIGNED: ConfigRecord({"signature": signature})})


def checked(content: RecordDict, bearing: Bearing, public: str) -> RecordDict:
    """The content without its signature; FederationError unless it was signed with the key of `public`."""
    record = content.get(SIGNED)
    signature = record.get("signature") if isinstance(record, ConfigRecord) else None
    plain = _plain(content)
    if not isinstance(signature, bytes) or not is_signed(
        public, bearing.purpose, bearing.to_bytes(plain), signature
    ):
        raise FederationError(f"the {bearing.purpose} lacks the signature of its alleged sender")
    return plain


def _plain(content: RecordDict) -> RecordDict:
    return RecordDict({name: record for name, record in content.items() if name != SIGNED})
