"""The files of a run: their formats, and that nobody reads half of one."""

import dataclasses
import json

import pytest
import torch
from run_records import client, record, summary

from fl_dp.errors import ConfigError
from fl_dp.records import Entry
from fl_dp.reporting.reports import FederationBudget
from fl_dp.reporting.run_results import RunResults

FEDERATION = FederationBudget(
    largest=1.5, median=0.75, least=0.0, accountants=("pld", "rdp"), rounds_ahead=2, running_out=("1",)
)
CLIENTS = {
    "0": client(1.5, steps=10, rounds_left=2, charges=(Entry(0.1, 1.1, 10),)),
    "1": client(
        0.0,
        accountant="rdp",
        steps=0,
        sample_rate=None,
        noise_multiplier=None,
        rounds_left=0,
        status="idle",
        reason="why",
        charges=(),
    ),
}
REPORT = record(1, CLIENTS, 2.5, FEDERATION, epsilon=1.5, loss=0.4, metrics={})
SUMMARY = summary({"0": client(1.5, before=(Entry(0.1, 1.1, 1),))})


def strict(text):
    def refuse(name):
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_a_line_of_rounds_jsonl(tmp_path):
    directory = RunResults(tmp_path / "new" / "run")
    for _ in range(2):
        directory.append_round(REPORT.line)
    line, again = (directory.path / "rounds.jsonl").read_text().splitlines()
    assert line == again
    common = {"reported": {}, "arithmetic": "steady-rows", "scaled": 1.0, "delta": 1e-5, "budget": 3.0}
    trained = {
        "epsilon": 1.5,
        "accountant": "pld",
        "steps": 10,
        "sample_rate": 0.1,
        "rounds_left": 2,
        "status": "trained",
        "reason": "",
        "noise_multiplier": 1.1,
        "charges": [{"sample_rate": 0.1, "noise_multiplier": 1.1, "steps": 10}],
        **common,
    }
    idle = {
        "epsilon": 0.0,
        "accountant": "rdp",
        "steps": 0,
        "rounds_left": 0,
        "status": "idle",
        "reason": "why",
    }
    idle |= {"sample_rate": None, "noise_multiplier": None, "charges": [], **common}
    assert strict(line) == {
        "round": 1,
        "private": True,
        "epsilon": 1.5,
        "delta": 1e-5,
        "noise_multiplier": 1.1,
        "clients": {"0": trained, "1": idle},
        "federation": {
            "largest": 1.5,
            "median": 0.75,
            "least": 0.0,
            "accountants": ["pld", "rdp"],
            "rounds_ahead": 2,
            "running_out": ["1"],
            "arithmetic": "steady-rows",
            "unit": "record",
        },
        "loss": 0.4,
        "accuracy": 0.9,
        "seconds": 2.5,
        "metrics": {},
        "lost": "",
        "lost_rounds": 0,
    }


def test_what_json_cannot_say_is_null(tmp_path):
    directory = RunResults(tmp_path)
    clients = {"0": client(float("inf"))}
    report = dataclasses.replace(REPORT, epsilon=float("inf"), clients=clients, loss=float("nan"))
    directory.append_round(report.line)
    line = strict((tmp_path / "rounds.jsonl").read_text())
    assert (line["epsilon"], line["loss"], line["clients"]["0"]["epsilon"]) == (None, None, None)


def test_the_summary(tmp_path):
    RunResults(tmp_path).write_summary(SUMMARY)
    found = strict((tmp_path / "summary.json").read_text())
    assert {"status", "rounds", "epsilon", "delta", "accuracy", "loss", "seconds", "clients"} <= set(found)
    assert set(found["clients"]["0"]) == {
        "accountant",
        "arithmetic",
        "before",
        "budget",
        "charges",
        "delta",
        "epsilon",
        "noise_multiplier",
        "public_size",
        "reason",
        "retired",
        "rounds",
        "rounds_beyond",
        "rounds_left",
        "sample_rate",
        "status",
        "steps",
    }


def test_the_model_is_loaded_without_pickled_code(tmp_path):
    state = torch.nn.Linear(2, 3).state_dict()
    RunResults(tmp_path).save_model(state, {"form": None}, private=True)
    loaded = torch.load(tmp_path / "model.pt", weights_only=True)
    assert torch.equal(loaded["weight"], state["weight"])


def test_a_write_that_fails_leaves_nothing_under_the_name(tmp_path, monkeypatch):
    directory = RunResults(tmp_path)
    monkeypatch.setattr("os.fsync", lambda descriptor: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        directory.write_summary(SUMMARY)
    assert not (tmp_path / "summary.json").exists()


@pytest.mark.parametrize("name", ["rounds.jsonl", "summary.json", "model.pt"])
def test_a_directory_that_holds_a_run_is_refused_and_one_with_logs_is_not(tmp_path, name):
    (tmp_path / "logs").mkdir()
    (tmp_path / "config.toml").touch()
    RunResults(tmp_path)
    (tmp_path / name).touch()
    with pytest.raises(ConfigError, match=f"already holds {name}"):
        RunResults(tmp_path)


SECOND = dataclasses.replace(REPORT, round=2)


@pytest.mark.parametrize("torn", ["", '{"round": 2, "eps', '{"round": 2}\n', '{"round": 2}\n{"round": 3}\n'])
def test_a_resumed_run_has_the_lines_of_its_rounds_and_no_end(tmp_path, torn):
    (tmp_path / "rounds.jsonl").write_text('{"round": 1}\n' + torn)
    for name in ("summary.json", "model.pt", "model-NOT-PRIVATE.pt"):
        (tmp_path / name).touch()
    RunResults(tmp_path, resumed=True).go_on_after(SECOND)
    assert (tmp_path / "rounds.jsonl").read_text() == f'{{"round": 1}}\n{SECOND.line}\n'
    assert [path.name for path in tmp_path.iterdir()] == ["rounds.jsonl"]


def test_a_run_that_begins_again_has_no_lines(tmp_path):
    for _ in range(2):
        (tmp_path / "rounds.jsonl").write_text('{"round": 1}\n')
        RunResults(tmp_path, resumed=True).go_on_after(None)
        assert list(tmp_path.iterdir()) == []


def test_a_resumed_run_whose_lines_are_lost_is_refused(tmp_path):
    (tmp_path / "rounds.jsonl").write_text('{"round": 1}\n')
    with pytest.raises(ConfigError, match=r"rounds\.jsonl: holds 1 of 3 rounds"):
        RunResults(tmp_path, resumed=True).go_on_after(dataclasses.replace(REPORT, round=3))
