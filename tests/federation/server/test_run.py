"""The server's main function as Flower calls it, with fake clients on a grid in memory."""

import pytest
import torch
from federation.server.short_run import left, serve

from fl_dp.errors import ConfigError, FlDpError
from fl_dp.form import Form
from fl_dp.models.build import build_model


def run(folder, fakes, nodes, **changes):
    serve(folder, fakes.Grid(dict(enumerate(nodes, 1))), **changes)


def test_a_run_leaves_its_files(tmp_path, fakes):
    clients = [fakes.Client("0"), fakes.Client("1")]
    run(tmp_path, fakes, clients, **{"learning-rate": 50.0})  # with which an honest step may add 1
    lines, summary = left(tmp_path)
    assert clients[0].plans[0].run == "77"
    assert [line["round"] for line in lines] == [1, 2]
    assert (summary["status"], summary["rounds"], summary["reason"]) == ("completed", 2, "")
    for name in ("epsilon", "delta", "accuracy", "loss"):
        assert summary[name] == lines[-1][name]
    assert summary["clients"]["0"] == {
        "epsilon": lines[-1]["clients"]["0"]["epsilon"],
        "accountant": "rdp",
        "budget": 3.0,
        "delta": 1e-5,
        "arithmetic": "steady-rows",
        "steps": 20,
        "rounds": 2,
        "rounds_left": 0,
        "rounds_beyond": 2,
        "status": "trained",
        "reason": "",
        "retired": 0,
        "public_size": 640,
        "sample_rate": 0.1,
        "noise_multiplier": 2.0,
        "charges": lines[-1]["clients"]["0"]["charges"],
        "before": [],
        "planned_epsilon": lines[-1]["epsilon"],
    }
    assert summary["federation"] == lines[-1]["federation"]
    assert summary["suppressed_below"] == 20
    state = torch.load(tmp_path / "out/model.pt", weights_only=True)
    start = build_model("linear", Form((1, 8, 8), 10), seed=0).state_dict()
    for name, tensor in start.items():
        torch.testing.assert_close(state[name], tensor + 2)  # the fakes add 1 in each round


def test_a_failure_is_written_down_and_raised(tmp_path, fakes):
    with pytest.raises(FlDpError, match="min-clients"):
        run(tmp_path, fakes, [fakes.Client("0")])
    _, summary = left(tmp_path)
    assert (summary["status"], summary["rounds"], summary["epsilon"]) == ("failed", 0, 0.0)
    assert "min-clients = 2" in summary["reason"]


def test_a_run_that_trained_nobody_is_a_failure(tmp_path, fakes):
    refusal = fakes.Refusal("declined", "no, thank you")
    nodes = [fakes.Client(name, mishaps={1: refusal, 2: refusal}) for name in "01"]
    with pytest.raises(FlDpError, match="No client ever trained: 0, 1: no, thank you"):
        run(tmp_path, fakes, nodes)
    assert left(tmp_path)[1]["status"] == "failed"


@pytest.mark.parametrize("changes", [{"model": "gpt-9"}, {"data": "no-such-data"}, {"rounds": 0}])
def test_a_model_that_cannot_be_built_fails_before_any_client_is_asked(tmp_path, fakes, changes):
    client = fakes.Client("0")
    with pytest.raises(FlDpError):
        run(tmp_path, fakes, [client], **changes)
    _, summary = left(tmp_path)
    assert summary["status"] == "failed"
    assert str(next(iter(changes.values()))) in summary["reason"]


def test_a_bug_is_written_down_too(tmp_path, fakes):
    def broken(message):
        raise ZeroDivisionError("grid is down")

    with pytest.raises(ZeroDivisionError):
        run(tmp_path, fakes, [broken])
    _, summary = left(tmp_path)
    assert summary["reason"] == "ZeroDivisionError: grid is down"


def test_a_directory_that_holds_a_run_is_left_alone(tmp_path, fakes):
    run(tmp_path, fakes, [fakes.Client("0"), fakes.Client("1")])
    before = left(tmp_path)
    with pytest.raises(ConfigError, match="already holds"):
        run(tmp_path, fakes, [fakes.Client("0"), fakes.Client("1")])
    assert left(tmp_path) == before
