"""Metrics of the global model on the sites' own test records: asks, checks what was paid, adds up.

Sites answer with noised histograms, each with its own or all with one sum (`histogram_sum.py`); all that
follows is post-processing (`tasks/score_metrics.py`).
"""

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from flwr.app import ArrayRecord, Message, RecordDict
from flwr.serverapp import Grid

from fl_dp.accounting.budget import Budget
from fl_dp.clean_text import one_line
from fl_dp.config.run import RunConfig
from fl_dp.config.site_metrics import planned_evaluations
from fl_dp.engine.noise.grid import noise_grid
from fl_dp.engine.sum_error import sum_error
from fl_dp.errors import FederationError, FlDpError
from fl_dp.federation.server.accounts_of_tests import AccountOfTests, AccountsOfTests
from fl_dp.federation.server.client_record import shows_less
from fl_dp.federation.server.histogram_sum import HistogramSum, question
from fl_dp.federation.server.registration import LEAST_PATIENCE, Registration
from fl_dp.federation.server.verify import ENDED_WITHIN, GRACE, TOLERANCE
from fl_dp.federation.wire.arrays import NDArray
from fl_dp.federation.wire.evaluation import (
    EVALUATE,
    MOST_COUNT,
    EvaluationOffer,
    EvaluationPlan,
    SiteHistogram,
    evaluation_to_content,
    histogram_from_content,
    offer_from_content,
)
from fl_dp.federation.wire.send_receive import receive, require_answer, send
from fl_dp.models.names import common_name
from fl_dp.records import MOST_MEMBERS, Refusal, total_steps
from fl_dp.tasks.held_out import cap_of
from fl_dp.tasks.identity import identity
from fl_dp.tasks.load import task_of
from fl_dp.tasks.outcomes import of_sites
from fl_dp.tasks.score_histogram import Layout
from fl_dp.tasks.score_metrics import estimates

logger = logging.getLogger("fl_dp")

NO_ANSWER = "no answer before the evaluation was closed"
NOT_ASKED = "was not there to be asked"
SHOWS_LESS = "its account of test records lacks evaluations of before: restored from a backup, or retired"

Found = TypeVar("Found")
Exchanges = Mapping[str, tuple[Message, Message | None]]  # by site: what it was asked, and what it answered


@dataclass(frozen=True, slots=True)
class Counted:
    """A verified histogram: one site's, or a sum of several. deviation: of the noise in each cell."""

    layout: Layout
    cells: NDArray
    deviation: float


def is_due(config: RunConfig, server_round: int, last_round: int) -> bool:
    """Whether the sites are asked after this round: a public rule."""
    every = config.site_metrics_every
    return every > 0 and (server_round == last_round or server_round % every == 0)


