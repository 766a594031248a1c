"""The facts of a run's page: what its files say, and what follows from it.

Texts come from strangers; they are cleaned where they are shown.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fl_dp.kits.signed import Signature
from fl_dp.records import LEAST_CELL
from fl_dp.reporting.budget_table import natural
from fl_dp.reporting.page.approval import Approval
from fl_dp.reporting.page.outcomes import Outcomes
from fl_dp.reporting.reports import (
    INTERRUPTED,
    OVER,
    ClientReport,
    RoundReport,
    SiteMetrics,
    Summary,
    TestAccount,
    of_one_class,
)
from fl_dp.reporting.run_folder import ONE_RUN_LEDGER
from fl_dp.statements import AccountStatement, Stated, Statement

SAME = 1e-6  # a smaller difference between epsilons of two machines counts as none
Named = tuple[tuple[str, str], ...]

# Metrics of classes or subgroups that are shown, if small ones are known to be withheld.
_BY_PART = (
    "accuracy-per-class",
    "accuracy-per-subgroup",
    "recall-per-subgroup",
    "auroc-per-subgroup",
    "selection-rate-per-subgroup",
    "label-accuracy-per-subgroup",
    "mae-per-subgroup",
)


@dataclass(frozen=True, slots=True)
class Round:
    """One round, without its clients. counts: clients by status, in the order of CLIENT_STATUSES."""

    report: RoundReport
    counts: tuple[int, ...]

    def measured(self, name: str) -> float | None:
        """The loss, or a metric, by name."""
        return self.report.loss if name == "loss" else metrics_of(self.report).get(name)


@dataclass(frozen=True, slots=True)
class Site:
    """One statement. said: None if it is not readable. signed: by the key beside it.

    problem: why the statement does not belong to this run's model; else empty.
    """

    stated: Stated
    said: Statement | None
    signed: Signature
    problem: str = ""

    @property
    def data(self) -> tuple[AccountStatement, ...]:
        found = self.said.accounts if self.said else ()
        return tuple(sorted(found, key=lambda one: natural(one.client)))


@dataclass(frozen=True)
class RunFacts:
    """One run. said: its summary; without one (not `over`) what its last round says.

    called: the run's name, by its files. private: whether all of its files say that it is. sites: the
    statements. of_setting: what each key was in the run. settings: for keys that are no default, what was
    asked for and what ran. launch: launch.toml; empty if others started the clients. described, data: the
    model and the form of the data, by model.json. site_metrics: the last ones. masked: whether masks hid the
    parts of its secure sums; None if it opened none.
    """

    called: str
    digest: str
    over: bool
    said: Summary
    private: bool
    history: tuple[Round, ...]
    sites: tuple[Site, ...]
    approval: Approval
    of_setting: Mapping[str, str]
    settings: tuple[tuple[str, str, str], ...]
    launch: Mapping[str, Any]
    described: Mapping[str, str]
    data: Named
    site_metrics: SiteMetrics | None
    tests: Mapping[str, TestAccount]
    outcomes: Outcomes
    masked: bool | None

    @property
    def clients(self) -> Mapping[str, ClientReport]:
        return self.said.clients

    @property
    def epsilon(self) -> float:
        return math.inf if self.said.epsilon is None else self.said.epsilon

    @property
    def unit(self) -> str:
        return self.said.federation.unit if self.said.federation else "record"

    @property
    def epsilon_alone(self) -> float | None:
        """Epsilon if the assumption behind secure sums fails; None if no client's data were in such sums."""
        in_sums = any(entry.shared for one in self.said.counted.values() for entry in one.cost.charges)
        return self.said.federation.epsilon_alone if in_sums and self.said.federation else None

    @property
    def planned_rounds(self) -> int | None:
        planned = self.of_setting.get("rounds", "")
        return int(planned) if planned.isdecimal() and len(planned) < 10 else None

    @property
    def simulated(self) -> bool:
        """Whether the clients were simulated: none had a process of its own."""
        return bool(self.launch.get("engine"))

    @property
    def local(self) -> bool:
        """Whether the launch that wrote the folder started all clients, on its own machine."""
        return bool(self.launch)

    @property
    def interrupted(self) -> bool:
        return self.over and self.said.status == "failed" and self.said.reason == INTERRUPTED

    @property
    def stating(self) -> tuple[Site, ...]:
        """The sites whose statements are about this run."""
        return tuple(one for one in self.sites if not one.problem)

    @property
    def signed(self) -> int:
        """Number of clients with a valid signature under what their data have spent."""
        signed = [site for site in self.stating if site.signed is Signature.HOLDS]
        return len({data.client for site in signed for data in site.data} & self.clients.keys())

    @property
    def unreliable(self) -> int:
        """Number of statements with a wrong signature, or about another run."""
        return sum(site.signed is Signature.WRONG or bool(site.problem) for site in self.sites)

    @property
    def stated_more(self) -> list[float]:
        """The epsilons that sites of this run have stated and that are above those in the run's files."""
        stated = [
            (math.inf if data.epsilon is None else data.epsilon, self.clients.get(data.client))
            for site in self.stating
            for data in site.data
        ]
        return [epsilon for epsilon, known in stated if known and epsilon > known.epsilon + SAME]

    @property
    def above(self) -> int:
        """Number of clients that have spent more than their budget."""
        return sum(one.epsilon > one.budget + SAME for one in self.clients.values())

    @property
    def mixed(self) -> int:
        """Number of clients that have paid for more than one rate or noise in this run."""
        kinds = [
            {(e.sample_rate, e.noise_multiplier) for e in one.cost.charges} for one in self.clients.values()
        ]
        return sum(len(one) > 1 for one in kinds)

    @property
    def stopped(self) -> bool:
        """Whether the run ended before its plan, perhaps because of its results."""
        return self.over and self.said.status not in OVER

    @property
    def begun(self) -> bool:
        """Whether it has paid for a round that was begun but not finished."""
        last = self.history[-1].report.epsilon if self.history else 0.0
        return self.stopped and self.private and last < self.epsilon < math.inf

    @property
    def maybe_paid(self) -> bool:
        """Whether clients may have paid for one more round than were finished."""
        return self.stopped and not self.released_nothing and self.said.rounds != self.planned_rounds

    @property
    def released_nothing(self) -> bool:
        """Whether nothing was trained, by its files: no round, and no account has paid for it."""
        return self.over and not self.said.rounds and not self.said.counted

    @property
    def spent_nothing(self) -> bool:
        """Whether rounds were run, but no client has paid for one."""
        return self.private and bool(self.said.rounds) and not self.said.counted

    @property
    def has_model(self) -> bool:
        return self.over and bool(self.said.digests.get("model"))

    @property
    def metrics(self) -> dict[str, float | None]:
        return metrics_of(self.said)

    @property
    def by_part(self) -> dict[str, float | None]:
        """The metrics of classes and subgroups; None for those that are withheld."""
        if self.said.suppressed_below < LEAST_CELL:
            return {}
        parts = tuple(f"{metric}[" for metric in _BY_PART)
        told = self.said.metrics.items()
        return {name: value for name, value in told if name.startswith(parts) and of_one_class(name)}

    @property
    def hidden_metrics(self) -> int:
        """Number of class or subgroup metrics that are not shown."""
        return sum(map(of_one_class, self.said.metrics)) - len(self.by_part)

    @property
    def measured(self) -> bool:
        """Whether anything was measured on the server's test data."""
        reports: list[RoundReport | Summary] = [self.said, *(one.report for one in self.history)]
        return any(one is not None for report in reports for one in (report.loss, *report.metrics.values()))

    @property
    def first(self) -> str:
        """The first metric, or else the loss."""
        return next(iter(metrics_of(self.history[0].report) if self.history else self.metrics), "loss")

    @property
    def parts_hidden(self) -> bool:
        """Whether masks hid each client's part from the server. A simulation sees all parts."""
        return self.masked is not False and not self.simulated

    def knowing(self) -> list[bool | None]:
        """For each client in the federation's figures: does its ledger know of other runs?

        False: it was made for this run alone. None: the files do not say. The client's own statement decides,
        or without one the run's launch.
        """
        launched = self.launch.get(ONE_RUN_LEDGER) is not True if self.local else None
        stated = {
            one.client: not site.said.one_run_ledger
            for site in self.stating
            if site.said
            for one in site.data
        }
        return [stated.get(name, launched) for name in self.said.counted or self.clients]

    @property
    def all_steps_own(self) -> bool:
        """Whether the ledgers of all who paid show no steps of other runs."""
        return all(one.cost.taken == one.taken for one in self.said.counted.values())

    @property
    def together(self) -> list[ClientReport]:
        """The client that has spent most, in this run and others; empty if nobody has paid for this run."""
        return sorted(self.said.counted.values(), key=lambda one: -one.epsilon)[:1]


def metrics_of(report: RoundReport | Summary) -> dict[str, float | None]:
    """The metrics on all test data, by name; without any, the accuracy if it is there."""
    found = report.metrics or ({} if report.accuracy is None else {"accuracy": report.accuracy})
    return {name: value for name, value in found.items() if not of_one_class(name)}
