"""Metrics of the global model on the sites' own test records: asks, checks what was paid, adds up.

Each site answers with a noised histogram; all that follows is post-processing (`tasks/score_metrics.py`).
"""

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Message

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.cost import largest_alone
from fl_dp.clean_text import one_line
from fl_dp.config.run import RunConfig
from fl_dp.engine.noise.grid import noise_grid
from fl_dp.engine.sum_error import sum_error
from fl_dp.errors import FederationError, FlDpError
from fl_dp.federation.server.client_record import AccountOfTests, shows_less
from fl_dp.federation.server.registration import Registration
from fl_dp.federation.server.verify import DECIMALS, ENDED_WITHIN, TOLERANCE, Quorum
from fl_dp.federation.wire.arrays import NDArray
from fl_dp.federation.wire.evaluation import (
    EVALUATE,
    MOST_COUNT,
    EvaluationPlan,
    SiteHistogram,
    evaluation_to_content,
    histogram_from_content,
)
from fl_dp.federation.wire.send_receive import BaseGrid, ask, require_answer
from fl_dp.models.names import common_name
from fl_dp.records import Refusal, total_steps
from fl_dp.reporting.console import rounded_up
from fl_dp.reporting.reports import Estimate, SiteMetrics, TestAccount
from fl_dp.tasks.held_out import cap_of
from fl_dp.tasks.identity import identity
from fl_dp.tasks.load import task_of
from fl_dp.tasks.outcomes import of_sites
from fl_dp.tasks.score_histogram import Layout
from fl_dp.tasks.score_metrics import estimates

logger = logging.getLogger("fl_dp")

NO_ANSWER = "no answer before the evaluation was closed"
NOT_ASKED = "was not connected"
SHOWS_LESS = "its account of test records lacks earlier evaluations: restored from a backup, or retired"


@dataclass(frozen=True, slots=True)
class Counted:
    """A site's verified histogram. deviation: of the noise in each cell."""

    cells: NDArray
    deviation: float


class SiteEvaluations:
    """run: its name in the clients' ledgers. Their accounts of test records are `ClientRecord.tests`."""

    def __init__(self, config: RunConfig, run: str, registration: Registration) -> None:
        self._config, self._run, self._registration = config, run, registration
        self._answered: dict[str, tuple[str, str]] = {}  # by site: status and reason

    def measure(
        self, grid: BaseGrid, server_round: int, last_round: int, weights: ArrayRecord
    ) -> SiteMetrics | None:
        """The sites' metrics of these weights; None unless this is the last round.

        Asks all sites that have registered and are there.
        """
        if not self._is_due(server_round, last_round):
            return None
        here, known = set(grid.get_node_ids()), self._registration.clients
        nodes = {name: one.node_id for name, one in known.items() if one.node_id in here}
        self._answered = {}
        self._begin(nodes)
        answers = self._answers(grid, server_round, weights, nodes)
        self._settle(nodes, {name: answer for name, (answer, _) in answers.items()})
        counted = [one for name, (_, one) in answers.items() if self._answered[name][0] == "evaluated"]
        classes = task_of(self._config).class_names
        return replace(self.accounts(), **metrics_of(self._layout, counted, classes))

    def accounts(self) -> SiteMetrics:
        """What the test records have cost, or may have: the largest of all sites, and each site's account."""
        known = self._registration.clients
        held = {name: one.tests for name, one in known.items() if one.tests}
        answered = dict.fromkeys(held, ("idle", NOT_ASKED)) | self._answered
        sites = {
            name: held[name].line(known[name].profile, status, reason)
            if name in held
            else TestAccount(status=status, reason=reason)
            for name, (status, reason) in sorted(answered.items())
        }
        return SiteMetrics(
            epsilon=max((one.epsilon for one in sites.values()), default=0.0),
            delta=max((one.delta for one in sites.values()), default=0.0),
            epsilon_alone=largest_alone(sites.values()),
            sites=sites,
        )

    def count_interrupted(self, server_round: int, last_round: int) -> None:
        """Continue the clients' accounts after a run was interrupted in that round.

        If an evaluation was due, it may have been paid for: nobody knows when the run ended.
        """
        if self._is_due(server_round, last_round):
            self._begin(self._registration.clients)
            self._answered = {}

    def _is_due(self, server_round: int, last_round: int) -> bool:
        return self._config.site_metrics and server_round == last_round

    @property
    def _layout(self) -> Layout:
        return Layout.of(task_of(self._config).form, cap_of(self._config))

    def _answers(
        self, grid: BaseGrid, server_round: int, weights: ArrayRecord, nodes: Mapping[str, int]
    ) -> dict[str, tuple[SiteHistogram, Counted]]:
        """The sites' verified histograms. If a site gives none, its line says why."""
        config = self._config
        plan = EvaluationPlan(
            run=self._run,
            server_round=server_round,
            model=common_name(config.model),
            task=identity(task_of(config)),
            unit=config.unit_of_all,
        )
        content, ttl = evaluation_to_content(plan, weights), config.round_timeout
        messages = {
            name: Message(content, node, EVALUATE, ttl=ttl, group_id=str(server_round))
            for name, node in nodes.items()
        }
        # a decline is an answer, too
        quorum = Quorum(dict.fromkeys(messages, 1), 0, lambda name, reply: True)
        answered = {
            name: quorum.noted(name, reply) for name, reply in ask(grid, messages, ttl, quorum.is_closed)
        }
        found = {}
        for name, asked in messages.items():
            try:
                if name not in answered:
                    raise FederationError(NO_ANSWER)
                answer = histogram_from_content(require_answer(answered[name], asked))
                if isinstance(answer, Refusal):
                    self._without(name, answer.status, answer.reason)
                else:
                    found[name] = answer, _counted(answer, self._layout)
            except FlDpError as error:
                self._without(name, "failed", one_line(str(error)))
        return found

    def _without(self, name: str, status: str, reason: str) -> None:
        logger.warning("client %s gives no metrics: %s: %s", name, status, reason)
        self._answered[name] = status, reason

    def _begin(self, names: Iterable[str]) -> None:
        """Count the evaluation as paid by these sites before they are asked, whatever then happens."""
        for name in filter(self._declares, names):
            self._count_unheard(name, 1)
        self._answered |= dict.fromkeys(names, ("failed", ENDED_WITHIN))

    def _settle(self, asked: Iterable[str], answers: Mapping[str, SiteHistogram]) -> None:
        for name in asked:
            if name in answers:
                one = answers[name]
                before = self._account(name).charges
                if shows_less(one.spent, before) or total_steps(one.spent) <= total_steps(before):
                    self._without(name, "failed", SHOWS_LESS)
                    continue
                self._keep(name, AccountOfTests(Budget(one.budget, one.delta, one.accountant), one.spent))
                self._answered[name] = "evaluated", ""
            elif self._answered[name][0] == "declined" and self._declares(name):
                self._count_unheard(name, -1)

    def _count_unheard(self, name: str, more: int) -> None:
        account = self._account(name)
        self._keep(name, replace(account, unheard=account.unheard + more))

    def _account(self, name: str) -> AccountOfTests:
        return self._registration.clients[name].tests or AccountOfTests()

    def _keep(self, name: str, account: AccountOfTests) -> None:
        tests = None if account == AccountOfTests() else account
        self._registration.update(replace(self._registration.clients[name], tests=tests))

    def _declares(self, name: str) -> bool:
        """Whether the site has said that it has test records: when it registered, or by an account since."""
        client = self._registration.clients[name]
        return client.profile.evaluate_epsilon > 0 or client.tests is not None


