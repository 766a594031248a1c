"""An engine that pays: a ledger's account is charged for each round before a record of it is read.

The sampler asks for the source of each draw, also ahead of the loop. A draw that is not paid for yet is paid
first, on the disk. So a loader that reads ahead reads no record of an unpaid step, and a process that dies
has paid for all that it drew. Draws and noise follow from the payment's secret bytes, which only this object
has.
"""

import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fl_dp.engine.noise.randomness import Randomness
from fl_dp.engine.sampling import PoissonSampler
from fl_dp.errors import BudgetExhaustedError, ConfigError
from fl_dp.privacy_engine.counts import is_within, state_of
from fl_dp.privacy_engine.settings import EngineNoise
from fl_dp.records import Entry

if TYPE_CHECKING:  # an engine that does not pay loads no ledger
    from fl_dp.accounting.ledger.paying import PayingAccount
    from fl_dp.accounting.ledger.requests import Reservation


@dataclass(frozen=True, slots=True)
class _PaidStep:
    """A step that may be taken. last: of its payment."""

    source: Randomness
    payment: "Reservation"
    last: bool


class Payments:
    """The payments of one engine.

    step: one of its steps. most: steps of a round; None for all that a pass over the sampler still has.
    """

    def __init__(self, account: "PayingAccount", run: str, step: Entry, most: int | None) -> None:
        self._account, self._run, self._step, self._most = account, run, step, most
        self._owed: deque[_PaidStep] = deque()  # paid for, and not taken yet
        self._taken, self._process = 0, os.getpid()
        self.are_records_seen = False

    def sources(self, wanted: int) -> Iterator[Randomness]:
        """For each draw of a pass, where it draws from; the first is of the first step that is not taken yet.

        wanted: the draws that the pass still has. If the account has no room for more, the pass ends after
        the steps that are paid for. BudgetExhaustedError if there are none.
        """
        first = self._taken
        for ahead in range(wanted):
            number = first + ahead - self._taken  # steps may be taken meanwhile
            if number < 0:  # of a loop that was left, and another has gone on
                return
            if number == len(self._owed):
                try:
                    self._pay(min(self._most or wanted, wanted - ahead))
                except BudgetExhaustedError:
                    if ahead:
                        return
                    raise
            yield self._owed[number].source

    def take(self, drawn: object) -> Randomness:
        """The source of the step that is taken now, and of none after it. drawn: where its draw came from.

        A step before it that was interrupted between its draw and its noise is over, and stays spent.
        """
        self._check_process()
        while self._owed:
            step = self._owed.popleft()
            self._taken += 1
            if step.source is drawn:
                if step.last:  # its noise is not drawn yet: LedgerError if the account was retired meanwhile
                    self._account.ledger.commit(step.payment)
                return step.source
        raise ConfigError(
            "This draw was not paid for, or already had its step: begin a new loop over the loader."
        )

    def see(self, dataset: object) -> None:
        """ConfigError if the loader reads records other than the account's. dataset: None if unknown."""
        records = self._account.records
        if state_of(records) != self._account.state_of_records:
            raise ConfigError(
                f"The tensors of account {self._account.name} were changed or written to since it was "
                "opened: the ledger knows other records. Open the account after preparing the data."
            )
        if records is not None and dataset is not None and not is_within(dataset, records):
            raise ConfigError(
                f"The loader's data set is not that of account {self._account.name}, nor a Subset of it: "
                "another account would have to pay. Give Ledger.account(records=...) the very data set that "
                "the loader gets."
            )
        known = self._account.are_records_known
        self.are_records_seen = known and records is not None and dataset is not None

    def check_sampler(self, sampler: PoissonSampler | None) -> None:
        """ConfigError unless the sampler can draw from payments."""
        if sampler is None:
            raise ConfigError(
                "account= pays before a record is drawn, which needs a sampler: attach(optimizer, "
                "sampler=PoissonSampler(...))."
            )
        if not sampler.is_own_generator:
            raise ConfigError("Draws follow from payments: leave out PoissonSampler(generator=...).")

    def in_words(self) -> str:
        return self._account.in_words()

    def _pay(self, steps: int) -> None:
        self._check_process()
        asked = Entry(self._step.sample_rate, self._step.noise_multiplier, steps)
        paid = self._account.pay(self._run, asked)
        randomness, steps = Randomness(paid.key), paid.entry.steps
        self._owed.extend(
            _PaidStep(randomness.child("step", number), paid, number == steps - 1) for number in range(steps)
        )

    def _check_process(self) -> None:
        """After os.fork both processes would take the same steps, from one payment."""
        if os.getpid() != self._process:
            raise ConfigError(
                "This process is a copy of the one that pays: make the engine here, after the fork, with an "
                "account of a ledger that is opened here."
            )


def payments_of(
    account: "PayingAccount | None",
    run: str,
    step: Entry,
    most: int | None,
    *,
    sample_size: int,
    asked: tuple[float | None, float, str],
    source: EngineNoise,
    has_ranks: bool,
) -> Payments | None:
    """The payments of an engine; None without an account. ConfigError for what does not go with the account.

    asked: the engine's target epsilon, delta and accountant.
    """
    if account is None:
        if run or most is not None:
            raise ConfigError("run= and steps_per_payment= go with account=, which pays.")
        return None
    target, *agreed = asked
    budget = account.budget
    if has_ranks or source != "secure":
        raise ConfigError("account= pays for one process and its secret noise: leave out ranks=, generator=.")
    if not run.strip():
        raise ConfigError('account= needs run="...", a name that the ledger shows beside what it paid.')
    if most is not None and most < 1:
        raise ConfigError(f"Expected steps_per_payment={most} >= 1.")
    if not step.private:
        raise ConfigError("noise_multiplier=0: an account pays only for steps with noise.")
    if agreed != [budget.delta, budget.accountant]:
        raise ConfigError(
            f"The account's limit holds at delta {budget.delta:g} by {budget.accountant}, and the engine has "
            f"delta {agreed[0]:g} by {agreed[1]}; leave out target_delta and accountant."
        )
    if target is not None and target > budget.epsilon:
        raise ConfigError(
            f"target_epsilon={target:g} is above the account's limit {budget.epsilon:g}: the run would be "
            "stopped. Plan it within what account.left() says."
        )
    if sample_size > account.size:
        raise ConfigError(f"sample_size={sample_size} is above the account's {account.size} records.")
    return Payments(account, run, step, most)
