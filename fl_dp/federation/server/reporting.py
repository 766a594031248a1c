"""What is said of a round and of the run: of the federation what this run has cost those that it asked, of
each client what its ledger shows.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

from flwr.app import MetricRecord

from fl_dp.accounting.budget import BudgetReport
from fl_dp.config.run import RunConfig
from fl_dp.federation.server import status
from fl_dp.federation.server.asking import Asked
from fl_dp.federation.server.client_record import ClientRecord
from fl_dp.federation.server.registration import Registration
from fl_dp.federation.server.replies import Verdict
from fl_dp.reporting.reports import (
    ClientBudget,
    ClientRound,
    FederationBudget,
    OpenedSum,
    RoundReport,
    RunStatus,
)

logger = logging.getLogger("fl_dp")


class Reporting:
    """verdicts: on the clients that were asked in the last round. last_round: of the run, its number."""

    def __init__(self, config: RunConfig, registration: Registration) -> None:
        self._config, self._registration = config, registration
        self.verdicts: dict[str, Verdict] = {}
        self.last_round = config.rounds
        self.reports: list[RoundReport] = []
        self.lost = ""  # why the last round's updates were not used, if they were not
        self.opened: OpenedSum | None = None  # of the last round

    def restore(self, report: RoundReport) -> None:
        """Go on after that round."""
        self.reports = [report]
        self.verdicts = {name: Verdict(one.status, one.reason) for name, one in report.clients.items()}

    def announce(self) -> None:
        """Log what is about to be run."""
        c = self._config
        logger.info(
            "%d rounds of %d clients (at least %d there), noise multiplier %s, clipping bound %g, weights %s",
            c.rounds, c.fit_clients, c.min_clients, c.noise_multiplier, c.max_grad_norm, c.weights,
        )  # fmt: skip

    def report(
        self, server_round: int, asked: Sequence[Asked], metrics: MetricRecord, seconds: float
    ) -> RoundReport:
        """The report of a round that is over; it is kept."""
        guarantee = self.guarantee()
        assert guarantee is not None  # a round has clients
        ahead = self.last_round - server_round
        clients = {
            name: status.client_round(client, self._verdict(client), ahead)
            for name, client in sorted(self._clients.items())
        }
        report = RoundReport(
            round=server_round,
            private=self._config.private,
            epsilon=guarantee.epsilon,
            delta=guarantee.delta,
            federation=self._together(guarantee, clients, ahead),
            noise_multiplier=min((one.mechanism.noise_multiplier for one in asked), default=0.0) or None,
            clients=clients,
            loss=scalar(metrics, "loss"),
            accuracy=scalar(metrics, "accuracy"),
            seconds=seconds,
            metrics=measured(metrics),
            lost=self.lost,
            lost_rounds=self.lost_rounds + bool(self.lost),
            secure_sum=self.opened,
        )
        self.reports.append(report)
        return report

    @property
    def masked(self) -> bool | None:
        """Whether masks hid the parts of all secure sums that were opened; None where there were none."""
        found = [report.secure_sum.masked for report in self.reports if report.secure_sum]
        return all(found) if found else None

    @property
    def lost_rounds(self) -> int:
        """How many rounds were lost so far."""
        return self.reports[-1].lost_rounds if self.reports else 0

    def outcome(self, *, nobody_left: bool) -> tuple[RunStatus, str]:
        """How the run ended, and why, if not as asked."""
        last = self.reports[-1] if self.reports else None
        return status.outcome(self._clients.values(), last, ended_early=nobody_left)

    def budgets(self) -> dict[str, ClientBudget]:
        """Every client that was ever there, as it stands now."""
        return {
            name: status.client_budget(client, self._verdict(client), self._ahead, self.last_round)
            for name, client in sorted(self._clients.items())
        }

    def guarantee(self, rounds_more: int = 0) -> BudgetReport | None:
        """What this run has cost so far, or will have if all that have paid take part in `rounds_more` more;
        None before the first client.
        """
        if not self._clients:
            return None
        return status.guarantee(
            [client for client in self._clients.values() if client.has_cost],
            self._config.clients_per_person,
            private=self._config.private,
            rounds_more=rounds_more,
        )

    def planned(self) -> BudgetReport | None:
        """What this run costs if all planned rounds are run; None before the first client."""
        return self.guarantee(self._ahead)

    def federation(self) -> FederationBudget | None:
        """How all budgets stand; None before the first client."""
        together = self.guarantee()
        if together is None:
            return None
        return self._together(together, self.budgets(), self._ahead)

    def _together(
        self, together: BudgetReport, clients: Mapping[str, ClientRound | ClientBudget], ahead: int
    ) -> FederationBudget:
        paid = {name: one for name, one in clients.items() if self._clients[name].has_cost}
        return status.federation(together, paid, ahead, self._config.unit_name, self._config.arithmetic)

    @property
    def _ahead(self) -> int:
        """Planned rounds that were not run."""
        return self.last_round - (self.reports[-1].round if self.reports else 0)

    @property
    def _clients(self) -> Mapping[str, ClientRecord]:
        return self._registration.clients

    def _verdict(self, client: ClientRecord) -> Verdict:
        return self.verdicts.get(client.name) or _idle(self._registration.why_idle(client))


@lru_cache(maxsize=64)
def _idle(reason: str) -> Verdict:
    """Most clients in most rounds are idle, for few reasons."""
    return Verdict("idle", reason)


def measured(metrics: MetricRecord) -> dict[str, float | None]:
    """All but the loss, by name."""
    return {name: scalar(metrics, name) for name in metrics if name != "loss"}


def scalar(metrics: MetricRecord, name: str) -> float | None:
    """None where it was not measured, and where it is not defined."""
    value = metrics.get(name)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
