"""Reports of the rounds and of the run: its cost for the clients it asked, and what each ledger shows."""

import dataclasses
import logging
import math
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

from flwr.app import MetricRecord

from fl_dp.accounting.budget import BudgetReport, federation_budget
from fl_dp.accounting.cost import largest_alone
from fl_dp.accounting.events import beyond
from fl_dp.config.flat import AUTO
from fl_dp.config.run import RunConfig
from fl_dp.config.run_settings import FIXED
from fl_dp.federation.devices import find_device
from fl_dp.federation.server.ask import Asked
from fl_dp.federation.server.client_record import ClientRecord
from fl_dp.federation.server.combine import Aggregator
from fl_dp.federation.server.planning import most_rounds, participations
from fl_dp.federation.server.registration import Registration
from fl_dp.federation.server.verify import Verdict
from fl_dp.reporting.reports import (
    RUN_EPSILON_SPENT,
    ClientReport,
    FederationBudget,
    OpenedSum,
    RoundReport,
    RunStatus,
    SiteMetrics,
)
from fl_dp.reporting.wording import by_reason

logger = logging.getLogger("fl_dp")


class RunReporter:
    """verdicts: on the clients asked in the latest round. last_round: number of the run's last round."""

    def __init__(self, config: RunConfig, registration: Registration) -> None:
        self._config, self._registration = config, registration
        self._most = most_rounds(config)
        self.verdicts: dict[str, Verdict] = {}
        self.last_round = config.rounds
        self.reports: list[RoundReport] = []
        self.lost = ""  # why the last round's updates were not used, if they were not
        self.opened: OpenedSum | None = None  # the last round's
        self.site_metrics: SiteMetrics | None = None  # of the last round; None if they were not due

    def restore(self, report: RoundReport) -> None:
        self.reports = [report]
        self.verdicts = {name: Verdict(one.status, one.reason) for name, one in report.clients.items()}

    def announce(self) -> None:
        c = self._config
        logger.info(
            "%d rounds of %d clients (at least %d connected), noise multiplier %s, clipping bound %g, "
            "weights %s",
            c.rounds,
            c.fit_clients,
            c.min_clients,
            c.noise_multiplier,
            c.max_grad_norm,
            c.weights,
        )

    def report(
        self, server_round: int, asked: Sequence[Asked], metrics: MetricRecord, seconds: float
    ) -> RoundReport:
        cost = self.guarantee()
        assert cost is not None  # a round has clients
        ahead = self.last_round - server_round
        clients = {
            name: client_round(client, self._verdict(client), ahead) for name, client in self._by_name()
        }
        lost_before = self.reports[-1].lost_rounds if self.reports else 0
        report = RoundReport(
            round=server_round,
            private=self._config.private,
            epsilon=cost.epsilon,
            delta=cost.delta,
            federation=self._federation(cost, clients, ahead),
            noise_multiplier=min((one.mechanism.noise_multiplier for one in asked), default=0.0) or None,
            clients=clients,
            loss=scalar(metrics, "loss"),
            accuracy=scalar(metrics, "accuracy"),
            seconds=seconds,
            metrics=measured(metrics),
            lost=self.lost,
            lost_rounds=lost_before + bool(self.lost),
            secure_sum=self.opened,
            site_metrics=self.site_metrics,
        )
        self.reports.append(report)
        return report

    @property
    def masked(self) -> bool | None:
        """Whether masks hid the parts of all opened secure sums; None if there were none."""
        found = [report.secure_sum.masked for report in self.reports if report.secure_sum]
        return all(found) if found else None

    def outcome(self, *, nobody_left: bool) -> tuple[RunStatus, str]:
        """How the run ended, and why, if not as planned. nobody_left: too few clients could take a step."""
        clients, last = self._registration.clients.values(), self.reports[-1] if self.reports else None
        if nobody_left:
            if not any(client.mechanism is not None or client.exhausted for client in clients):
                return "failed", by_reason((client.name, client.reason) for client in clients)
            if any(client.can_take_part() for client in clients):
                return "budget-exhausted", (
                    "Fewer connected clients than min-updates asks for have budget for one more step."
                )
            if any(client.run_is_spent for client in clients):
                return "budget-exhausted", RUN_EPSILON_SPENT
            return "budget-exhausted", "No client has budget for one more step."
        lost = [report.lost for report in self.reports if report.lost]
        if last and lost and self._has_not_changed(last):
            return "failed", f"No round has changed the model. The last lost round: {lost[-1]}"
        if not any(client.rounds for client in clients):
            reasons = by_reason((name, one.reason) for name, one in last.clients.items()) if last else ""
            return "failed", f"No client ever trained: {reasons}"
        return "completed", ""

    def _has_not_changed(self, last: RoundReport) -> bool:
        """Whether no round has changed the model. A resumed run has only the last report of those before."""
        changed = any(_changed_the_model(report) for report in self.reports)
        return last.lost_rounds == last.round or (len(self.reports) == last.round and not changed)

    def budgets(self) -> dict[str, ClientReport]:
        """The present status of every client that ever registered."""
        return {
            name: client_budget(client, self._verdict(client), self._ahead, self.last_round)
            for name, client in self._by_name()
        }

    def guarantee(self, rounds_more: int = 0) -> BudgetReport | None:
        """What this run has cost so far; None before the first client.

        rounds_more: as if everyone who has paid took part in so many more rounds.
        """
        clients = self._registration.clients.values()
        paid = [client for client in clients if client.has_cost]
        return cost_of_run(paid, self._config, rounds_more) if clients else None

    def planned(self) -> BudgetReport | None:
        """What this run costs if all planned rounds are run; None before the first client."""
        return self.guarantee(self._ahead)

    def federation(self) -> FederationBudget | None:
        """The status of all budgets; None before the first client."""
        cost = self.guarantee()
        return None if cost is None else self._federation(cost, self.budgets(), self._ahead)

    def _federation(
        self, cost: BudgetReport, clients: Mapping[str, ClientReport], ahead: int
    ) -> FederationBudget:
        known = self._registration.clients
        paid = {name: one for name, one in clients.items() if known[name].has_cost}
        early = [name for name in paid if self._runs_out(known[name], ahead)]
        return federation_of(cost, paid, early, ahead, self._config)

    def _runs_out(self, client: ClientRecord, ahead: int) -> bool:
        """Whether its budget ends before the rounds, of the `ahead` to come, in which it is expected."""
        expected = min(ahead, max(0, self._most - client.turns))
        return client.rounds_left(expected) < expected

    @property
    def _ahead(self) -> int:
        """The number of planned rounds that have not been run."""
        return self.last_round - (self.reports[-1].round if self.reports else 0)

    def _by_name(self) -> list[tuple[str, ClientRecord]]:
        return sorted(self._registration.clients.items())

    def _verdict(self, client: ClientRecord) -> Verdict:
        return self.verdicts.get(client.name) or _idle(self._registration.why_idle(client))