class SiteMetrics:
    """run: its name in the clients' ledgers."""

    def __init__(self, config: RunConfig, run: str, registration: Registration) -> None:
        self._config, self._run, self._registration = config, run, registration
        self._told: set[str] = set()
        self._accounts = AccountsOfTests()
        self._answered: dict[str, tuple[str, str]] = {}  # to the last evaluation, by site: status and reason

    def measure(
        self, grid: Grid, server_round: int, last_round: int, weights: ArrayRecord
    ) -> dict[str, Any] | None:
        """The sites' metrics of these weights, as rounds.jsonl has them; None if they are not due.

        Asked are all sites that have registered and are there, whatever they answered before.
        """
        if not is_due(self._config, server_round, last_round):
            return None
        here, known = set(grid.get_node_ids()), self._registration.clients
        nodes = {name: one.node_id for name, one in known.items() if one.node_id in here}
        plan, self._answered = self._plan(server_round), {}
        if self._config.secure:
            counted, more = self._together(grid, plan, weights, nodes)
        else:
            counted, more = self._apart(grid, plan, weights, nodes), {}
        return {
            "bins": self._config.site_metrics_bins,
            **self.accounts(),
            "metrics": metrics_of(counted),
            "outcomes": outcomes_of(counted, task_of(self._config).class_names),
            **more,
        }

    def accounts(self) -> dict[str, Any]:
        """What the test records have cost, or may have: the largest of all sites, and each site's account."""
        known, clients = self._accounts.known, self._registration.clients
        lines = {name: one.line(clients[name].profile) for name, one in known.items()}
        answered = dict.fromkeys(lines, ("idle", NOT_ASKED)) | self._answered
        paid = lines.values()
        alone = [one.get("epsilon_alone", one["epsilon"]) for one in paid]
        return {
            "epsilon": max((one["epsilon"] for one in paid), default=0.0),
            "delta": max((one["delta"] for one in paid), default=0.0),
            **({"epsilon_alone": max(alone)} if any("epsilon_alone" in one for one in paid) else {}),
            "sites": {
                name: {"status": status, "reason": reason, **lines.get(name, {})}
                for name, (status, reason) in sorted(answered.items())
            },
        }

    @property
    def state(self) -> Mapping[str, AccountOfTests]:
        return self._accounts.known

    def restore(self, state: Mapping[str, AccountOfTests], server_round: int, last_round: int) -> None:
        """Go on with these accounts after a run was interrupted in that round.

        Its evaluation, if one was due, may have been paid for: nobody knows when the run ended.
        """
        self._accounts.known = state
        if is_due(self._config, server_round, last_round):
            clients = self._registration.clients
            self._begin(clients, min(len(clients), MOST_MEMBERS) if self._config.secure else 1)
            self._answered = {}

    def _apart(
        self, grid: Grid, plan: EvaluationPlan, weights: ArrayRecord, nodes: Mapping[str, int]
    ) -> list[Counted]:
        """Each site's own histogram."""
        self._begin(nodes)
        exchanges = self._ask(grid, plan, evaluation_to_content(plan, weights), nodes)
        answers = self._answers(exchanges, self._counted)
        self._settle(nodes, {name: answer for name, (answer, _) in answers.items()})
        return [counted for _, counted in answers.values()]

    def _together(
        self, grid: Grid, plan: EvaluationPlan, weights: ArrayRecord, nodes: Mapping[str, int]
    ) -> tuple[list[Counted], dict[str, Any]]:
        """The one histogram of all sites that join in a sum, and what a report says of the sum."""
        config = self._config
        offers = self._answers(self._ask(grid, plan, question(plan), nodes), self._offer)
        subgroups = {one.subgroups for one in offers.values()}
        try:
            layout = layout_of(config, next(iter(subgroups)) if len(subgroups) == 1 else ())
            asked = HistogramSum.of(plan, offers, layout, config.secure_dropouts, config.secure_colluders)
        except FlDpError as error:
            for name in offers:
                self._without(name, "declined", f"no secure sum, unpaid: {one_line(str(error))}")
            return [], {}
        for name, reason in asked.left_out.items():
            self._without(name, "declined", reason)
        members = {name: nodes[name] for name in asked.members}
        self._begin(members, asked.plan.shares)
        exchanges = self._ask(grid, plan, asked.content(weights), members, in_sum=True)
        answers = self._answers(exchanges, partial(self._part, asked.plan.noise_multiplier))
        self._settle(members, answers)
        try:
            cells, deviation, opened = asked.opened([reply for _, reply in exchanges.values() if reply])
            _check_cells(cells, layout)
        except FlDpError as error:
            lost = one_line(str(error))
            logger.warning("the sites' metrics are lost, and paid for: %s", lost)
            return [], {"lost": lost}
        return [Counted(layout, cells, deviation)], {"secure_sum": asdict(opened)}

    def _ask(
        self,
        grid: Grid,
        plan: EvaluationPlan,
        content: RecordDict,
        nodes: Mapping[str, int],
        *,
        in_sum: bool = False,
    ) -> Exchanges:
        """in_sum: the grid adds the answers up, and decides itself when they are all there."""
        ttl, group = self._config.round_timeout, str(plan.server_round)
        messages = {
            name: Message(content, node, EVALUATE, ttl=ttl, group_id=group) for name, node in nodes.items()
        }
        sent = send(grid, list(messages.values()))
        closed = (lambda replies: False) if in_sum else _Closing(len(sent)).is_closed
        replies = receive(grid, sent, ttl, closed)
        answered = {one.metadata.reply_to_message_id: one for one in replies}
        return {name: (one, answered.get(one.metadata.message_id)) for name, one in messages.items()}

    def _answers(
        self, exchanges: Exchanges, read: Callable[[RecordDict], Found | Refusal]
    ) -> dict[str, Found]:
        """What the sites have answered, as `read`; of a site that gives nothing its line says why."""
        found = {}
        for name, (asked, reply) in exchanges.items():
            try:
                if reply is None:
                    raise FederationError(NO_ANSWER)
                answer = read(require_answer(reply, asked))
                if isinstance(answer, Refusal):
                    self._without(name, answer.status, answer.reason)
                else:
                    found[name] = answer
            except FlDpError as error:
                self._without(name, "failed", one_line(str(error)))
        return found

    def _plan(self, server_round: int) -> EvaluationPlan:
        config = self._config
        return EvaluationPlan(
            run=self._run,
            server_round=server_round,
            evaluations=planned_evaluations(config.rounds, config.site_metrics_every),
            bins=config.site_metrics_bins,
            by_subgroup=config.site_metrics_subgroups,
            model=common_name(config.model),
            task=identity(task_of(config)),
            unit=config.unit_of_all,
        )

    def _without(self, name: str, status: str, reason: str) -> None:
        words = f"client {name} gives no metrics: {status}: {reason}"
        if words not in self._told:  # most say the same in every round
            logger.warning("%s", words)
        self._told.add(words)
        self._answered[name] = status, reason

    def _begin(self, names: Iterable[str], shares: int = 1) -> None:
        """Count the evaluation as paid by these sites before they are asked, whatever then happens."""
        self._accounts.ask(filter(self._declares, names), shares)
        self._answered |= dict.fromkeys(names, ("failed", ENDED_WITHIN))

    def _settle(self, asked: Iterable[str], answers: Mapping[str, SiteHistogram]) -> None:
        for name in asked:
            if name in answers:
                one = answers[name]
                before = self._accounts.known.get(name, AccountOfTests()).charges
                if shows_less(one.spent, before) or total_steps(one.spent) <= total_steps(before):
                    self._without(name, "failed", SHOWS_LESS)
                    continue
                self._accounts.show(name, Budget(one.budget, one.delta, one.accountant), one.spent)
                self._answered[name] = "evaluated", ""
            elif self._answered[name][0] == "declined" and self._declares(name):
                self._accounts.decline(name)

    def _declares(self, name: str) -> bool:
        """Whether the site has said that it has test records: when it registered, or by an account since."""
        declared = self._registration.clients[name].profile.evaluate_epsilon > 0
        return declared or name in self._accounts.known

    def _offer(self, content: RecordDict) -> EvaluationOffer | Refusal:
        """A site's offer; FederationError or ConfigError for subgroups that nobody can add up."""
        offer = offer_from_content(content)
        if not isinstance(offer, Refusal):
            self._check_subgroups(offer.subgroups)
        return offer

    def _counted(self, content: RecordDict) -> tuple[SiteHistogram, Counted] | Refusal:
        """A site's own histogram, if its account fits it."""
        answer = histogram_from_content(content)
        if isinstance(answer, Refusal):
            return answer
        multiplier = _check_account(answer)
        layout = self._check_subgroups(answer.subgroups)
        _check_cells(answer.cells, layout)
        grid = noise_grid(layout.sensitivity, multiplier, layout.size, sum_error(1))
        return answer, Counted(layout, answer.cells, grid.deviation)

    def _part(self, noise_multiplier: float, content: RecordDict) -> SiteHistogram | Refusal:
        """A member's answer, whose cells are in the sum, if its account fits the sum's noise."""
        answer = histogram_from_content(content, in_sum=True)
        if not isinstance(answer, Refusal) and _check_account(answer) != noise_multiplier:
            raise FederationError("its account of test records does not show the noise of this sum")
        return answer

    def _check_subgroups(self, subgroups: tuple[str, ...]) -> Layout:
        if subgroups and not self._config.site_metrics_subgroups:
            raise FederationError("a histogram by subgroups, which were not asked for")
        return layout_of(self._config, subgroups)


