"""The rule's numbers against what they are defined as, and against settings that served."""

import math
from pathlib import Path

import pytest
import torch

from fl_dp import Task
from fl_dp.accounting.calibration import calibrate_noise
from fl_dp.config.run import RunConfig
from fl_dp.form import Form
from fl_dp.launch.defaults import rule
from fl_dp.records import Entry
from fl_dp.tasks.load import give, task_of
from fl_dp.training.optimizers import MomentumSGD

DELTA = 1e-5


class Rows(Task):
    """300 numbers and two classes, with first weights of zero."""

    classes = ("no", "yes")

    def model(self):
        model = torch.nn.Linear(300, 2)
        for one in model.parameters():
            torch.nn.init.zeros_(one)
        return model

    def losses(self, model, batch):
        return torch.nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none")


def test_the_noise_of_a_mean_is_that_of_its_steps_over_the_records_in_them():
    noise = calibrate_noise(64 / 721, 113, 3.0, DELTA, accountant="rdp")
    assert rule.noise_of_mean(721, 64, 10.0, 3.0, DELTA) == noise / (64 * math.sqrt(113))
    full = calibrate_noise(1.0, 10, 3.0, DELTA, accountant="rdp")
    assert rule.noise_of_mean(721, 1024, 10.0, 3.0, DELTA) == full / (721 * math.sqrt(10))


