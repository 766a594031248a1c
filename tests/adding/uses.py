"""Run by test_adding.py in a copy of the package, which holds one choice more of every kind."""

import dataclasses
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from definition import clipped_by_definition, clipped_by_engine
from flwr.app import Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from run_records import record
from torch import nn

import fl_dp
from fl_dp import choices
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.config.all_keys import keys_of
from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.config.task import TaskSettings
from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.probe import probe
from fl_dp.errors import ConfigError, DataError, FlDpError
from fl_dp.federation.client.payment import pay_and_answer
from fl_dp.federation.client.registration import dataset_name
from fl_dp.federation.client.round import ClientRounds, update_of
from fl_dp.federation.server.aggregation import aggregation_of
from fl_dp.federation.server.ask import Asked
from fl_dp.federation.server.client_record import ClientRecord
from fl_dp.federation.server.combine import Aggregator
from fl_dp.federation.server.evaluation import evaluate
from fl_dp.federation.server.planning import round_mechanism, round_plan
from fl_dp.federation.server.report import client_round
from fl_dp.federation.server.state import RunState, read_state, write_state
from fl_dp.federation.server.verify import RoundResult, Verdict, settle
from fl_dp.federation.wire.arrays import ArraySpec, encode, specs
from fl_dp.federation.wire.messages import plan_to_content, update_to_content
from fl_dp.form import Form
from fl_dp.launch.first_checks import check_files, check_first
from fl_dp.launch.preflight import check_choices, check_server, split, with_absolute_paths
from fl_dp.models.build import build_model
from fl_dp.records import ClientProfile, Entry, RoundPlan
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.reporting.tracking import tracking
from fl_dp.tasks.load import task_of
from fl_dp.tasks.records import load_part
from fl_dp.tasks.task import Task
from fl_dp.training.augmentation import Views
from fl_dp.training.examples import axes_of
from fl_dp.training.trainer import take_steps, trainer_of
from fl_dp.verify.check import Evidence, checked

