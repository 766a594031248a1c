"""Many runs of one call: what is refused before the first, what is not repeated, and what pairs."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import fl_dp
from fl_dp.api.study import files_digest, points_of
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray's own
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
]

METHODS = {"FedAvg": {}, "FedProx": {"local_algorithm": "fedprox:0.1"}}
TINY = {"data": "digits", "clients": 6, "fit_clients": 2, "rounds": 2, "quiet": True}


def test_points_are_all_combinations_with_their_settings():
    points = points_of({"method": METHODS, "epsilon": [1, 8]})
    assert [str(one) for one in points][:2] == [
        "method = FedAvg, epsilon = 1",
        "method = FedAvg, epsilon = 8",
    ]
    assert points[3].settings == {"local_algorithm": "fedprox:0.1", "epsilon": 8}
    assert [dict(one.settings) for one in points_of({})] == [{}]


@pytest.mark.parametrize(
    ("vary", "words"),
    [
        ({"epsilon": 3}, r"vary: epsilon = 3: expected a list of values, or settings by label"),
        ({"epsilon": []}, "epsilon"),
        ({"optimizer": "adam"}, "optimizer = 'adam': expected a list"),
        ({"method": {"FedProx": "fedprox"}}, "expected a list of values"),
        (
            {"method": {"high": {"epsilon": 9}}, "epsilon": [1]},
            "epsilon is set by more than one of",
        ),
        ({"together": {"a": {}}}, "vary: together: the table has a column of this name; use another"),
        ({"accuracy": {"a": {}}}, "the table has a column of this name"),
    ],
)
def test_what_cannot_be_varied(vary, words):
    with pytest.raises(ConfigError, match=words):
        points_of(vary)


def test_settings_without_privacy_are_one_point_whatever_epsilon_is():
    methods = {"FedAvg": {}, "no privacy": {"privacy": "off"}}
    points = points_of({"method": methods, "epsilon": [1, 8], "rounds": [2, 3]})
    open_ = [point for point in points if point.labels["method"] == "no privacy"]
    assert [point.labels["epsilon"] for point in open_] == [None, None]
    assert [point.settings for point in open_] == [{"privacy": "off", "rounds": n} for n in (2, 3)]
    assert len(points) == 6


def test_what_is_called_epsilon_and_sets_other_keys_is_kept_without_privacy():
    noises = {"low": {"noise_multiplier": 4.0}, "high": {"noise_multiplier": 1.0}}
    points = points_of({"epsilon": noises, "privacy": ["off"]})
    assert [point.labels["epsilon"] for point in points] == ["low", "high"]


def test_noise_that_a_ledger_does_not_allow_is_refused_before_the_first_run(tmp_path, monkeypatch):
    record = SimpleNamespace(reason="this account has another noise")
    forecast = SimpleNamespace(mechanisms=[], clients=[SimpleNamespace(record=record)])
    checked = SimpleNamespace(forecast=forecast, problems=())
    monkeypatch.setattr("fl_dp.api.study.check_run", lambda *_, **__: checked)
    with pytest.raises(ConfigError, match="ledger: this account has another noise"):
        fl_dp.study(vary={"epsilon": [1]}, out=tmp_path / "out", ledger=tmp_path / "ledger", **TINY)
    assert not (tmp_path / "out").exists()


def test_every_mistake_of_every_setting_is_said_before_the_first_run(tmp_path):
    methods = {**METHODS, "typo": {"learning_rat": 1}, "both": {"model": "no-such"}}
    with pytest.raises(ConfigError) as error:
        fl_dp.study(vary={"method": methods, "epsilon": [1, -1]}, out=tmp_path / "out", **TINY)
    lines = str(error.value).splitlines()
    assert any(line.startswith("method = FedAvg, epsilon = -1, method = FedProx, ") for line in lines)
    assert any("learning-rate" in line for line in lines)
    assert any("no-such" in line for line in lines)
    assert not (tmp_path / "out").exists()


def test_ctrl_c_during_the_checks_says_that_no_run_was_started(tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("fl_dp.api.study.mistakes_in", interrupted)
    with pytest.raises(KeyboardInterrupt, match="stopped while checking the settings; no run was started"):
        fl_dp.study(vary={}, out=tmp_path / "out", **TINY)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"seed": 7}, "seed: give seeds="),
        ({"vary": {"method": {"a": {"seed": 7}}}}, "method = a: seed: give seeds="),
        ({"seeds": [0, -1]}, "seed = -1: expected an integer"),
    ],
)
def test_seeds_are_checked_and_none_is_ignored(settings, words, tmp_path):
    with pytest.raises(ConfigError, match=words):
        fl_dp.study(**{"vary": {"epsilon": [1]}, "out": tmp_path / "out", **TINY, **settings})
    assert not (tmp_path / "out").exists()


def test_a_number_of_seeds_is_refused_with_the_list(tmp_path):
    with pytest.raises(ConfigError, match=r"seeds = 3: .*write range\(3\)"):
        fl_dp.study(vary={}, seeds=3, out=tmp_path / "out", **TINY)


@pytest.mark.parametrize(("seeds", "epsilons"), [([], [1]), ([0, 0], [1]), ([0], [1, 1])])
def test_each_setting_and_seed_is_one_run(seeds, epsilons, tmp_path):
    with pytest.raises(
        ConfigError,
        match=r"expected at least one value, none of them twice: "
        "(none|epsilon=1,seed=0)",
    ):
        fl_dp.study(vary={"epsilon": epsilons}, seeds=seeds, out=tmp_path / "out", **TINY)


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ("arrays is private|is private: runs need privacy", {}),
        ("is private: runs need privacy", {"ledger": "ledger", "privacy": "off"}),
        ("another seed splits differently; give one seed", {"ledger": "ledger", "seeds": [0, 1]}),
        (
            r"noise_multiplier = 8\.0: ledger: the data keep one sample rate and one noise",
            {"ledger": "ledger", "vary": {"noise_multiplier": [4.0, 8.0]}},
        ),
    ],
)
def test_what_private_records_forbid_is_refused_before_the_first_run(words, settings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    np.savez(
        "own.npz",
        x_train=random.random((60, 3), np.float32),
        y_train=random.integers(0, 2, 60),
        classes=["n", "y"],
    )
    given = {"data": "npz:own.npz", "evaluate": "off", "noise_multiplier": 4.0, "vary": {"epsilon": [1]}}
    with pytest.raises(ConfigError, match=words):
        fl_dp.study(out="out", **{**given, **settings})
    assert [one.name for one in tmp_path.iterdir()] == ["own.npz"]


def cohorts(results, method):
    """Who trained in each round, by the run's own files."""
    folder = Path(results.runs.set_index("method").loc[method, "folder"])
    lines = map(json.loads, (folder / "rounds.jsonl").read_text().splitlines())
    each = [line["clients"].items() for line in lines]
    return [sorted(name for name, one in clients if one["status"] == "trained") for clients in each]