def _check_account(answer: SiteHistogram) -> float:
    """The noise multiplier of the site's evaluations; FederationError unless its account fits its claims.

    Its epsilon is recomputed from what it has paid: evaluations without sampling, all of one noise.
    """
    kinds = {(one.sample_rate, one.noise_multiplier, one.copies, one.pass_steps) for one in answer.spent}
    ((rate, multiplier, *more), *others) = kinds or ((0.0, 0.0),)
    if others or rate != 1.0 or not multiplier or more != [1, 1]:
        raise FederationError("its account of test records holds something else than equal evaluations")
    epsilon = Budget(answer.budget, answer.delta, answer.accountant).epsilon_of(answer.spent)
    if not abs(epsilon - answer.epsilon) <= TOLERANCE:
        raise FederationError(f"claims epsilon {answer.epsilon:.6f}, its evaluations cost {epsilon:.6f}")
    if epsilon > answer.budget:
        raise FederationError(f"has spent epsilon {epsilon:.6f}, over its budget of {answer.budget:g}")
    return multiplier


def _check_cells(cells: NDArray, layout: Layout) -> None:
    if cells.shape != (layout.size,):
        raise FederationError(f"a histogram of {cells.size} cells, expected {layout.size}")
    if np.abs(cells).max() > MOST_COUNT:
        raise FederationError(f"a histogram with counts beyond {MOST_COUNT:g}")


