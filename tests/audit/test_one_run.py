"""The audit of the shipped step: it believes what is true, and finds what was broken on purpose.

Each audit of a sound step fails with probability 5 % at most by the theorem; as the bound of a Gaussian
mechanism stays far below its epsilon (0.8 of it at most), none of these will. Those of broken steps have
seeded coins, noise and draws: they find the fault in every run or in none.
"""

import dataclasses
from functools import cache, partial

import pytest
import torch

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.audit.canaries import GradientCanaries, WatchedGradients, hostile_learning_rate
from fl_dp.audit.one_run import AuditReport, GivenTask, run_audit
from fl_dp.audit.ways import Deployed, Simulated
from fl_dp.config.data import DataSettings
from fl_dp.config.task import TaskSettings
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.errors import AccountingError, ConfigError, FederationError
from fl_dp.federation.client.own_training import OwnTraining
from fl_dp.federation.client.payment import Paid
from fl_dp.records import Entry, RoundPlan
from fl_dp.training import step

DELTA, BOUND = 1e-5, 0.7


WAYS = [Deployed, Simulated]


def _plan(batch, rate, noise_multiplier, steps=1, momentum=0.0, model="canaries") -> RoundPlan:
    return RoundPlan(
        run="audit",
        server_round=1,
        model=model,
        steps=steps,
        expected_batch_size=batch,
        learning_rate=rate,
        momentum=momentum,
        noise_multiplier=noise_multiplier,
        max_grad_norm=BOUND,
    )


def _audit(
    count,
    sample_rate,
    steps,
    noise_multiplier,
    rounds=1,
    momentum=0.0,
    seed=None,
    way=Deployed,
    unit=None,
) -> AuditReport:
    canaries = GradientCanaries(count, count, BOUND, unit)
    batch = round(sample_rate * count)
    rate = canaries.learning_rate(batch, steps * rounds)
    coins = None if seed is None else torch.Generator().manual_seed(seed)
    plan = _plan(batch, rate, noise_multiplier, steps, momentum)
    return run_audit(canaries, plan, rounds, DELTA, coins=coins, way=way, unit=unit)


PERSONS = DataSettings(unit="person:canary", records_per_person=3)


class ByRecord(Deployed):
    """Broken: it draws, clips and adds up records, and says that they are persons."""

    def __init__(self, settings, data, task, ledger):
        super().__init__(settings, data, task, ledger)
        by_record = GivenTask(task.model(), TaskSettings(loss=task.settings.loss))
        self._training = OwnTraining(settings, data.records, by_record)


@pytest.mark.parametrize("way", [*WAYS, ByRecord])
def test_persons_as_canaries_each_with_more_records_than_may_count(way, uncut):
    report = _audit(1000, 1.0, 4, 2.0, way=way, unit=PERSONS)
    assert report.claimed == compute_epsilon([Entry(1.0, 2.0, 4)], DELTA)
    assert report.passed is (way is not ByRecord)
    assert report.found > 0.2 * report.claimed


@pytest.fixture
def uncut(monkeypatch):
    """Draws of any length: the cut to the most that is foreseen would hide a part of what is broken."""
    monkeypatch.setattr(step, "most_drawn", lambda expected: 2**20)


@pytest.fixture
def seeded(monkeypatch):
    """Noise and draws of the shipped step from seeds 1, 2, 3, ..."""
    seeds = iter(range(1, 1000))
    monkeypatch.setattr(Paid, "key", lambda self, *given: next(seeds).to_bytes(32))
    monkeypatch.setattr(step.Randomness, "system", lambda: Randomness(next(seeds).to_bytes(32)))


@pytest.mark.parametrize(
    ("sample_rate", "steps", "noise_multiplier", "rounds", "momentum", "way"),
    [
        (1.0, 1, 0.5, 1, 0.0, Deployed),
        (1.0, 4, 2.0, 2, 0.5, Deployed),
        (0.2, 10, 1.0, 2, 0.0, Deployed),
        (0.05, 5, 0.6, 3, 0.9, Deployed),
        (1.0, 1, 2.0, 1, 0.0, Simulated),
        (0.05, 5, 0.6, 3, 0.9, Simulated),
    ],
)
def test_what_is_found_stays_below_what_is_claimed(
    sample_rate, steps, noise_multiplier, rounds, momentum, way
):
    report = _audit(1000, sample_rate, steps, noise_multiplier, rounds, momentum, way=way)
    assert report.passed
    assert report.found < report.claimed
    entry = Entry(sample_rate, noise_multiplier, steps * rounds)
    assert report.claimed == compute_epsilon([entry], DELTA)
    assert (report.steps, report.sample_rate) == (steps * rounds, sample_rate)


def test_the_audit_sees_a_good_part_of_the_truth(seeded):
    assert _audit(5000, 1.0, 2, 1.0, seed=0).found > 0.3 * compute_epsilon([Entry(1.0, 1.0, 2)], DELTA)


def _no_noise(clipped, *, noise_multiplier, generator):
    return {name: grad.clone() for name, grad in clipped.grads.items()}


def _half_the_noise(clipped, *, noise_multiplier, generator, add=step.add_gaussian_noise):
    return add(clipped, noise_multiplier=noise_multiplier / 2, generator=generator)


def _looser_clipping(*passed, max_grad_norm, factor, clip=step.sum_of, **options):
    found = clip(*passed, max_grad_norm=factor * max_grad_norm, **options)
    return dataclasses.replace(found, sensitivity=max_grad_norm)  # as if nothing had happened


def _everybody(num_records, sample_rate, generator):
    return torch.arange(num_records)