def test_methods_of_a_seed_train_the_same_clients_and_no_run_is_repeated(tmp_path, capsys):
    """One study: its tables, its pairs, and what a second call does."""

    def again(**more):
        return fl_dp.study(vary={"method": METHODS}, out=tmp_path, **{**TINY, "quiet": False, **more})

    first = again()
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "run 1 of 2: method = FedAvg, seed = 0"
    assert said[1].startswith("  accuracy 0.")
    assert said[2].startswith("run 2 of 2: method = FedProx, seed = 0; ")
    assert cohorts(first, "FedAvg") == cohorts(first, "FedProx")
    assert list(first.runs["status"]) == ["completed"] * 2
    assert (first.runs["epsilon"] > 2.9).all(), "all who trained have spent what was planned"
    assert len(first.rounds) == 4
    summary = tmp_path / "method=FedAvg,seed=0" / "summary.json"
    written = summary.stat().st_mtime_ns
    second = again()
    assert capsys.readouterr().out == ""
    assert second.runs.equals(first.runs)
    assert summary.stat().st_mtime_ns == written
    with pytest.raises(ConfigError, match=r"was trained with another learning-rate; name another out="):
        again(learning_rate=0.1)
    with pytest.raises(ConfigError, match=r"was paid for from .*one ledger"):
        again(ledger=tmp_path / "ledger", public_data=True)
    strategy = Path(__file__).parents[2] / "examples" / "strategies" / "most_budget_left.py:most_budget_left"
    with pytest.raises(ConfigError, match="was trained with another strategy"):
        again(strategy=str(strategy))
    summary.write_text(summary.read_text().replace('"task": ""', '"task": "of other code"'))
    with pytest.raises(ConfigError, match="was trained with another task"):
        again()


def test_files_that_have_changed_make_other_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = RunConfig(data="npz:own.npz", start="first.pt", tokenizer="bytes")
    Path("own.npz").write_bytes(b"1")
    Path("first.pt").write_bytes(b"2")
    before = files_digest(settings)
    assert files_digest(replace(settings, data=f"npz:{tmp_path}/own.npz")) == before
    for name in ("own.npz", "first.pt", "test.npz"):
        Path(name).write_bytes(b"3")
        assert files_digest(settings) != before
        before = files_digest(settings)


def test_clients_with_files_of_their_own_may_have_several_seeds_and_one_ledger(tmp_path):
    def of_client(seed):
        inputs = torch.randn(60, 3, generator=torch.Generator().manual_seed(seed))
        return fl_dp.TensorData(inputs, (inputs[:, 0] > 0).long(), classes=("no", "yes"))

    found = fl_dp.study(
        vary={"rounds": [1]},
        seeds=[0, 1],
        out=tmp_path / "out",
        data={"a": of_client(0), "b": of_client(1)},
        evaluate="off",
        noise_multiplier=8.0,
        ledger=tmp_path / "ledger",
        quiet=True,
    )
    first, second = found.runs["together"]
    assert second > first == found.runs["epsilon"][0]


def test_records_in_memory_are_known_again_and_a_run_that_nobody_can_resume_begins_anew(tmp_path):
    def records(seed):
        inputs = torch.randn(120, 3, generator=torch.Generator().manual_seed(seed))
        return fl_dp.TensorData(inputs, (inputs[:, 0] > 0).long(), classes=("no", "yes"))

    def again(train):
        return fl_dp.study(
            vary={"epsilon": [3]},
            out=tmp_path,
            data=train,
            test_data=records(1),
            rounds=1,
            public_data=True,
            quiet=True,
        )

    first = again(records(0))
    (folder,) = (one for one in tmp_path.iterdir() if one.is_dir())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fl_dp.api.study.mistakes_in", lambda *_, **__: pytest.fail("it checks what is done"))
        assert again(records(0)).runs.equals(first.runs)
    with pytest.raises(ConfigError, match="trained with another content of its files"):
        again(records(5))
    (folder / "summary.json").unlink()
    shutil.rmtree(folder / "ledgers")
    assert list(again(records(0)).runs["status"]) == ["completed"]
    assert sum("stopped" in one.name for one in tmp_path.iterdir()) == 1