KINDS = {kind: one for kind, one in vars(choices).items() if isinstance(one, choices.Choices)}
NEW = {
    "ACCOUNTANTS": "guess",
    "AGGREGATIONS": "own-trim",
    "AUGMENTATIONS": "negative",
    "CHECKS": "some-rounds",
    "FEATURES": "edges",
    "LOCAL_ALGORITHMS": "halved",
    "LOSSES": "hinge",
    "METRICS": "top-two",
    "MODELS": "perceptron",
    "PARTITIONS": "by_label",
    "RULES": "prelu",
    "SERVER_OPTIMIZERS": "fedown",
    "SOURCES": "columns",
    "TRACKERS": "lines",
}
CPU = torch.device("cpu")
PLAN = RoundPlan("run", 3, "linear", 1, 40, 1.0, 0.0, 1e-9, 1e3)  # one step, no clipping, hardly any noise
DATA = TensorData(
    torch.randn(40, 5, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 3, ("a", "b", "c")
)


def check(**settings):
    """What is checked of a run before anything is started."""
    config = RunConfig(**settings)
    check_first(config, clients=False)
    check_choices(config)
    check_server(config)
    return config


def linear():
    """A model of which all weights are 0."""
    model = nn.Linear(5, 3, bias=False)
    nn.init.zeros_(model.weight)
    return model


def task_for(settings, data):
    task = Task(settings)
    task.form = data.form
    return task


def step(plan):
    """Where one step over all records takes the weight of `linear`."""
    model, objective = linear(), task_for(TaskSettings(loss=plan.loss), DATA).objective
    trainer = trainer_of(model, plan, objective, CPU, axes_of(model, objective, CPU))
    trainer.rehearse(7)
    take_steps(trainer, DATA, 1, 1.0, 16)
    return model.weight.detach()


def test_the_package_is_the_copy():
    assert Path(fl_dp.__file__).parents[1] == Path(os.environ["PYTHONPATH"])


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_listed(kind):
    """A kind that is missing in NEW has been added itself: give it an example in tests/adding/fl_dp."""
    name = NEW[kind]
    assert name in KINDS[kind].names()
    if shown := [key for key in keys_of(RunConfig) if key.about.choices == KINDS[kind]]:
        assert all(name in key.expected.split(", ") for key in shown)
        field = shown[0].name.replace("-", "_")
        with pytest.raises(FlDpError, match=f"did you mean {name}?"):
            check(**{field: f"{name}x"})


def test_a_model_is_built():
    check(model="perceptron:7")
    built = build_model("perceptron:7", Form((1, 8, 8), 10), seed=0)
    assert [one.in_features for one in built if isinstance(one, nn.Linear)] == [64, 7]
    with pytest.raises(ConfigError, match="perceptron takes an argument; write perceptron:WIDTH"):
        check(model="perceptron")
    with pytest.raises(FlDpError, match=r"does not fit data of shape \(1, 8, 8\): invalid literal for int"):
        check(model="perceptron:wide")


def test_a_source_is_loaded_and_found_from_anywhere(tmp_path, monkeypatch):
    (tmp_path / "table").mkdir()
    (tmp_path / "table/train.csv").write_text("0.5,1.5,0\n-1,2,1\n0,0,1\n")
    (tmp_path / "table/test.csv").write_text("0.1,0.2,1\n")
    monkeypatch.chdir(tmp_path)
    config = with_absolute_paths(RunConfig(data="columns:table"))
    assert config.data == f"columns:{tmp_path}/table"
    monkeypatch.chdir("/")
    check(data=config.data)
    assert split(config)[1][0].startswith("the smallest client declares 1 records")
    with pytest.raises(DataError, match=r"^/table: no such file, named by data = 'columns:table'"):
        check_files(RunConfig(data="columns:table"))


def test_a_partition_is_used_and_named_in_ledgers():
    config = ClientConfig(client="0", ledger="l", num_partitions=10, partition_id=3, partition="by_label:2")
    assert dataset_name(config) == "digits, part 3/10 (by_label:2, seed 0)"
    assert len(load_part(config)) in (72, 73)  # a tenth of half of 1442


def test_features_are_computed():
    config = check(features="edges")
    assert str(task_of(config).form) == "numbers of shape (1, 8, 7) to 10 classes"
    assert split(config)[1][-1].startswith("features edges of all records take 0 MiB")


def test_a_loss_is_planned_trained_and_evaluated():
    config = RunConfig(loss="hinge", noise_multiplier=1.0, expected_batch_size=8, physical_batch_size=8)
    profile = ClientProfile("a", 40, 50.0, 1e-5, (), "rdp")
    assert round_plan(profile, round_mechanism(profile, config), config, "run", 1).loss == "hinge"
    model = linear()
    loss = nn.functional.multi_margin_loss(model(DATA.x), DATA.y)
    assert evaluate(model, DATA, task_for(config, DATA), CPU).loss == pytest.approx(loss.item())
    expected = -torch.autograd.grad(loss, model.weight)[0]
    for private in (True, False):
        moved = step(dataclasses.replace(PLAN, loss="hinge", private=private))
        torch.testing.assert_close(moved, expected, rtol=0, atol=1e-5)


def test_a_local_algorithm_trains():
    check(local_algorithm="halved")
    moved, half = step(PLAN), step(dataclasses.replace(PLAN, local_algorithm="halved"))
    assert moved.abs().max() > 0.1
    torch.testing.assert_close(moved, 2 * half, rtol=0, atol=1e-5)


def test_an_augmentation_changes_views_and_is_compared():
    assert check(augmentation="negative,views:2").seen == "2 views by negative"
    words = np.array([0, 2**63], np.uint64)  # a number below one half, and one half
    images = torch.full((1, 1, 1, 2, 2), 0.25)
    views = Views(2, "negative").of(images, torch.tensor([0]), lambda example, count: words)
    assert views[0, :, 0, 0, 0].tolist() == [0.75, 0.25]


def test_a_metric_is_measured():
    config = RunConfig(metrics="top-two, accuracy")
    data = TensorData(torch.eye(4), torch.tensor([0, 1, 2, 3]), ("a", "b", "c", "d"))
    model = nn.Linear(4, 4, bias=False)
    # first and second choices: 0, 1 / 0, 1 / 0, 1 / 3, 2
    model.weight.data = torch.tensor([[3.0, 2, 0, 1], [3, 2, 0, 1.5], [3, 2, 1, 0], [0, 1, 2, 3]]).T
    result = evaluate(model, data, task_for(config, data), CPU, config.metric_names)
    assert result.metrics == {"top-two": 0.75, "accuracy": 0.5}


def test_an_aggregation_and_a_server_optimizer_are_used_over_a_resumption_too(tmp_path):
    config = RunConfig(aggregation="own-trim", server_optimizer="fedown")
    start = {"w": np.zeros(2, np.float32)}
    updates = [({"w": np.float32([v, -v])}, 1.0) for v in (1.0, 2.0, 3.0, 1e9)]
    verdicts = {name: Verdict("trained", arrays=one) for name, (one, _) in zip("abcd", updates, strict=True)}
    judged = RoundResult(updates=updates, verdicts=verdicts)
    first, second = Aggregator(config, specs(start)), Aggregator(config, specs(start))
    assert first.needs_single_updates
    weights = {"w": first.aggregate(encode(start), judged)["w"].numpy()}
    assert weights["w"].tolist() == [2.5, -2.5]
    state = RunState(
        run="r", settings=config.to_flat(), secret=b"s" * 32, arrays=weights, aggregated=first.state()
    )
    write_state(tmp_path / "state.npz", state)
    kept = read_state(tmp_path / "state.npz")
    second.restore(kept.aggregated)
    resumed = second.aggregate(encode(kept.arrays), judged)["w"].numpy()
    assert resumed.tolist() == [7.5, -7.5]  # the second step, which adds the mean twice


def test_an_aggregation_reads_its_argument():
    updates = [({"w": np.float32([value])}, 1.0) for value in (1, 2, 3, 10, 1e9)]
    for name, mean in (("own-trim", 5.0), ("own-trim:2", 3.0)):
        found = aggregation_of(name).combine(updates, [], {"w": ArraySpec((1,), np.dtype(np.float32))})
        assert found["w"].tolist() == [mean]
    with pytest.raises(ConfigError, match="aggregation = 'own-trim:two': invalid literal for int"):
        check(aggregation="own-trim:two")


def test_an_accountant_plans_and_holds_budgets_if_it_is_a_bound():
    plan = [Entry(0.0256, 2.0, 100)]
    rdp, loose, guess = (compute_epsilon(plan, 1e-5, name) for name in ("rdp", "loose", "guess"))
    assert loose == 2 * rdp
    assert 0 < guess < rdp
    check(accountant="loose")
    with pytest.raises(ConfigError, match=r"not a proven upper bound.*use .*loose or "):
        check(accountant="guess")


def test_a_rule_equals_one_backward_per_example():
    """In float64; without `probe` no fallback could answer instead of the rule."""
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.PReLU(4), nn.Conv2d(4, 3, 2)).double()
    inputs = torch.randn(7, 2, 6, 6, dtype=torch.float64)
    axes = probe(model, inputs)
    assert not axes.fallback
    expected = clipped_by_definition(model, inputs, 0.3)
    for known in (axes, None):
        found = clipped_by_engine(model, inputs, 0.3, axes=known).grads
        torch.testing.assert_close(dict(found), expected, rtol=1e-9, atol=1e-9)


