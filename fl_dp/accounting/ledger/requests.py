"""The requests to a ledger, to enter data and to pay for rounds, and its answers: plain values."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from fl_dp.accounting.budget import Budget
from fl_dp.config.data import RECORD
from fl_dp.records import STEADY_ROWS, Entry

OF_FILES = "files "  # begins the fingerprint of data that are known by their files alone
Digests = Callable[[], Iterable[bytes]]  # digests of a data set's records; called once, at its first use


@dataclass(frozen=True, slots=True)
class DataDeclaration:
    """A data set to be entered in a ledger.

    fingerprint: of the contents, so that a changed or renamed set is noticed. source: the whole set of which
    this one is a part, by `cut` (see `Identity`); empty if it is no part. digests: so that a set with many
    of the same records is noticed. Only a keyed sample of them is kept, in this file alone.
    unit: what public_size counts, "record" or "person". person_digests: like digests, of the persons' ids, or
    of the names by which records are grouped; None if there are none. file_digests: like digests, of the
    files that the records are in, and of these files' lines.
    """

    dataset: str
    fingerprint: str
    public_size: int
    source: str = ""
    cut: str = ""
    digests: Digests | None = None
    unit: str = RECORD
    person_digests: Digests | None = None
    file_digests: Digests | None = None


@dataclass(frozen=True, slots=True)
class ReservationRequest:
    """A round to be paid for, see `Ledger.reserve`.

    entry: all the round's steps. budget: the limit; None for training without protection, whose noise
    multiplier is 0. arithmetic: one of `ARITHMETICS`.
    inputs: a digest of all that decides the round's result, except the data and the key of its `Reservation`.
    A round that was already paid for with the same inputs gives the same result again as long as that key is
    kept, and need not be paid for again. Empty: the round is never repeated, and its key never kept.
    """

    dataset: str
    run: str
    server_round: int
    entry: Entry
    budget: Budget | None
    inputs: str = ""
    arithmetic: str = STEADY_ROWS


@dataclass(frozen=True, slots=True)
class Reservation:
    """Steps that are paid for and may now be taken; `id` is the number of their entry.

    key: 32 secret bytes, drawn for this payment alone. All random numbers of its steps follow from them.
    If the round may be repeated, the ledger keeps them until `Ledger.erase_keys`, and a repetition gets the
    same. Otherwise only this value ever holds them.
    committed: the same round was committed before. Its result may have left then, and is the same now.
    """

    id: int
    entry: Entry
    key: bytes = field(repr=False)
    committed: bool = False
