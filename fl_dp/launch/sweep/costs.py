"""What the runs of a sweep cost, by the functions that plan and pay a run, before any is started."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fl_dp.accounting.budget import federation_budget
from fl_dp.accounting.calibration import calibrate_noise
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.config.run import RunConfig
from fl_dp.errors import AccountingError
from fl_dp.federation.client.registration import dataset_name
from fl_dp.federation.server.client_record import record_of
from fl_dp.federation.server.planning import expected_batch, steps_of_round
from fl_dp.launch.clients import client_config
from fl_dp.launch.spending import (
    NOWHERE,
    ClientSpending,
    ForeseenAccounts,
    in_common,
    mean_rounds,
    spending_of,
    takes_every_round,
)
from fl_dp.launch.sweep.checking import CheckedRun
from fl_dp.records import ClientProfile, Entry


@dataclass(frozen=True, slots=True)
class RunCost:
    """What a run costs the client that it costs most.

    mechanism: rate, noise and all its steps, as far as the budget pays; None where it takes none. epsilon:
    of these alone, at `delta`; infinite without privacy. rounds: that the budget pays for; the last may be a
    short one. problem: why the run would not be what its config says; conflict: why a ledger would not enter
    its data beside those of the runs before. Both are empty if all is well.
    """

    mechanism: Entry | None
    epsilon: float
    delta: float
    rounds: int
    problem: str = ""
    conflict: str = ""


@dataclass(frozen=True, slots=True)
class SweepCost:
    """costs: of each run, in order. epsilon, delta: of all runs together on the same data, what these had
    spent before included; runs without privacy are left out. exactly: whether every client takes part in
    every round; else it is the most. before: whether these data had spent anything before.
    """

    runs: tuple[RunCost, ...]
    epsilon: float
    delta: float
    exactly: bool
    before: bool = False

    @property
    def problems(self) -> list[tuple[int, str]]:
        """Number and words of the runs that would not be what they are asked to be."""
        return [(number, cost.problem) for number, cost in enumerate(self.runs) if cost.problem]

    @property
    def conflicts(self) -> list[tuple[int, str]]:
        """Number and words of the runs whose data a ledger would not enter."""
        return [(number, cost.conflict) for number, cost in enumerate(self.runs) if cost.conflict]


def cost_of(
    runs: Sequence[CheckedRun],
    ledger: Path | None,
    *,
    shared: bool,
    vary: bool = False,
    usual: bool = False,
) -> SweepCost:
    """Foresee all runs, one after the other.

    shared: all pay from the ledger in the folder `ledger`, which is read and not changed; else each has a
    new one. vary: as of `SweepRequest.vary_mechanism`. usual: where chance decides who takes part, for a
    client of the mean number of rounds; else for one that is drawn in all. LedgerError for one that cannot be
    read.
    """
    exactly = all(takes_every_round(one.config) for one in runs)
    accounts = ForeseenAccounts(ledger if shared else None)
    costs, costliest = [], []
    profiles: dict[str, ClientProfile] = {}
    for one in runs:
        paying = accounts if shared else ForeseenAccounts(None)
        sizes = one.sizes if shared else sorted(set(one.sizes))  # of fresh ones those of a size are alike
        found = []
        for dataset, profile, cost in _client_costs(one.config, sizes, paying, vary=vary, usual=usual):
            found.append(cost)
            profiles[dataset] = profile
        costs.append(max(found, key=_badness))
        if costs[-1].mechanism and costs[-1].mechanism.private:
            costliest.append(costs[-1].mechanism)
    delta = max((cost.delta for cost in costs), default=0.0)
    clients_per_person = max(one.config.clients_per_person for one in runs)
    if not shared:
        whole = compute_epsilon(costliest, delta, runs[0].config.accountant), delta
        together = federation_budget([whole] * clients_per_person, clients_per_person)
        return SweepCost(tuple(costs), together.epsilon, together.delta, exactly)
    guarantees = [
        (compute_epsilon(accounts.spent(dataset), profile.delta, profile.accountant), profile.delta)
        for dataset, profile in profiles.items()
    ]
    together = federation_budget(guarantees or [(0.0, delta)], clients_per_person)
    before = ForeseenAccounts(ledger)
    return SweepCost(
        tuple(costs), together.epsilon, together.delta, exactly, any(map(before.spent, profiles))
    )


def _client_costs(
    config: RunConfig, sizes: Sequence[int], accounts: ForeseenAccounts, *, vary: bool, usual: bool
) -> Iterator[tuple[str, ClientProfile, RunCost]]:
    """Of each client of a run: its data set, what it registers with, and the cost, which is paid."""
    rounds = max(1, math.ceil(mean_rounds(config))) if usual else config.rounds
    all_settings = [
        replace(client_config(config, client, NOWHERE), vary_mechanism=vary) for client in range(len(sizes))
    ]
    profiles = list(map(accounts.profile, all_settings, sizes))
    common, rate = in_common(config, profiles)
    fresh, _ = in_common(config, [replace(one, spent=()) for one in profiles])
    for settings, profile in zip(all_settings, profiles, strict=True):
        dataset, conflict = dataset_name(settings), accounts.conflict(settings)
        found = spending_of(profile, common, rounds, rate)
        if found.entry is not None:
            accounts.pay(dataset, found.entry, config.arithmetic)
        cost = RunCost(
            found.entry, found.alone, profile.delta, found.rounds, _problem(found, fresh), conflict
        )
        yield dataset, profile, cost


def _badness(cost: RunCost) -> tuple[bool, bool, float]:
    return bool(cost.conflict), bool(cost.problem), cost.epsilon


def _problem(found: ClientSpending, config: RunConfig) -> str:
    """Why the client's rounds would not be what the run's config says; empty if they would.

    config: with what members of secure sums would share, had nobody spent anything.
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
            f"epsilon {config.epsilon:g} alone would take noise multiplier {fresh.noise_multiplier:g}; after "
            f"the runs before it these data keep to {planned.noise_multiplier:g}, and it would show nothing "
            "new"
        )
    if found.entry is None:
        return f"{record.budget.in_words(record.profile.spent)}: not one step more fits"
    return ""


def noise_for_all(runs: Sequence[CheckedRun], costs: SweepCost) -> float | None:
    """The noise multiplier with which all runs together stay within the least of their budgets.

    None where they differ in rate, where no noise is enough, where data have spent before, or where a person
    is at several members of a sum.
    """
    found, delta = 0.0, costs.delta / max(one.config.clients_per_person for one in runs)
    if any(one.config.secure and one.config.clients_per_person > 1 for one in runs):
        return None
    for size in sorted({size for one in runs for size in one.sizes}):
        rates = {expected_batch(one.config, size) / size for one in runs}
        if len(rates) > 1:
            return None
        steps = sum(steps_of_round(one.config, size) * one.config.rounds for one in runs)
        least = min(one.config.epsilon for one in runs)
        try:
            noise = calibrate_noise(rates.pop(), steps, least, delta, accountant=runs[0].config.accountant)
        except AccountingError:
            return None
        found = max(found, noise)
    return found