def test_a_number_comes_from_the_client_into_the_line(tmp_path, monkeypatch):
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    settings = ClientConfig(client="a", ledger="given", epsilon=50.0, delta=1e-5, accountant="rdp")
    plan = dataclasses.replace(PLAN, expected_batch_size=20, noise_multiplier=1.0, max_grad_norm=1.0)
    arrays = {"w": np.ones(2, np.float32)}
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        rounds = ClientRounds(ledger)
        (client,) = rounds.register([(settings, DATA)])
        (profile,) = rounds.profiles([client])
        accepted, _ = rounds.accept([("key", client, plan_to_content(plan, encode({})))])
        answer = pay_and_answer(ledger, accepted[0], lambda paid: arrays, update_of)
    asked = Message(RecordDict(), 1, "train")
    known = ClientRecord(profile, 1, (), accepted[0].entry)
    question = Asked(known, known.mechanism, 1.0, asked, False, plan)
    verdict, _ = settle(Message(update_to_content(answer), reply_to=asked), question, specs(arrays))
    assert verdict.status == "trained"
    assert ("rounds_before", 2) in client_round(known, verdict, 0).reported


def test_a_tracker_is_told(tmp_path):
    config = check(track="lines")
    with tracking(config, RunFolder(tmp_path), print) as told:
        told.round_over(record(loss=0.5))
    (line,) = (tmp_path / "tracked/lines/lines.jsonl").read_text().splitlines()
    assert json.loads(line)["model/loss"] == 0.5


def test_a_check_is_run(tmp_path):
    *_, last = checked(Evidence(RunFolder(tmp_path)))
    assert (last.name, last.findings[0].what) == ("some-rounds", "0 rounds were run")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"aggregation": "half"}, "aggregation = 'half': cannot be made: Can't instantiate abstract class"),
        ({"server_optimizer": "half"}, "its SERVER_OPTIMIZER is 3, expected a class"),
        ({"data": "half"}, "sources.half cannot be used: ModuleNotFoundError"),
    ],
)
def test_what_is_half_written_is_refused_before_anything_starts(settings, words):
    with pytest.raises(ConfigError, match=words):
        check_choices(RunConfig(**settings))