def _changed_the_model(report: RoundReport) -> bool:
    return not report.lost and any(client.status == "trained" for client in report.clients.values())


@lru_cache(maxsize=64)
def _idle(reason: str) -> Verdict:
    """Cached, because most clients are idle in most rounds, for few reasons."""
    return Verdict("idle", reason)


def measured(metrics: MetricRecord) -> dict[str, float | None]:
    """All metrics but the loss, by name."""
    return {name: scalar(metrics, name) for name in metrics if name != "loss"}


def scalar(metrics: MetricRecord, name: str) -> float | None:
    """The metric; None if it was not measured, or is not finite."""
    value = metrics.get(name)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def cost_of_run(clients: Collection[ClientRecord], config: RunConfig, rounds_more: int = 0) -> BudgetReport:
    """What this run costs a record of one of `clients` after `rounds_more` more rounds; zero without clients.

    clients: those that have paid for it, or in a forecast those that will. What they claim to have spent
    before does not count. A run without privacy guarantees nothing to anybody.
    """
    spent = [(client.run_epsilon_after(rounds_more), client.profile.delta) for client in clients]
    cost = federation_budget(spent or [(0.0, 0.0)])
    return cost if config.private else dataclasses.replace(cost, epsilon=math.inf)


def federation_of(
    cost: BudgetReport,
    clients: Mapping[str, ClientReport],
    running_out: Sequence[str],
    rounds_ahead: int,
    config: RunConfig,
) -> FederationBudget:
    """The budgets of the clients that `cost` covers, `rounds_ahead` rounds before the end."""
    alone = largest_alone([client.cost for client in clients.values()])
    return FederationBudget(
        largest=cost.largest,
        median=cost.median,
        least=cost.least,
        accountants=tuple(sorted({client.accountant for client in clients.values()})),
        arithmetic=config.arithmetic,
        unit=config.unit_name,
        rounds_ahead=rounds_ahead,
        running_out=tuple(running_out),
        # composed as in `federation_budget`; None if no client's data were in a secure sum
        epsilon_alone=math.inf if alone is not None and math.isinf(cost.epsilon) else alone,
    )


