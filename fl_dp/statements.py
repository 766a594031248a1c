"""What a site says at the end of a run, and signs: what its data have spent, and which model it was sent.

A statement commits to the ledger of the site without showing anything of it: the hash that stands for all of
the ledger's entries, hidden by 32 secret bytes that never leave the site. A bare hash would confirm the last
entry to somebody who has guessed the others.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Self

from fl_dp.decoding import By, Count, Digits, Range, UnfitError, decode, one_of
from fl_dp.errors import ConfigError
from fl_dp.records import PAID_UNDER, Entry, Leaves

PURPOSE = "statement"  # of the signature
SALT_BYTES = 32
MOST_CHARACTERS = 2**20  # of one real site's; the server reads no longer one
Digest = Annotated[str, Digits(64)]
NotNegative = Annotated[float, Range(0, 1.7e308)]


@dataclass(frozen=True, slots=True)
class AccountStatement:
    """One data set, over all runs. client: of this run. epsilon: None where none holds any more.
    epsilon_alone: if the assumption behind secure sums fails, None where none holds; stated where any of
    what is spent was of such sums, and nowhere else. kind: of the data, where `data` is a name that hides it.
    other_runs: what of `spent` was paid for other runs than the statement's. Older sites state neither.

    public_size: in units; unit: "record" or "person".
    """

    client: Annotated[str, Leaves("its operator's choice; else the kit's name, or without a kit the host's")]
    data: Annotated[
        str,
        Leaves("its operator's choice; else of a file's name only the kind, of a task the name of its class"),
    ]
    unit: Annotated[str, Leaves("its operator's choice")]
    public_size: Annotated[Count, Leaves("declared public by its operator")]
    spent: Annotated[tuple[Entry, ...], Leaves("from plans, which servers chose, and from public numbers")]
    epsilon: Annotated[NotNegative | None, Leaves("computed from spent")]
    delta: Annotated[NotNegative, Leaves("its operator's choice")]
    budget: Annotated[NotNegative, Leaves("its operator's choice")]
    accountant: Annotated[str, Leaves("its operator's choice")]
    arithmetic: Annotated[str, By(one_of(PAID_UNDER)), Leaves("from plans, which servers chose")]
    epsilon_alone: Annotated[NotNegative | None, Leaves("computed from spent")] = None
    kind: Annotated[str, Leaves("of a file's name only the kind, of a task the name of its class")] = ""
    other_runs: Annotated[tuple[Entry, ...], Leaves("from plans, which servers chose")] = ()


@dataclass(frozen=True, slots=True)
class Statement:
    """What one ledger says of the data that took part in a run.

    run: its name in the ledger; weights: digest of the model that the site was sent (`weights_digest`).
    commitment: to the ledger's last hash, see `commitment`. retired: accounts of the ledger whose spending
    counts no more. date: UTC, ISO 8601. version: of fl_dp. one_run_ledger: the ledger was made for this run
    alone, and does not know what other runs have spent; stated where it is so, and nowhere else.
    """

    run: Annotated[str, Leaves("the server's choice")]
    weights: Annotated[Digest, Leaves("of what the server has sent")]
    commitment: Annotated[Digest, Leaves("hidden by 32 secret bytes of its own")]
    retired: Annotated[Count, Leaves("its operator's acts")]
    date: Annotated[str, Leaves("when the message came")]
    version: Annotated[str, Leaves("of the software")]
    accounts: Annotated[tuple[AccountStatement, ...], Leaves("see there")]
    one_run_ledger: Annotated[bool, Leaves("its operator's choice")] = False

    def to_text(self) -> str:
        """The statement as JSON, in its one spelling: these are the bytes that are signed."""
        found = asdict(self)
        if not self.one_run_ledger:
            del found["one_run_ledger"]
        for account, written in zip(self.accounts, found["accounts"], strict=True):
            written["spent"] = [entry.to_dict() for entry in account.spent]
            written["other_runs"] = [entry.to_dict() for entry in account.other_runs]
            if not any(entry.shared for entry in account.spent):
                del written["epsilon_alone"]
            for name in ("kind", "other_runs"):
                if not written[name]:
                    del written[name]
        return json.dumps(found, sort_keys=True, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """ConfigError unless the text is a statement, in that spelling."""
        try:
            statement = decode(cls, json.loads(text))
        except UnfitError as error:
            raise ConfigError(f"no readable statement: {error.problem}.") from None
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"no readable statement ({type(error).__name__}).") from None
        if statement.to_text() != text:
            raise ConfigError("no readable statement (another spelling).")
        return statement


@dataclass(frozen=True, slots=True)
class Stated:
    """A statement's text as it came, with the public key and signature of the site, in hex.

    Both are empty where nobody has signed: the clients of a simulation have no keys.
    """

    text: str
    key: str = ""
    signature: str = ""


def stated_in(found: Any, where: str) -> list[Stated]:
    """The statements in a JSON file's content; ConfigError, which names `where`, if it is no list of them."""
    rows = found.get("statements") if isinstance(found, dict) else None
    if not isinstance(rows, list) or not all(map(_is_stated, rows)):
        raise ConfigError(f"{where}: is damaged: it holds no list of statements.")
    return [Stated(one["text"], one["key"], one["signature"]) for one in rows]


def _is_stated(found: Any) -> bool:
    return isinstance(found, dict) and all(
        isinstance(found.get(name), str) for name in ("text", "key", "signature")
    )


def commitment(salt: bytes, head: str) -> str:
    """SHA-256 in hex over the salt and the hash of the ledger's last entry.

    Binding, because SHA-256 has no known collisions; hiding, because nobody can guess the salt.
    """
    return hashlib.sha256(b"fl_dp ledger head\0" + salt + head.encode()).hexdigest()