@pytest.mark.parametrize(
    ("size", "epochs", "epsilon"), [(721, 40, 3.0), (721, 40, 8.0), (60000, 40, 3.0), (60000, 1, 3.0)]
)
def test_the_batch_is_the_least_that_its_definition_allows(size, epochs, epsilon):
    batch = rule.batch_of(size, epochs, epsilon, DELTA)
    full = rule.noise_of_mean(size, size, epochs, epsilon, DELTA)

    def steps(of: int) -> int:
        return math.ceil(epochs * size / min(of, size))

    def serves(of: int) -> bool:
        noise = rule.noise_of_mean(size, of, epochs, epsilon, DELTA)
        return steps(of) <= rule.MOST_STEPS and noise <= rule.MORE_NOISE * full

    assert batch & (batch - 1) == 0
    assert rule.LEAST_STEPS <= steps(batch) <= rule.MOST_STEPS
    assert not serves(batch // 2)
    assert serves(batch) or steps(2 * batch) < rule.LEAST_STEPS


@pytest.mark.parametrize(
    ("size", "epochs", "epsilon", "batch"),
    [
        (60000, 40, 3.0, 4096),  # 586 steps; a full batch has 7 % less noise
        (721, 40, 3.0, 64),
        (60000, 1, 3.0, 512),  # 118 steps: twice as large would leave 59
        (20, 1, 3.0, 1),  # twenty steps are all there are
        # there only full batches have hardly more noise than full batches; they would leave forty steps
        (30, 40, 100.0, 16),
        (200, 40, 50.0, 128),
    ],
)
def test_batches_by_hand(size, epochs, epsilon, batch):
    """A change of these changes what users get: docs/planning.md and its table go with them."""
    assert rule.batch_of(size, epochs, epsilon, DELTA) == batch


@pytest.mark.parametrize(
    ("clients", "in_a_round", "epochs", "steps", "most", "rounds"),
    [
        (1, 1, 40, 586, None, 4),
        (4, 4, 40, 470, None, 16),  # four times as many as clients
        (10, 10, 40, 470, None, 40),
        (10, 10, 12, 470, None, 12),  # no more than passes
        (10, 10, 1, 470, None, 10),
        (60, 60, 40, 470, None, 60),  # one for each client
        (10, 10, 40, 470, 5, 5),
        (10, 10, 40, 470, 50, 40),
        (100, 10, 40, 100, None, 40),  # four for each client
        (1000, 100, 40, 100, None, 100),
        (100, 100, 40, 30, None, 30),  # a step in each
        (100, 10, 40, 2, None, 20),
    ],
)
def test_rounds(clients, in_a_round, epochs, steps, most, rounds):
    assert rule.rounds_of(clients, in_a_round, epochs, steps, most) == rounds


@pytest.mark.parametrize(
    ("clients", "in_a_round", "steps", "most", "rounds"),
    [(10, 10, 360, None, 360), (100, 10, 360, None, 3600), (10, 10, 360, 50, 50), (3, 2, 5, None, 8)],
)
def test_rounds_of_secure_sums_are_steps(clients, in_a_round, steps, most, rounds):
    assert rule.rounds_of_sums(clients, in_a_round, steps, most) == rounds


def test_the_bound_is_a_typical_gradient_unless_its_noise_would_be_too_large():
    quiet, loud = Entry(0.1, 4.0, 400), Entry(0.1, 4.0, 4)
    noise = 4.0 / (1000 * math.sqrt(4))  # in a weight, of the mean of four sums of 1,000 gradients, over C
    table, images = rule.MadeUp(2.53, images=False), rule.MadeUp(2.53, images=True)
    assert rule.bound_of(table, [quiet], [100_000]) == 2.5
    assert rule.bound_of(table, [None], [10_000]) == 2.5  # without noise
    assert rule.bound_of(images, [quiet], [100_000]) == 0.25
    assert rule.bound_of(table, [loud], [10_000]) == pytest.approx(2.53 * 0.001 / noise, rel=0.05)
    # four clients have half the noise in their mean
    assert rule.bound_of(table, [loud] * 4, [10_000] * 4) == pytest.approx(2.53 * 0.002 / noise, rel=0.05)


def test_a_typical_gradient_is_that_of_numbers_between_minus_one_and_one():
    """By hand: |p - y| times the length of the inputs and a one, at odds that are nearly equal."""
    config = RunConfig(task=give(Rows))
    task_of(config).form = Form((300,), 2)
    found = rule.made_up(config)
    assert found == rule.made_up(config)
    assert not found.images
    assert found.norm == pytest.approx(math.sqrt(2) * 0.5 * math.sqrt(300 / 3 + 1), rel=0.02)


def test_epochs_moves_and_rates_by_hand():
    assert rule.local_epochs_of(40, 10, 10, 10) == 4.0
    assert rule.local_epochs_of(40, 100, 10, 40) == 10.0  # adds up to all passes in the mean
    assert rule.local_epochs_of(40, 3, 3, 7) == 5.714
    assert rule.noise_in_a_weight(10000, images=True) == pytest.approx(0.17)
    assert rule.noise_in_a_weight(100, images=False) == 0.6
    assert rule.noise_in_a_weight(160000, images=False) == pytest.approx(0.07)  # 28 long, all together
    for entry in (Entry(0.5, 1e-6, 100), None):  # without noise
        assert rule.move_of([entry], [10000], 100, 100, images=False) == rule.MOST_MOVE
    assert rule.rate_of(4.0, 0.1, 0.9) == 4.0
    assert rule.rate_of(4.16, 0.1, 0.0) == 42.0


@pytest.mark.parametrize(("clients", "momentum"), [(1, 0.9), (4, 0.9), (4, 0.0)])
def test_all_noise_of_a_run_moves_a_weight_as_far_as_is_said(clients, momentum):
    """Nothing but noise, by the descent that clients have; the common model is the mean of theirs."""
    size, batch, noise, steps, bound, parameters = 400, 100, 2.0, 800, 0.5, 5000
    entries = [Entry(batch / size, noise, steps)] * clients
    move = rule.move_of(entries, [size] * clients, parameters, steps, images=False)
    assert move < rule.MOST_MOVE
    rate = rule.rate_of(move, bound, momentum)
    generator = torch.Generator().manual_seed(0)
    models = [torch.zeros(parameters) for _ in range(clients)]
    for model in models:
        descent = MomentumSGD([model], learning_rate=rate, momentum=momentum)
        for _ in range(steps):
            descent.step([noise * bound * torch.randn(parameters, generator=generator) / batch])
    spread = torch.stack(models).mean(dim=0).std().item()
    assert spread == pytest.approx(rule.noise_in_a_weight(parameters, images=False), rel=0.05)


def test_the_rules_numbers_are_those_of_its_page():
    page = " ".join((Path(__file__).parents[3] / "docs" / "planning.md").read_text().split())
    for words in (
        f"{rule.MOST_EPOCHS:g} in all rounds",
        f"at most {rule.MOST_STEPS} steps",
        f"within {100 * (rule.MORE_NOISE - 1):.0f} % of a full batch's",
        f"fewer than {rule.LEAST_STEPS} steps",
        f"take part {rule.LEAST_PARTICIPATIONS} times on average",
        f"moves each weight by {rule.MOST_IN_A_WEIGHT:g},",
        f"momentum {rule.MOMENTUM:g};",
    ):
        assert words in page
