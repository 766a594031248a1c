"""What a site signs at the end of a run: what its data have spent, and which model it received.

A statement commits to the site's ledger without revealing it. It holds a hash of the ledger's last hash,
which covers all entries, salted with 32 secret bytes that never leave the site. Without the salt, somebody
who knows all other entries could confirm a guess of the last one.
"""

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Self

from fl_dp.errors import ConfigError
from fl_dp.records import Arithmetic, Entry, Leaves
from fl_dp.schema import Count, Digits, Range, UnfitError, canonical, read

PURPOSE = "statement"  # of the signature
SALT_BYTES = 32
MOST_CHARACTERS = 2**20  # of a real site's statement; the server reads no longer one
Digest = Annotated[str, Digits(64)]
NotNegative = Annotated[float, Range(0, 1.7e308)]


@dataclass(frozen=True, slots=True)
class AccountStatement:
    """One data set's account, over all runs.

    client: its name in this run. public_size: in units; unit: "record" or "person". epsilon: None if no
    epsilon holds any more. epsilon_alone: the epsilon if the assumption behind secure sums fails, None if
    none holds; stated only if some of `spent` went into such sums. kind: of the data, if the name `data` does
    not show it. other_runs: the part of `spent` that other runs than the statement's cost. Older sites state
    neither kind nor other_runs.
    """

    client: Annotated[str, Leaves("its operator's choice, else the name of kit or host")]
    data: Annotated[
        str,
        Leaves("its operator's choice, else as kind"),
    ]
    unit: Annotated[str, Leaves("its operator's choice")]
    public_size: Annotated[Count, Leaves("declared public by its operator")]
    spent: Annotated[tuple[Entry, ...], Leaves("from servers' plans and public numbers")]
    epsilon: Annotated[NotNegative | None, Leaves("computed from spent")]
    delta: Annotated[NotNegative, Leaves("its operator's choice")]
    budget: Annotated[NotNegative, Leaves("its operator's choice")]
    accountant: Annotated[str, Leaves("its operator's choice")]
    arithmetic: Annotated[Arithmetic, Leaves("from servers' plans and public numbers")]
    epsilon_alone: Annotated[NotNegative | None, Leaves("computed from spent")] = None
    kind: Annotated[str, Leaves("the kind of file, or the task's class")] = ""
    other_runs: Annotated[tuple[Entry, ...], Leaves("from servers' plans and public numbers")] = ()


@dataclass(frozen=True, slots=True)
class Statement:
    """What one ledger says about the data that took part in a run.

    run: its name in the ledger; weights: digest of the model that the site received (`weights_digest`).
    commitment: to the ledger's last hash, see `commitment`. retired: the number of accounts in the ledger
    whose spending no longer counts. date: UTC, ISO 8601. version: of fl_dp. one_run_ledger: the ledger was
    made for this run alone and does not know what other runs have spent; stated only if true.
    """

    run: Annotated[str, Leaves("from the server")]
    weights: Annotated[Digest, Leaves("from the server")]
    commitment: Annotated[Digest, Leaves("hidden by 32 secret bytes of its own")]
    retired: Annotated[Count, Leaves("its operator's choice")]
    date: Annotated[str, Leaves("of the moment and the software")]
    version: Annotated[str, Leaves("of the moment and the software")]
    accounts: Annotated[tuple[AccountStatement, ...], Leaves("see there")]
    one_run_ledger: Annotated[bool, Leaves("its operator's choice")] = False

    def to_text(self) -> str:
        """The statement as canonical JSON; the signature covers these bytes."""
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
        return canonical(found)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The inverse of `to_text`; ConfigError unless the text is a statement in canonical form."""
        try:
            statement = read(cls, json.loads(text))
        except UnfitError as error:
            raise ConfigError(f"not a readable statement: {error.words}.") from None
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"not a readable statement ({type(error).__name__}).") from None
        if statement.to_text() != text:
            raise ConfigError("not a readable statement (not in canonical form).")
        return statement


@dataclass(frozen=True, slots=True)
class Stated:
    """A statement's text as received, with the site's public key and signature, in hex.

    Both are empty in a simulation, whose clients have no keys.
    """

    text: str
    key: str = ""
    signature: str = ""


def stated_in(found: Any, where: str) -> list[Stated]:
    """The statements in a JSON file's content; ConfigError, which names `where`, if they are damaged."""
    rows = found.get("statements") if isinstance(found, dict) else None
    with suppress(UnfitError):
        if isinstance(rows, list):
            return [read(Stated, one, whole=True, others=True) for one in rows]
    raise ConfigError(f"{where}: is damaged: it holds no list of statements.")


def commitment(salt: bytes, head: str) -> str:
    """SHA-256 in hex over the salt and the hash of the ledger's last entry.

    It binds, because SHA-256 has no known collisions, and hides, because nobody can guess the salt.
    """
    return hashlib.sha256(b"fl_dp ledger head\0" + salt + head.encode()).hexdigest()