class _Closing:
    """Closes an evaluation as a round: once more than half have answered, others get GRACE times as long.

    All answer, if only that they have no test records, so that refusals count.
    """

    def __init__(self, asked: int) -> None:
        self._quorum, self._began = asked // 2 + 1, time.monotonic()
        self._until = math.inf

    def is_closed(self, replies: Sequence[Message]) -> bool:
        waited = time.monotonic() - self._began
        if len(replies) >= self._quorum and self._until == math.inf:
            self._until = max(waited * (1 + GRACE), waited + LEAST_PATIENCE)
        return waited >= self._until


def layout_of(config: RunConfig, names: Sequence[str]) -> Layout:
    """The layout of a site with subgroups of these full names."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(name.partition(" = ")[0], []).append(name)
    return Layout.of(task_of(config).form, config.site_metrics_bins, cap_of(config), list(groups.values()))


def metrics_of(counted: Sequence[Counted]) -> dict[str, dict[str, float | None]]:
    """All metrics, with their intervals, of what the sites have counted together; empty without sites.

    Blocks of subgroups add up over the sites that declare the same ones.
    """
    found: dict[str, dict[str, float | None]] = {}
    by_layout: dict[Layout, list[Counted]] = {}
    for one in counted:
        by_layout.setdefault(one.layout, []).append(one)
    merged = _common(by_layout) if len(by_layout) > 1 else by_layout
    for layout, some in merged.items():
        cells = np.sum([one.cells for one in some], axis=0)
        deviation = math.sqrt(sum(one.deviation**2 for one in some))
        for name, estimate in estimates(layout, cells, deviation).items():
            found.setdefault(name, asdict(estimate))
    return found


def outcomes_of(counted: Sequence[Counted], classes: Sequence[str]) -> dict[str, Any]:
    """What the page draws of all records that the sites have counted; empty without sites."""
    bare = [_bare(one) for one in counted]
    if not bare:
        return {}
    deviation = math.sqrt(sum(one.deviation**2 for one in bare))
    return of_sites(bare[0].layout, np.sum([one.cells for one in bare], axis=0), deviation, classes)


def _common(by_layout: Mapping[Layout, Sequence[Counted]]) -> dict[Layout, list[Counted]]:
    """First of all records, without subgroups, of all sites; then each layout by itself."""
    plain: dict[Layout, list[Counted]] = {}
    for one in (_bare(one) for some in by_layout.values() for one in some):
        plain.setdefault(one.layout, []).append(one)
    return {**plain, **{layout: list(some) for layout, some in by_layout.items() if layout not in plain}}


def _bare(one: Counted) -> Counted:
    """Its counts of all records, without subgroups."""
    layout = replace(one.layout, subgroups=())
    return Counted(layout, np.append(one.cells[: layout.size - 1], one.cells[-1]), one.deviation)
