"""Metrics of the global model on the sites' own test records: asks, checks what was paid, adds up.

Sites answer with noised histograms; all that follows is post-processing (`tasks/score_metrics.py`).
"""

import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Message
from flwr.serverapp import Grid

from fl_dp.accounting.budget import Budget
from fl_dp.clean_text import one_line
from fl_dp.config.run import RunConfig
from fl_dp.config.site_metrics import planned_evaluations
from fl_dp.engine.noise.grid import noise_grid
from fl_dp.engine.sum_error import sum_error
from fl_dp.errors import FederationError, FlDpError
from fl_dp.federation.client.registration import task_identity
from fl_dp.federation.server.registration import LEAST_PATIENCE, Registration
from fl_dp.federation.wire.arrays import NDArray
from fl_dp.federation.wire.evaluation import (
    EVALUATE,
    EvaluationPlan,
    SiteHistogram,
    evaluation_to_content,
    histogram_from_content,
)
from fl_dp.federation.wire.send_receive import receive, require_answer, send
from fl_dp.models.names import common_name
from fl_dp.records import Refusal
from fl_dp.tasks.held_out import cap_of
from fl_dp.tasks.load import task_of
from fl_dp.tasks.outcomes import of_sites
from fl_dp.tasks.score_histogram import Layout
from fl_dp.tasks.score_metrics import estimates

logger = logging.getLogger("fl_dp")

TOLERANCE = 1e-6  # of a claimed epsilon, as for updates
MOST_COUNT = 1e15  # noise included; sums of larger ones would not be numbers, for all sites together
NO_ANSWER = "no answer before the evaluation was closed"


@dataclass(frozen=True, slots=True)
class Counted:
    """One site's verified histogram. deviation: of the noise in each cell."""

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

    def measure(
        self, grid: Grid, server_round: int, last_round: int, weights: ArrayRecord
    ) -> dict[str, Any] | None:
        """The sites' metrics of these weights, as rounds.jsonl has them; None if they are not due.

        Asked are all sites that have registered and are there, whatever they answered before.
        """
        if not is_due(self._config, server_round, last_round):
            return None
        here = set(grid.get_node_ids())
        clients = {
            one.node_id: name for name, one in self._registration.clients.items() if one.node_id in here
        }
        content = evaluation_to_content(self._plan(server_round), weights)
        messages = [
            Message(content, node, EVALUATE, ttl=self._config.round_timeout, group_id=str(server_round))
            for node in clients
        ]
        sent = send(grid, messages)
        closed = _Closing(len(sent), self._config.grace).is_closed
        replies = receive(grid, sent, self._config.round_timeout, closed)
        answered = {one.metadata.reply_to_message_id: one for one in replies}
        counted, sites = list[Counted](), dict[str, dict[str, Any]]()
        for message in messages:
            name = clients[message.metadata.dst_node_id]
            sites[name] = self._judge(name, message, answered.get(message.metadata.message_id), counted)
        return {
            "bins": self._config.site_metrics_bins,
            "epsilon": max((one["epsilon"] for one in sites.values() if "epsilon" in one), default=0.0),
            "delta": max((one["delta"] for one in sites.values() if "delta" in one), default=0.0),
            "metrics": metrics_of(counted),
            "sites": dict(sorted(sites.items())),
            "outcomes": outcomes_of(counted, task_of(self._config).class_names),
        }

    def _plan(self, server_round: int) -> EvaluationPlan:
        config = self._config
        return EvaluationPlan(
            run=self._run,
            server_round=server_round,
            evaluations=planned_evaluations(config.rounds, config.site_metrics_every),
            bins=config.site_metrics_bins,
            by_subgroup=config.site_metrics_subgroups,
            model=common_name(config.model),
            task=task_identity(config),
            unit=config.unit_of_all,
        )

    def _judge(
        self, name: str, question: Message, reply: Message | None, counted: list[Counted]
    ) -> dict[str, Any]:
        """One site's line. What it has counted is added to `counted`, if its claims hold."""
        try:
            if reply is None:
                raise FederationError(NO_ANSWER)
            answer = histogram_from_content(require_answer(reply, question))
            if isinstance(answer, Refusal):
                return self._without(name, answer.status, answer.reason)
            counted.append(self._checked(answer))
        except FlDpError as error:
            return self._without(name, "failed", one_line(str(error)))
        return {
            "status": "evaluated",
            "reason": "",
            "epsilon": answer.epsilon,
            "delta": answer.delta,
            "budget": answer.budget,
            "accountant": answer.accountant,
            "charges": [entry.to_dict() for entry in answer.spent],
        }

    def _without(self, name: str, status: str, reason: str) -> dict[str, Any]:
        words = f"client {name} gives no metrics: {status}: {reason}"
        if words not in self._told:  # most say the same in every round
            logger.warning("%s", words)
        self._told.add(words)
        return {"status": status, "reason": reason}

    def _checked(self, answer: SiteHistogram) -> Counted:
        """The site's counts; FederationError, which names the claim, unless its account fits them.

        Its epsilon is recomputed from what it has paid: evaluations without sampling, all of one noise.
        """
        (paid, *others) = answer.spent or (None,)
        if paid is None or others or paid.sample_rate != 1.0 or not paid.private or paid.shared:
            raise FederationError("its account of test records holds something else than equal evaluations")
        epsilon = Budget(answer.budget, answer.delta, answer.accountant).epsilon_of(answer.spent)
        if not abs(epsilon - answer.epsilon) <= TOLERANCE:
            raise FederationError(f"claims epsilon {answer.epsilon:.6f}, its evaluations cost {epsilon:.6f}")
        if epsilon > answer.budget:
            raise FederationError(f"has spent epsilon {epsilon:.6f}, over its budget of {answer.budget:g}")
        if answer.subgroups and not self._config.site_metrics_subgroups:
            raise FederationError("a histogram by subgroups, which were not asked for")
        layout = layout_of(self._config, answer.subgroups)
        if answer.cells.shape != (layout.size,):
            raise FederationError(f"a histogram of {answer.cells.size} cells, expected {layout.size}")
        if np.abs(answer.cells).max() > MOST_COUNT:
            raise FederationError(f"a histogram with counts beyond {MOST_COUNT:g}")
        grid = noise_grid(layout.sensitivity, paid.noise_multiplier, layout.size, sum_error(1))
        return Counted(layout, answer.cells, grid.deviation)


class _Closing:
    """Closes an evaluation as a round: once more than half have answered, others get `grace` times as long.

    All answer, if only that they have no test records, so that refusals count.
    """

    def __init__(self, asked: int, grace: float) -> None:
        self._quorum, self._grace, self._began = asked // 2 + 1, grace, time.monotonic()
        self._until = math.inf

    def is_closed(self, replies: Sequence[Message]) -> bool:
        waited = time.monotonic() - self._began
        if len(replies) >= self._quorum and self._until == math.inf:
            self._until = max(waited * (1 + self._grace), waited + LEAST_PATIENCE)
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
