"""What is asked of a site, and what it answers, signed itself: by the server's key, and by the site's.

A signature stands in the message, in a record of its own. It holds for one federation, run, round, site and
kind of message, so that nobody who passes a message on can change it or send it elsewhere.
"""

from dataclasses import dataclass
from typing import Self

from flwr.app import ConfigRecord, Metadata, RecordDict

from fl_dp.errors import FederationError
from fl_dp.kits.keys import SigningKey, is_signed

SIGNED = "signed"
_ASKED, _ANSWERED = "instruction", "reply"


@dataclass(frozen=True, slots=True)
class Bearing:
    """What a signature holds for besides the content. site: the public key of the site that is asked.

    answers: the id of the message that is answered, which follows from all of it; empty in an instruction.
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
        """Of the message with that metadata, or of the answer to it; the same at both ends."""
        return cls(
            federation,
            metadata.run_id,
            metadata.message_type,
            metadata.group_id,
            site,
            metadata.created_at,
            answers,
        )

    def to_bytes(self, content: RecordDict) -> bytes:
        parts = (
            self.federation, str(self.run), self.message_type, self.group, self.site, repr(self.created),
            self.answers, content.object_id,
        )  # fmt: skip
        return "\n".join(parts).encode()

    @property
    def purpose(self) -> str:
        return _ANSWERED if self.answers else _ASKED


def signed(content: RecordDict, bearing: Bearing, key: SigningKey) -> RecordDict:
    """The content with a signature; its own records are shared, not copied."""
    plain = _plain(content)
    signature = key.sign(bearing.purpose, bearing.to_bytes(plain))
    return RecordDict({**plain, SIGNED: ConfigRecord({"signature": signature})})


def checked(content: RecordDict, bearing: Bearing, public: str) -> RecordDict:
    """The content without its signature; FederationError unless the key `public` is of who signed it."""
    record = content.get(SIGNED)
    signature = record.get("signature") if isinstance(record, ConfigRecord) else None
    plain = _plain(content)
    if not isinstance(signature, bytes) or not is_signed(
        public, bearing.purpose, bearing.to_bytes(plain), signature
    ):
        raise FederationError(f"the {bearing.purpose} lacks the signature of who is said to have sent it")
    return plain


def _plain(content: RecordDict) -> RecordDict:
    return RecordDict({name: record for name, record in content.items() if name != SIGNED})
