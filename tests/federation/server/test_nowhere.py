"""A run that goes nowhere says so once, by round 2; one that learns never does."""

import math

import pytest
import torch
from federation.server.short_run import left, serve

from fl_dp.config.task import TaskSettings
from fl_dp.data.tensor_data import TensorData
from fl_dp.federation.server.evaluation import without_a_model
from fl_dp.federation.server.nowhere import WithoutAModel, why_nowhere
from fl_dp.reporting.console import round_line
from fl_dp.tasks.task import Task

RARE = WithoutAModel(loss=0.2, accuracy=0.95, equal_odds=math.log(2))  # one positive in twenty


@pytest.mark.parametrize(
    ("server_round", "rounds", "loss", "accuracy", "words"),
    [
        (1, 3, math.nan, None, "its loss is not finite; stop it"),
        (1, 3, 72.8, 0.96, "its loss 72.8 is far above 0.2"),
        (1, 3, 1.38, 0.5, ""),  # the start of a run: little more than equal odds
        (2, 3, 0.7, 0.5, "its loss 0.7 is no better than 0.2"),
        (1, 1, 0.7, 0.5, "no better"),  # a single round is the last
        (2, 3, 0.19, 0.95, ""),  # all answers are still the same, and the odds already differ
        (2, 3, 0.7, 0.96, ""),
        (2, 3, 0.7, None, "no better"),
        (59, 600, 0.7, 0.5, ""),  # secure sums: two rounds are two steps
        (60, 600, 0.7, 0.5, "no better"),
    ],
)
def test_what_goes_nowhere(server_round, rounds, loss, accuracy, words):
    found = why_nowhere(server_round, rounds, loss, accuracy, RARE)
    assert words in found
    assert bool(found) == bool(words)
    assert found.count(". ") == 0  # one sentence


def test_a_loss_of_ones_own_is_only_watched_for_numbers():
    assert why_nowhere(2, 3, 1e9, 0.0, None) == ""
    assert why_nowhere(2, 3, math.inf, 0.0, None)


def task_with(data, **changes):
    task = Task(TaskSettings(**changes))
    task.form = data.form
    return task


def test_answers_without_a_model_by_hand():
    classes = TensorData(torch.zeros(80, 2), torch.arange(80) // 60, ("a", "b", "c"))
    found = without_a_model(task_with(classes), classes)
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert found.loss == pytest.approx(entropy, abs=1e-6)
    assert (found.accuracy, found.equal_odds) == (0.75, pytest.approx(math.log(3)))
    numbers = TensorData(torch.zeros(40, 2), torch.arange(40) % 2 * 2.0, ("size",))
    found = without_a_model(task_with(numbers, loss="mse"), numbers)
    assert (found.loss, found.accuracy, found.equal_odds) == (pytest.approx(1.0), None, pytest.approx(2.0))
    few = TensorData(torch.zeros(4, 2), torch.tensor([0, 0, 0, 1]), ("a", "b"))
    assert without_a_model(task_with(few), few) is None


def test_the_server_says_it_once_on_the_console(tmp_path, fakes):
    """Fake clients add one to every weight, after which all classes are as likely as before."""
    serve(tmp_path, fakes.Grid({1: fakes.Client("0"), 2: fakes.Client("1")}), rounds=4)
    lines, _ = left(tmp_path)
    assert ["nowhere" in line for line in lines] == [False, True, False, False]
    shown = [round_line(line, rounds=4, budget=3.0) for line in lines]
    assert ["This run is going nowhere so far" in text for text in shown] == [False, True, False, False]
