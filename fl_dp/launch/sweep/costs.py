"""What the runs of a sweep cost, by the functions that plan and pay a run, before any is started."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fl_dp.accounting.budget import Budget, federation_budget
from fl_dp.accounting.calibration import calibrate_noise
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.events import merge
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.accounting.training_plan import steps_of_epochs
from fl_dp.config.run import RunConfig
from fl_dp.errors import AccountingError, FederationError
from fl_dp.federation.client.profile import profile_of
from fl_dp.federation.client.registration import cut_of, dataset_name, records_name
from fl_dp.federation.server.planning import expected_batch, round_mechanism
from fl_dp.launch.clients import client_config, ledger_file
from fl_dp.launch.sweep.looked_at import LookedAt
from fl_dp.records import PROVEN, ClientProfile, Entry

_NOWHERE = Path("no-ledger")  # of runs that each make a new one


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


class Accounts:
    """What data sets have spent, by name, as a ledger would hold it after the runs that were foreseen."""

    def __init__(self, ledger: Path | None) -> None:
        self._spent: dict[str, tuple[Entry, ...]] = {}
        self._cuts: dict[str, tuple[str, str]] = {}  # by source: cut, and the data set that has it
        file = None if ledger is None else ledger_file(ledger)
        if file is None or not file.exists():
            return
        with Ledger.open_existing(file) as opened:
            for account in opened.accounts():
                if account.retired is None:
                    self._spent[account.dataset] = account.spent()
                    self._cuts[account.identity.source] = account.identity.cut, account.dataset

    def spent(self, dataset: str) -> tuple[Entry, ...]:
        return self._spent.get(dataset, ())

    def conflict(self, source: str, cut: str, dataset: str) -> str:
        """Why a ledger would not enter the data; empty where it would. Notes their cut."""
        held, name = self._cuts.setdefault(source, (cut, dataset))
        if held == cut:
            return ""
        return (
            f"splits {source} as {dataset!r}, and the ledger holds it as {name!r}: parts would share "
            "records, and what these have spent would not count. Split them alike in all runs: one seed, the "
            "same clients, the same partition"
        )

    def pay(self, dataset: str, entry: Entry) -> None:
        self._spent[dataset] = merge((*self.spent(dataset), entry))


def cost_of(
    runs: Sequence[LookedAt],
    ledger: Path | None,
    *,
    shared: bool,
    vary: bool = False,
    usual: bool = False,
) -> SweepCost:
    """Foresee all runs, one after the other.

    shared: all pay from the ledger in the folder `ledger`, which is read and not changed; else each has a
    new one. vary: as of `Asked.vary_mechanism`. usual: where chance decides who takes part, for a client of
    the mean number of rounds; else for one that is drawn in all. LedgerError for one that cannot be read.
    """
    exactly = all(_every_round(one.config) for one in runs)
    accounts = Accounts(ledger if shared else None)
    costs, costliest = [], []
    guarantees: dict[str, tuple[float, float]] = {}
    for one in runs:
        paying = accounts if shared else Accounts(None)
        sizes = one.sizes if shared else sorted(set(one.sizes))  # of fresh ones those of a size are alike
        cost, payments = _run_cost(one.config, sizes, paying, vary=vary, usual=usual)
        costs.append(cost)
        if cost.mechanism and cost.mechanism.private:
            costliest.append(cost.mechanism)
        if shared:
            for dataset, profile in payments.items():
                spent = accounts.spent(dataset)
                guarantees[dataset] = _epsilon(spent, profile), profile.delta
    delta = max((cost.delta for cost in costs), default=0.0)
    if not shared:
        accountant = runs[0].config.accountant
        return SweepCost(tuple(costs), compute_epsilon(costliest, delta, accountant), delta, exactly)
    persons = max(one.config.clients_per_person for one in runs)
    together = federation_budget(list(guarantees.values()) or [(0.0, delta)], persons)
    before = Accounts(ledger)
    return SweepCost(
        tuple(costs), together.epsilon, together.delta, exactly, any(map(before.spent, guarantees))
    )


def _every_round(config: RunConfig) -> bool:
    return config.fit_clients == config.clients and config.sampling != "poisson"


def _rounds(config: RunConfig, *, usual: bool) -> int:
    drawn = math.ceil(config.rounds * config.fit_clients / config.clients)
    return max(1, drawn) if usual else config.rounds


def _run_cost(
    config: RunConfig, sizes: Sequence[int], accounts: Accounts, *, vary: bool, usual: bool
) -> tuple[RunCost, dict[str, ClientProfile]]:
    """The cost of one run, which is paid; and the profiles of its clients, by data set."""
    rounds = _rounds(config, usual=usual)
    known: dict[tuple[int, tuple[Entry, ...]], RunCost] = {}  # most clients are alike
    worst: RunCost | None = None
    profiles: dict[str, ClientProfile] = {}
    for client, size in enumerate(sizes):
        settings = replace(client_config(config, client, _NOWHERE), vary_mechanism=vary)
        dataset = dataset_name(settings)
        conflict = accounts.conflict(records_name(settings), cut_of(settings), dataset)
        spent = accounts.spent(dataset)
        profile = profile_of(settings, size, spent, PROVEN, 0)
        profiles[dataset] = profile
        if (size, spent) not in known:
            cost = _client_cost(profile, config, rounds)
            known[size, spent] = replace(cost, conflict=conflict)
        cost = known[size, spent]
        if cost.mechanism is not None:
            accounts.pay(dataset, cost.mechanism)
        worst = cost if worst is None else max(worst, cost, key=_badness)
    assert worst is not None  # a run has clients
    return worst, profiles


def _badness(cost: RunCost) -> tuple[bool, bool, float]:
    return bool(cost.conflict), bool(cost.problem), cost.epsilon


def _client_cost(profile: ClientProfile, config: RunConfig, rounds: int) -> RunCost:
    """What a run does to the data of one client, by the planning of the run itself."""
    try:
        one = round_mechanism(profile, config)
        fresh = round_mechanism(replace(profile, spent=()), config)
    except (AccountingError, FederationError) as error:
        return RunCost(None, 0.0, profile.delta, 0, str(error).rstrip("."))
    if not one.private:
        unpaid = replace(one, steps=one.steps * rounds)
        return RunCost(unpaid, math.inf, profile.delta, rounds)
    budget = Budget(profile.epsilon, profile.delta, profile.accountant)
    planned = one.steps * rounds
    fitting = budget.steps_that_fit(one.sample_rate, one.noise_multiplier, planned, profile.spent)
    problem = ""
    if one.noise_multiplier != fresh.noise_multiplier and not profile.vary_mechanism:
        problem = (
            f"epsilon {config.epsilon:g} alone would take noise multiplier {fresh.noise_multiplier:g}; after "
            f"the runs before it these data keep to {one.noise_multiplier:g}, and it would show nothing new"
        )
    if not fitting:
        words = budget.in_words(profile.spent)
        return RunCost(None, 0.0, profile.delta, 0, problem or f"{words}: not one step more fits")
    entry = replace(one, steps=fitting)
    epsilon = budget.epsilon_of((entry,))
    return RunCost(entry, epsilon, profile.delta, -(-fitting // one.steps), problem)


def _epsilon(spent: tuple[Entry, ...], profile: ClientProfile) -> float:
    return compute_epsilon(spent, profile.delta, profile.accountant)


def noise_for_all(runs: Sequence[LookedAt], costs: SweepCost) -> float | None:
    """The noise multiplier with which all runs together stay within the least of their budgets.

    None where they differ in rate, where no noise is enough, or where data have spent before.
    """
    found = 0.0
    for size in sorted({size for one in runs for size in one.sizes}):
        rates = {expected_batch(one.config, size) / size for one in runs}
        if len(rates) > 1:
            return None
        steps = sum(
            steps_of_epochs(size, expected_batch(one.config, size), one.config.local_epochs)
            * one.config.rounds
            for one in runs
        )
        least = min(one.config.epsilon for one in runs)
        try:
            noise = calibrate_noise(
                rates.pop(), steps, least, costs.delta, accountant=runs[0].config.accountant
            )
        except AccountingError:
            return None
        found = max(found, noise)
    return found
