"""One audit: flip the coins, train as shipped, look for the canaries, compare with the ledger's claim.

Algorithm 1 of Steinke, Nasr, Jagielski 2023 (arXiv 2305.08846), around the shipped client. The guesses are
judged by f-DP (Mahloujifar, Melis, Chaudhuri 2024, arXiv 2410.22235).
"""

import dataclasses
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from fl_dp.accounting.accountant import DEFAULT_ACCOUNTANT
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.ledger.files import ledger_file
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.audit.canaries import Arrays, GradientCanaries
from fl_dp.audit.guessing import CONFIDENCE, Scores, find_epsilon, find_epsilon_in_runs
from fl_dp.audit.noise_family import NoiseFamily
from fl_dp.audit.ways import Deployed, MakeWay
from fl_dp.config.client import ClientConfig
from fl_dp.config.data import DataSettings
from fl_dp.config.task import TaskSettings
from fl_dp.engine.noise.generators import system_generator
from fl_dp.errors import AccountingError, ConfigError
from fl_dp.federation.wire.arrays import state_arrays
from fl_dp.records import Entry, LocalUpdate, RoundPlan, total_steps
from fl_dp.reporting.console import rounded_up
from fl_dp.reporting.wording import counted
from fl_dp.tasks.task import Task

_PHYSICAL_BATCH = 64


class GivenTask(Task, built_in=True):
    """A task with an audit's own model, trained in place. settings: loss and unit."""

    def __init__(self, model: nn.Module, settings: TaskSettings) -> None:
        super().__init__(settings)
        self._model = model

    def model(self) -> nn.Module:
        return self._model


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The ledger's claim, and what was found.

    claimed: epsilon at `delta`, an upper bound. found: a lower bound of it at `confidence`, by f-DP over all
    `runs`: of `guesses` guesses which of the `canaries` were included, `right` were right.
    found_one_run: the same from the first run alone. steps: of all rounds. accountant: of the claim.
    hostile: whether the server was.
    """

    claimed: float
    found: float
    found_one_run: float
    delta: float
    canaries: int
    guesses: int
    right: int
    sample_rate: float
    noise_multiplier: float
    steps: int
    accountant: str
    hostile: bool = False
    runs: int = 1
    confidence: float = CONFIDENCE

    @property
    def passed(self) -> bool:
        """If False, the claim is false or the audit erred, with probability at most 1 - confidence."""
        return self.found <= self.claimed

    def to_dict(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "passed": self.passed}


def run_audit(
    canaries: GradientCanaries,
    plan: RoundPlan,
    rounds: int,
    delta: float,
    *,
    accountant: str = DEFAULT_ACCOUNTANT,
    coins: torch.Generator | None = None,
    way: MakeWay = Deployed,
    hostile: bool = False,
    runs: int = 1,
    unit: DataSettings | None = None,
) -> AuditReport:
    """Train `rounds` rounds of `plan` on data in which a coin includes each canary; audit what was released.

    The claim is the epsilon that the client sends with its result: its ledger's, at `delta`. coins: decide
    which canaries are included; None for a generator seeded by the system. Noise and Poisson draws are always
    the shipped ones. way: how the client trains, deployed or simulated.
    hostile: the server sends the first weights in every round, whatever it receives; a round has one step.
    runs: number of trainings, each with its own coins and ledger. unit: of the canaries.
    Raises ConfigError for fewer than one round, AccountingError for a plan whose epsilon is not finite.
    """
    if rounds < 1:
        raise ConfigError(f"Expected rounds={rounds} >= 1.")
    if hostile and plan.steps != 1:
        raise ConfigError(f"Expected steps={plan.steps} = 1: a hostile server asks for one step a round.")
    if runs < 1:
        raise ConfigError(f"Expected runs={runs} >= 1.")
    sample_rate, unit = plan.sample_rate(canaries.public_size), unit or DataSettings()
    whole = Entry(sample_rate, plan.noise_multiplier, plan.steps * rounds)
    settings = ClientConfig(
        unit=unit.unit,
        records_per_person=unit.records_per_person,
        client="audit",
        ledger="each run has its own",
        data_name="canaries",
        model=plan.model,
        loss=plan.loss,
        class_weights=plan.class_weights,
        public_size=canaries.public_size,
        epsilon=_finite_epsilon(whole, delta, accountant),
        delta=delta,
        accountant=accountant,
        physical_batch_size=_PHYSICAL_BATCH,
        device="cpu",
    )
    plan = dataclasses.replace(plan, unit=settings.unit_of_all)
    server = _Server(plan, rounds, dict(state_arrays(canaries.model)), hostile)
    coins = coins or system_generator()
    seen = []
    for _ in range(runs):
        included = torch.rand(canaries.count, generator=coins) < 0.5
        scores, last = _train(canaries, included, server, settings, way)
        seen.append((scores, included.numpy()))
    family = NoiseFamily(whole, delta)
    one_run = find_epsilon(*seen[0], family)
    found = one_run if runs == 1 else find_epsilon_in_runs(seen, family)
    return AuditReport(
        last.epsilon,
        found.epsilon,
        one_run.epsilon,
        last.delta,
        canaries.count,
        found.guesses,
        found.right,
        sample_rate,
        plan.noise_multiplier,
        total_steps(last.spent),
        accountant,
        hostile,
        runs,
    )


@dataclass(frozen=True, slots=True)
class _Server:
    """Asks for `rounds` rounds of `plan` from `weights`. hostile: each round starts from these weights."""

    plan: RoundPlan
    rounds: int
    weights: Arrays
    hostile: bool


def _train(
    canaries: GradientCanaries, included: torch.Tensor, server: _Server, settings: ClientConfig, way: MakeWay
) -> tuple[Scores, LocalUpdate]:
    """Scores (m,), summed over the rounds, and the last update, whose claim covers all of them."""
    scores, weights = np.zeros(canaries.count), dict(server.weights)
    with tempfile.TemporaryDirectory() as folder:
        path = ledger_file(Path(folder))
        settings = dataclasses.replace(settings, ledger=str(path))
        with Ledger.open(path) as ledger:
            task = GivenTask(canaries.model, TaskSettings(**settings.of_task()))
            trained = way(settings, canaries.data(included), task, ledger)
            for server_round in range(1, server.rounds + 1):
                update = trained.train(dataclasses.replace(server.plan, server_round=server_round), weights)
                before = {name: weights[name] for name in update.arrays}
                scores += canaries.scores(before, update.arrays)
                if not server.hostile:
                    weights |= update.arrays
    return scores, update


def _finite_epsilon(entry: Entry, delta: float, accountant: str) -> float:
    """The plan's epsilon: the smallest budget that it fits."""
    epsilon = compute_epsilon([entry], delta, accountant)
    if not 0.0 < epsilon < float("inf"):
        raise AccountingError(
            f"{counted(entry.steps, 'step')} at sample rate {entry.sample_rate:.4g} with noise multiplier "
            f"{entry.noise_multiplier:g} claim epsilon {rounded_up(epsilon)}: there is nothing to audit. "
            "Change the noise or the steps."
        )
    return epsilon
