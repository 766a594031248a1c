"""Local figures: whose model is measured on which records, and when."""

import stat
from pathlib import Path
from typing import Any

import pytest
import torch

import fl_dp
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.federation.client.kept_states import FOLDER, KeptStates
from fl_dp.federation.client.registration import numbered
from fl_dp.federation.server.evaluation import Evaluation
from fl_dp.form import Form
from fl_dp.launch.clients import client_config
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.simulation import local_figures
from fl_dp.simulation.local_figures import LocalFigure, LocalFigures, OfClient, figure, measure, wanted, words
from fl_dp.tasks.load import new_model, task_of
from fl_dp.tasks.records import load_part, load_undivided

CLIENTS = 3
PUBLIC = {"data": "digits", "clients": CLIENTS, "model": "linear", "test": 0.3}


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """Config, client settings and folder of a run whose model is all 2, of client 1 all 1."""

    def make(**settings: Any) -> Any:
        config, folder = RunConfig(**{**PUBLIC, **settings}), RunFolder(tmp_path)
        task = task_of(config)
        task.form = Form((1, 8, 8), 10)
        state = {name: torch.full_like(one, 2.0) for name, one in new_model(task).state_dict().items()}
        torch.save(state, folder.model(private=True))
        file = tmp_path / "own.pt"
        torch.save({"own": {"1.weight": torch.full_like(state["1.weight"], 1.0)}}, file)
        KeptStates(folder.clients / FOLDER).save(4, {"1": file.read_bytes()})
        return config, client_config(config, 0, tmp_path / "ledgers", one_run=True), folder

    return make


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Of each evaluation the model's first weight, and the records."""
    found = []

    def evaluate(model: Any, data: Any, *rest: Any) -> Evaluation:
        found.append((float(model.state_dict()["1.weight"][0, 0]), data))
        return Evaluation(0.5, {"accuracy": 0.25, "auroc": None, "own": float("nan")})

    monkeypatch.setattr(local_figures, "evaluate", evaluate)
    return found


def test_exactly_the_records_that_nobody_trains_on_are_measured(run, seen):
    config, client, folder = run()
    trained = [load_part(numbered(client, part, CLIENTS)).digests() for part in range(CLIENTS)]
    found = measure(config, client, folder)
    measured = [data.digests() for _, data in seen]
    assert [one.records for one in found.clients] == [len(one) for one in measured]
    assert not set().union(*trained) & set().union(*measured)
    for part in range(CLIENTS):
        own = load_undivided(numbered(client, part, CLIENTS)).digests()
        assert sorted([*trained[part], *measured[part]]) == sorted(own)
        assert 0.15 < len(measured[part]) / len(own) < 0.45


@pytest.mark.parametrize("own", [{"personal": "1.weight"}, {"local_algorithm": "mr-mtl:0.1"}])
def test_a_model_of_ones_own_is_measured_and_who_never_trained_is_counted(run, seen, own):
    found = measure(*run(**own))
    assert [weight for weight, _ in seen] == [1.0]
    assert ([one.client for one in found.clients], found.untrained) == ([1], 2)


def test_without_models_of_their_own_all_clients_have_the_final_one(run, seen):
    found = measure(*run())
    assert [weight for weight, _ in seen] == [2.0] * CLIENTS
    assert [one.client for one in found.clients] == [0, 1, 2]
    assert found.figures["accuracy"] == LocalFigure(0.25, 0.0, 0.25, CLIENTS)
    assert found.figures.keys() == {"accuracy", "loss"}  # others are defined for nobody
    assert found.clients[0].metrics["own"] is None


def test_the_worst_tenth_is_on_the_metrics_worse_side():
    values = [float(one) for one in range(1, 22)]
    assert figure("accuracy", values).worst_tenth == 2.0  # of 1, 2, 3
    for name in ("loss", "mae", "mse", "perplexity", "mae-per-subgroup[ward = a]"):
        assert figure(name, values).worst_tenth == 20.0
    assert figure("users_own", [3.0, 1.0]) == LocalFigure(2.0, 1.0, 1.0, 2)


@pytest.mark.parametrize(
    ("settings", "asked", "expected"),
    [
        ({}, None, True),
        ({"test": 0.0}, None, False),
        ({}, False, False),
        ({"data": "npz:x.npz"}, None, False),
        ({"data": "npz:x.npz"}, True, True),
        ({"data": "npz:x.npz", "public_data": True}, None, True),
    ],
)
def test_figures_of_private_data_must_be_asked_for(settings, asked, expected):
    assert wanted(RunConfig(**{**PUBLIC, **settings}), asked) is expected


def test_without_held_out_records_they_are_refused():
    with pytest.raises(ConfigError, match=r"local_figures = True: .* add test = 0\.2"):
        wanted(RunConfig(), True)


def test_they_are_written_for_their_owner_and_said_without_an_epsilon(run, make_result):
    config, _, folder = run(personal="1.weight")
    of = OfClient(1, 9, {"accuracy": 0.5})
    found = LocalFigures({"accuracy": LocalFigure(0.5, 0.1, 0.25, 1)}, (of,), 2, 0)
    said = list(words(found, config))
    assert said[0].endswith("accuracy mean 0.500, spread 0.100, worst tenth 0.250 (1 client)")
    assert said[1:] == [
        "not measured: 2 clients that never trained",
        "no epsilon covers held-out records: these figures are not noised",
    ]
    assert list(words(found, RunConfig(data="npz:x.npz")))[-1].startswith("NOT PRIVATE: no epsilon")
    result = make_result(config, folder)
    with pytest.raises(ConfigError, match=r"no local figures\..*test = 0\.2"):
        _ = result.local
    local_figures.write(found, folder)
    assert stat.S_IMODE(folder.local.stat().st_mode) == 0o600
    assert result.local.to_dict("records") == [{"client": 1, "records": 9, "accuracy": 0.5}]
    assert result.local_figures["accuracy"].worst_tenth == 0.25
    folder.local.write_text("{}")
    with pytest.raises(ConfigError, match=r"local\.json: "):
        local_figures.read(folder)


@pytest.fixture
def make_result() -> Any:
    return lambda config, folder: fl_dp.Result(folder.path, config, {})