FAULTS = {
    "no noise": ("add_gaussian_noise", _no_noise, 2000, 1.0, 1, 2.5),
    "no noise, sampled": ("add_gaussian_noise", _no_noise, 2000, 0.1, 50, 1.5),
    "half the noise": ("add_gaussian_noise", _half_the_noise, 20_000, 1.0, 1, 2.5),
    "twice the bound": ("sum_of", partial(_looser_clipping, factor=2), 20_000, 1.0, 1, 2.5),
    "no bound": ("sum_of", partial(_looser_clipping, factor=1e9), 2000, 1.0, 1, 2.5),
    "no sampling": ("poisson_draw", _everybody, 2000, 0.1, 20, 1.5),
}


@cache
def _passes_unbroken(way, *settings) -> bool:
    return _audit(*settings, seed=0, way=way).passed


@pytest.mark.parametrize(
    ("name", "way"),
    [
        *((name, Deployed) for name in FAULTS),
        *((name, Simulated) for name in ("no noise", "no bound", "no sampling")),
    ],
)
def test_a_step_broken_on_purpose_is_found(name, way, monkeypatch, seeded, uncut):
    place, fault, *settings = FAULTS[name]
    assert _passes_unbroken(way, *settings)
    monkeypatch.setattr(step, place, fault)
    report = _audit(*settings, seed=0, way=way)
    assert not report.passed
    assert report.found > report.claimed
    assert report.to_dict()["passed"] is False


def _hostile_plan(public_size, noise_multiplier) -> RoundPlan:
    return _plan(public_size, hostile_learning_rate(public_size), noise_multiplier, model="linear")


def _hostile_audit(runs, noise_multiplier, way, unit=None) -> AuditReport:
    plan = _hostile_plan(220, noise_multiplier)
    canaries, coins = WatchedGradients(200, 220, plan, unit), torch.Generator().manual_seed(0)
    return run_audit(canaries, plan, 1, DELTA, coins=coins, way=way, hostile=True, runs=runs, unit=unit)


def test_a_hostile_server_finds_most_of_epsilon_in_the_shipped_client(seeded):
    report = _hostile_audit(40, 1.0, Deployed)
    assert report.hostile
    assert report.runs == 40
    assert 0.5 * report.claimed < report.found <= report.claimed
    assert report.found_one_run < report.found


@pytest.mark.parametrize("way", [Deployed, ByRecord])
def test_a_hostile_server_against_persons(way, uncut):
    """Six copies of each canary, of which three may count; without persons all of them do."""
    report = _hostile_audit(25, 1.0, way, PERSONS)
    assert report.passed is (way is not ByRecord)
    assert report.found > 0.4 * report.claimed


def test_a_hostile_server_finds_too_little_noise_in_a_simulated_client(monkeypatch):
    """Seven standard deviations beyond what 25 runs may show: no seed is needed."""

    def less_noise(clipped, *, noise_multiplier, generator, add=step.add_gaussian_noise):
        return add(clipped, noise_multiplier=0.55 * noise_multiplier, generator=generator)

    monkeypatch.setattr(step, "add_gaussian_noise", less_noise)
    assert not _hostile_audit(25, 1.0, Simulated).passed


@pytest.mark.parametrize("hostile", [True, False])
def test_a_hostile_server_sends_the_same_weights_whatever_it_gets(hostile):
    sent = []

    class Watched(Deployed):
        def train(self, plan, weights):
            sent.append((plan.server_round, weights["weights.weight"].copy()))
            return super().train(plan, weights)

    plan = _hostile_plan(50, 1.0)
    run_audit(WatchedGradients(50, 50, plan), plan, 2, DELTA, way=Watched, hostile=hostile, runs=2)
    assert [number for number, _ in sent] == [1, 2, 1, 2]
    assert (sent[0][1] == sent[2][1]).all()  # each run starts afresh
    assert (sent[0][1] == sent[1][1]).all() == hostile


def test_a_hostile_round_is_one_step_and_a_run_is_one_at_least():
    plan = dataclasses.replace(_hostile_plan(100, 1.0), steps=2)
    with pytest.raises(ConfigError, match="one step a round"):
        run_audit(WatchedGradients(100, 100, plan), plan, 1, DELTA, hostile=True)
    with pytest.raises(ConfigError, match="runs=0"):
        run_audit(WatchedGradients(100, 100, plan), plan, 1, DELTA, runs=0)


def test_hardly_any_noise_leaves_nothing_to_audit():
    with pytest.raises(AccountingError, match="nothing to audit"):
        _audit(10, 1.0, 1, 0.01)


def test_a_simulated_client_whose_noise_is_that_of_another_round_is_found(monkeypatch, seeded):
    """What only a simulation can get wrong: keys that repeat, so that two rounds' noise can be taken off."""
    canaries = GradientCanaries(2000, 2000, BOUND)
    noise = []

    def remembered(clipped, *, noise_multiplier, generator, add=step.add_gaussian_noise):
        noisy = add(clipped, noise_multiplier=noise_multiplier, generator=generator)
        noise.append({name: noisy[name] - grad for name, grad in clipped.grads.items()})
        return noisy

    monkeypatch.setattr(step, "add_gaussian_noise", remembered)
    plan = _plan(2000, canaries.learning_rate(2000, 2), 2.0)
    run_audit(canaries, plan, 2, DELTA, way=Simulated)
    first, second = (torch.cat([part.flatten() for part in one.values()]) for one in noise)
    assert torch.corrcoef(torch.stack([first, second]))[0, 1].abs() < 0.1


@pytest.mark.parametrize("way", WAYS)
def test_a_client_that_refuses_ends_the_audit_in_words(way):
    with pytest.raises(FederationError, match="The audited client refuses: the round asks for momentum 1"):
        _audit(100, 1.0, 1, 1.0, momentum=1.0, way=way)
