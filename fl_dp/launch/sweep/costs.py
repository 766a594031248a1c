"""What the runs of a sweep cost, by the functions that plan and pay a run, before any is started."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fl_dp.accounting.budget import federation_budget
from fl_dp.accounting.calibration import calibrate_noise
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.config.run import RunConfig
from fl_dp.errors import AccountingError
from fl_dp.federation.server.client_record import record_of
from fl_dp.federation.server.planning import expected_batch, steps_of_round
from fl_dp.launch.clients import client_config
from fl_dp.launch.forecast import Timing, forecast_of
from fl_dp.launch.ledger_place import NOWHERE
from fl_dp.launch.measuring import again, timing_of
from fl_dp.launch.spending import (
    ClientSpending,
    ForeseenAccounts,
    in_common,
    mean_rounds,
    spendings_of,
    takes_every_round,
)
from fl_dp.launch.sweep.sweep_file import RequestedRun
from fl_dp.records import ClientProfile

# Keys that change how many steps a run takes or what they cost in privacy, not the seconds of one.
_SAME_STEP = frozenset(
    {"seed", "out", "rounds", "local-epochs", "epsilon", "delta", "noise-multiplier", "max-grad-norm",
     "learning-rate", "server-learning-rate", "momentum"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SweepCost:
    """runs: what each run costs its most expensive client, in order; `alone` is infinite without privacy.

    epsilon, delta: of all runs together on the same data, earlier spending included; runs without privacy are
    left out. exactly: every client takes part in every round; otherwise it is an upper bound.
    before: these data had spent something before.
    """

    runs: tuple[ClientSpending, ...]
    epsilon: float
    delta: float
    exactly: bool
    before: bool = False

    @property
    def problems(self) -> list[tuple[int, str]]:
        """Number and explanation of each run that would not be what its config asks for."""
        return [(number, cost.problem) for number, cost in enumerate(self.runs) if cost.problem]

    @property
    def conflicts(self) -> list[tuple[int, str]]:
        """Number and explanation of each run whose data a ledger would refuse."""
        return [(number, cost.conflict) for number, cost in enumerate(self.runs) if cost.conflict]


def cost_of(
    runs: Sequence[RequestedRun], ledger: Path | None, *, vary: bool = False, usual: bool = False
) -> SweepCost:
    """Forecast all runs, one after the other.

    ledger: the folder of the one that all pay from, which is read and not changed; None: each has a new one.
    vary: as `SweepRequest.vary_mechanism`. usual: where clients are sampled, for a client drawn in the
    expected number of rounds; otherwise for one drawn in all. LedgerError if a ledger cannot be read.
    """
    accounts, costs = ForeseenAccounts(ledger), []
    profiles: dict[str, ClientProfile] = {}
    for one in runs:
        paying = accounts if ledger else ForeseenAccounts(None)
        sizes = one.sizes if ledger else sorted(set(one.sizes))  # new ledgers of one size are alike
        rounds = max(1, math.ceil(mean_rounds(one.config))) if usual else one.config.rounds
        clients = _paid(one.config, sizes, paying, rounds, vary=vary)
        profiles |= {cost.dataset: cost.record.profile for cost in clients}
        costs.append(max(clients, key=lambda cost: (bool(cost.conflict), bool(cost.problem), cost.alone)))
    delta = max(cost.record.profile.delta for cost in costs)
    if ledger:
        guarantees = [
            (compute_epsilon(accounts.spent(dataset), one.delta, one.accountant), one.delta)
            for dataset, one in profiles.items()
        ]
    else:
        costliest = [cost.entry for cost in costs if cost.entry and cost.entry.private]
        guarantees = [(compute_epsilon(costliest, delta, runs[0].config.accountant), delta)]
    together = federation_budget(guarantees)
    exactly = all(takes_every_round(one.config) for one in runs)
    before = any(map(ForeseenAccounts(ledger).spent, profiles))
    return SweepCost(tuple(costs), together.epsilon, together.delta, exactly, before)


def _paid(
    config: RunConfig, sizes: Sequence[int], accounts: ForeseenAccounts, rounds: int, *, vary: bool
) -> list[ClientSpending]:
    """What each client of a run spends; it is counted as paid."""
    clients = spendings_of(config, sizes, accounts, rounds=rounds, vary_mechanism=vary)
    fresh = in_common(config, [replace(one.record.profile, spent=()) for one in clients])
    found = []
    for client, one in enumerate(clients):
        if one.entry is not None:
            accounts.pay(one.dataset, one.entry, config.arithmetic)
        conflict = accounts.conflict(client_config(config, client, NOWHERE))
        found.append(replace(one, problem=_problem(one, fresh), conflict=conflict))
    return found


def _problem(found: ClientSpending, config: RunConfig) -> str:
    """Why the client's rounds would not be what the run's config says; empty if they would.

    config: with what members of secure sums would share if nothing had been spent.
    """
    record, planned = found.record, found.record.mechanism
    if planned is None:
        return record.reason.rstrip(".")
    if not planned.private:
        return ""
    alone = record_of(replace(record.profile, spent=()), config)
    fresh = alone.mechanism
    if fresh is None:
        return alone.reason.rstrip(".")
    if planned.noise_multiplier != fresh.noise_multiplier and not record.profile.vary_mechanism:
        return (
            f"for epsilon {config.epsilon:g} alone the noise multiplier would be "
            f"{fresh.noise_multiplier:g}; after the runs before it these data must keep "
            f"{planned.noise_multiplier:g}, so the run would show nothing new"
        )
    if found.entry is None:
        return f"{record.budget.in_words(record.profile.spent)}: no room for another step"
    return ""


def timings_of(runs: Sequence[RequestedRun], ledger: Path | None) -> list[Timing]:
    """How long each run that can train takes on this machine by itself; equal steps are measured once."""
    measured: dict[object, Timing] = {}
    found = []
    for one in runs:
        forecast = forecast_of(one.config, one.sizes, ledger)
        key = tuple((name, value) for name, value in one.config.to_flat().items() if name not in _SAME_STEP)
        if known := measured.get(key):
            found.append(again(known, forecast, simulated=True))
        elif timing := timing_of(forecast, simulated=True, reading=one.seconds):
            measured[key] = timing
            found.append(timing)
    return found


def noise_for_all(runs: Sequence[RequestedRun], costs: SweepCost) -> float | None:
    """The noise multiplier with which all runs together stay within the smallest of their budgets.

    None if they differ in rate, if no noise is enough, if the data have spent before,.
    """
    configs = [one.config for one in runs]
    found, delta = 0.0, costs.delta
    for size in sorted({size for one in runs for size in one.sizes}):
        rates = {expected_batch(one, size) / size for one in configs}
        if len(rates) > 1:
            return None
        steps = sum(steps_of_round(one, size) * one.rounds for one in configs)
        least = min(one.epsilon for one in configs)
        try:
            noise = calibrate_noise(rates.pop(), steps, least, delta, accountant=configs[0].accountant)
        except AccountingError:
            return None
        found = max(found, noise)
    return found
