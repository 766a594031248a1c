"""A run that is ended in its last evaluation, and resumed: two models are released, and differ without noise.

A server that simulates its clients ended its own process while it evaluated the last round. model.pt had that
round's result already, the run's state had not. Resumed, the clients did the round again with the same noise,
unpaid, since it is the same computation. But dropout drew from torch's global generator: the second model
differed from the released one by 4.0 C, without any noise.

Now model.pt is that of the state on the disk, and the masks follow from the payment's bytes.
"""

import json

import numpy as np
import pytest
import torch
from flwr.app import Context, RecordDict
from torch import nn

from fl_dp.audit.one_run import GivenTask
from fl_dp.config.task import TaskSettings
from fl_dp.federation.server import evaluation
from fl_dp.federation.server.app import app
from fl_dp.federation.server.state import STATE, read_state
from fl_dp.simulation.actor.training_actor import TrainingActor
from fl_dp.simulation.work import ClientWork, Round
from fl_dp.tasks.constant import ConstantPrediction

ROUNDS = 2


class Interrupted(BaseException):
    """As by Ctrl-C."""


def _serve(folder, grid):
    flat = {
        "out": str(folder),
        "rounds": ROUNDS,
        "noise-multiplier": 2.0,
        "round-timeout": 0.3,
        "device": "cpu",
        "accountant": "rdp",
    }
    app(grid, Context(77, 0, {}, RecordDict(), flat))


def _interrupted_in(call, monkeypatch):
    """Interrupt the evaluation of that number; 0: none. The list grows with each."""
    calls, evaluate = [], evaluation.evaluate

    def count(model, *args):
        if not isinstance(model, ConstantPrediction):
            calls.append(1)
            if len(calls) == call:
                raise Interrupted
        return evaluate(model, *args)

    monkeypatch.setattr(evaluation, "evaluate", count)
    return calls


def test_what_is_released_of_an_interrupted_run_is_in_its_state(tmp_path, fakes, monkeypatch):
    def grid():
        return fakes.Grid({1: fakes.Client("0"), 2: fakes.Client("1")})

    with monkeypatch.context() as straight:
        evaluations = _interrupted_in(0, straight)
        _serve(tmp_path / "straight", grid())
    folder, nodes = tmp_path / "broken", grid()
    with monkeypatch.context() as broken:
        _interrupted_in(len(evaluations), broken)
        with pytest.raises(Interrupted):
            _serve(folder, nodes)
    state = read_state(folder / STATE)
    assert state.rounds == ROUNDS - 1
    released = torch.load(folder / "model.pt", weights_only=True)
    for name, array in state.arrays.items():
        np.testing.assert_array_equal(released[name].numpy(), array)
    assert json.loads((folder / "summary.json").read_text())["rounds"] == ROUNDS - 1


def _with_dropout():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 32), nn.Dropout(), nn.Linear(32, 3))


def test_a_round_that_is_done_again_has_the_same_masks(federation):
    """By another process, whose global generator is elsewhere."""
    items = [
        ClientWork(str(k), str(k), k, federation.plan(), 2, 0.5, None, key=bytes([k]) * 32) for k in range(3)
    ]
    found = []
    for seed in (1, 2):
        actor = TrainingActor(
            federation.shared, federation.settings(), GivenTask(_with_dropout(), TaskSettings())
        )
        start = {n: p.detach().numpy() for n, p in _with_dropout().named_parameters()}
        torch.manual_seed(seed)
        kernels = {"0.weight": "ghost", "2.weight": "ghost"}
        shared = Round("r", start, kernels)
        found.append([done.arrays for done in actor.train(1, items, 64, shared).done])
    for first, again in zip(*found, strict=True):
        assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(found[0][0]["0.weight"], found[0][1]["0.weight"])


def test_once_the_state_is_kept_a_round_is_not_done_again(federation):
    """Its bytes are gone: a repetition would be a second release, with other noise."""
    weights = "of the state"
    asked = {0: ("m", federation.messages()[0].content)}
    first, _ = federation.clients.pay(federation.clients.read(asked)[0], weights)
    again, _ = federation.clients.pay(federation.clients.read(asked)[0], weights)
    assert first[0].key == again[0].key
    federation.clients.erase_keys("run", 1)
    none, refusals = federation.clients.pay(federation.clients.read(asked)[0], weights)
    assert not none
    assert len(refusals) == 1
