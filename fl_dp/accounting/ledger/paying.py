"""The account that a training loop pays from: a data set in an open ledger, with a limit."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.cost import Cost, cost_of
from fl_dp.accounting.epsilon import MAX_STEPS
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.accounting.ledger.requests import Reservation
from fl_dp.errors import ConfigError, DeclinedError, RoundTakenError
from fl_dp.records import Entry


@dataclass(frozen=True, slots=True)
class Left:
    """What an account has left.

    epsilon: of its limit, as a number to read; epsilons of different steps do not simply add up.
    steps: those that still fit; None if no rate and noise were named.
    """

    epsilon: float
    steps: int | None = None


@dataclass(frozen=True, slots=True)
class PayingAccount:
    """A data set in an open ledger, with the limit of all that is paid for it; made by `Ledger.account`.

    Runs, clients and other loops that pay for the same data set in the same file count together.

    Args:
        ledger: It must stay open while the account is used.
        name: Name of the data set in the ledger.
        size: The number of records; public.
        budget: The limit.
        records: The data set whose records pay; None if only their files are known.
        are_records_known: Whether the ledger knows these records by their contents.
        id: Number of the entry that opened the account.
        state_of_records: Shows whether the records changed later.
    """

    ledger: Ledger = field(repr=False)
    name: str
    size: int
    budget: Budget
    records: object | None = field(default=None, repr=False)
    are_records_known: bool = False
    id: int = 0
    state_of_records: object = field(default=None, repr=False)

    def spent(self) -> Cost:
        """What the data set has paid for, in all runs: `epsilon`, and the steps as `charges`."""
        return cost_of(self._entries(), self.budget.delta, self.budget.accountant)

    def left(self, *, sample_rate: float | None = None, noise_multiplier: float | None = None) -> Left:
        """What may still be spent: epsilon and, for steps of that rate and noise, how many of them.

        Raises:
            ConfigError: One of the two alone.
        """
        entries = self._entries()
        epsilon = max(0.0, self.budget.epsilon - self.budget.epsilon_of(entries))
        if sample_rate is None and noise_multiplier is None:
            return Left(epsilon)
        if sample_rate is None or noise_multiplier is None:
            raise ConfigError("left: give both sample_rate and noise_multiplier, or neither.")
        most = Entry(sample_rate, noise_multiplier, MAX_STEPS)
        return Left(epsilon, self.budget.steps_that_fit(most, entries))

    def pay(self, run: str, entry: Entry) -> Reservation:
        """Pay for as many of the entry's steps as still fit, as the next round of `run`; on return it is on
        the disk. A round is never repeated: a run that begins again pays anew.

        Raises:
            BudgetExhaustedError: Not one step fits.
            DeclinedError: Another rate or noise than before, without `vary_mechanism`; data that were
                trained without protection; or an account that was retired.
            LedgerError: The file cannot be written.
        """
        while True:
            if self.id not in (held.id for held in self.ledger.accounts() if held.retired is None):
                raise DeclinedError(f"Account {self.name} was retired: open an account of these data again.")
            try:
                return self.ledger.reserve(self.name, run, self._next_round(run), entry, self.budget)
            except RoundTakenError:  # another process paid in this run just now
                continue

    def in_words(self) -> str:
        """ "account ehr, all runs together: epsilon 2.9917 of 3 is spent at delta 1e-05, by pld"."""
        return f"account {self.name}, all runs together: {self.budget.in_words(self._entries())}"

    def _entries(self) -> Sequence[Entry]:
        return self.ledger.spent(self.name)

    def _next_round(self, run: str) -> int:
        """From 1; rounds of a retired account of this name are not counted again."""
        rounds = (one for held in self.ledger.accounts() if held.dataset == self.name for one in held.rounds)
        return 1 + max((one.server_round for one in rounds if one.run == run), default=0)