def _counted(answer: SiteHistogram, layout: Layout) -> Counted:
    """The site's histogram; FederationError unless it has its form, and the account fits it."""
    multiplier = _check_account(answer)
    if answer.cells.shape != (layout.size,):
        raise FederationError(f"a histogram of {answer.cells.size} cells, expected {layout.size}")
    if np.abs(answer.cells).max() > MOST_COUNT:
        raise FederationError(f"a histogram with counts beyond {MOST_COUNT:g}")
    grid = noise_grid(layout.sensitivity, multiplier, layout.size, sum_error(1))
    return Counted(answer.cells, grid.deviation)


def _check_account(answer: SiteHistogram) -> float:
    """The noise multiplier of the site's evaluations; FederationError unless its account fits its claims.

    Its epsilon is recomputed from what it has paid: evaluations without sampling, all of one noise.
    """
    kinds = {(one.sample_rate, one.noise_multiplier) for one in answer.spent}
    ((rate, multiplier), *others) = kinds or ((0.0, 0.0),)
    if others or rate != 1.0 or not multiplier:
        raise FederationError("its account of test records holds something other than equal evaluations")
    epsilon = Budget(answer.budget, answer.delta, answer.accountant).epsilon_of(answer.spent)
    if not abs(epsilon - answer.epsilon) <= TOLERANCE:
        claimed, cost = rounded_up(answer.epsilon, DECIMALS), rounded_up(epsilon, DECIMALS)
        raise FederationError(f"claims epsilon {claimed}, its evaluations cost {cost}")
    if epsilon > answer.budget:
        spent = rounded_up(epsilon, DECIMALS)
        raise FederationError(f"has spent epsilon {spent}, over its budget of {answer.budget:g}")
    return multiplier


def metrics_of(layout: Layout, counted: Sequence[Counted], classes: Sequence[str]) -> dict[str, Any]:
    """ "metrics" of the sites' counts, with intervals; "outcomes", for the page. Both empty without sites."""
    if not counted:
        return {"metrics": {}, "outcomes": {}}
    cells = np.sum([one.cells for one in counted], axis=0)
    deviation = math.sqrt(sum(one.deviation**2 for one in counted))
    found = estimates(layout, cells, deviation)
    return {
        "metrics": {name: Estimate(one.value, one.low, one.high) for name, one in found.items()},
        "outcomes": of_sites(layout, cells, deviation, classes),
    }