def client_round(client: ClientRecord, verdict: Verdict, rounds_ahead: int) -> ClientReport:
    asked = verdict.mechanism or client.mechanism
    return _client_report(
        **_in_both(client, verdict, rounds_ahead),
        reported=verdict.reported,
        scaled=verdict.scaled,
        shares=asked.shares if asked else 1,
        this_run=client.cost_of_run if client.has_more_than_the_run else None,
    )


_client_report = lru_cache(maxsize=4096)(ClientReport)  # cached, because most clients of a round are alike


def client_budget(client: ClientRecord, verdict: Verdict, rounds_ahead: int, rounds: int) -> ClientReport:
    """The client's part of summary.json. rounds_ahead: rounds before the planned end, of `rounds` in all."""
    this_run = None
    if client.has_more_than_the_run:
        claimed = client.budget.epsilon_of(beyond(client.cost.charges, client.cost_of_run.charges))
        this_run = dataclasses.replace(
            client.cost_of_run,
            planned_epsilon=client.run_epsilon_after(rounds_ahead),
            claimed_epsilon=claimed,
        )
    return ClientReport(
        **_in_both(client, verdict, rounds_ahead),
        rounds=client.rounds,
        rounds_beyond=max(0, client.rounds_left(rounds_ahead + rounds) - rounds_ahead),
        retired=client.profile.retired,
        public_size=client.profile.public_size,
        before=client.before,
        planned_epsilon=client.epsilon_after(rounds_ahead),
        budget_alone=client.budget.epsilon_alone,
        this_run=this_run,
    )


def _in_both(client: ClientRecord, verdict: Verdict, rounds_ahead: int) -> dict[str, Any]:
    mechanism = client.mechanism if client.mechanism and client.mechanism.private else None
    cost = client.cost
    return {
        "charges": cost.charges,
        "epsilon": cost.epsilon,
        "epsilon_alone": cost.epsilon_alone,
        "accountant": client.profile.accountant,
        "arithmetic": client.arithmetic,
        "budget": client.profile.epsilon,
        "delta": client.profile.delta,
        "steps": cost.taken,
        "rounds_left": client.rounds_left(rounds_ahead),
        "status": verdict.status,
        "reason": verdict.reason,
        "sample_rate": mechanism.sample_rate if mechanism else None,
        "noise_multiplier": mechanism.noise_multiplier if mechanism else None,
    }


def resolved(config: RunConfig, clients: Collection[ClientRecord], aggregator: Aggregator) -> RunConfig:
    """The config, with each "auto" replaced that has one value for the server and all `clients`.

    Values that differ between clients stay "auto" (rounds.jsonl has each client's). So do those that each
    machine decides: memory sizes, and how many clients train at a time.
    """
    noises = {one.mechanism.noise_multiplier for one in clients if one.mechanism and one.mechanism.private}
    found = {
        "noise_multiplier": _the_one(noises),
        "delta": _the_one({one.profile.delta for one in clients}),
        "sampling": FIXED,
        "participations": participations(config),
        "min_updates": aggregator.least_updates(config.fit_clients),
        "device": find_device(config.device).type,
    }
    changes = {k: v for k, v in found.items() if v is not None and getattr(config, k) == AUTO}
    return dataclasses.replace(config, **changes)


def _the_one(values: Collection[float]) -> Any:
    return next(iter(values)) if len(values) == 1 else None
