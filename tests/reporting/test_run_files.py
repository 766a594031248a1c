"""A run's files, damaged in every way or while somebody writes them: what the form says, or a ConfigError."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fl_dp.errors import ConfigError
from fl_dp.reporting.provenance import code_digest, versions
from fl_dp.reporting.run_files import Run
from fl_dp.reporting.run_folder import RunFolder

CLIENT = {
    "epsilon": 1.0, "accountant": "pld", "arithmetic": "steady-rows", "budget": 3.0, "delta": 1e-5,
    "steps": 9, "rounds": 3, "rounds_left": 0, "status": "trained", "reason": "", "retired": 0,
}  # fmt: skip
FEDERATION = {
    "largest": 1.0, "median": 1.0, "least": None, "accountants": ["pld"],
    "rounds_ahead": 0, "running_out": [], "arithmetic": "steady-rows", "unit": "record", "scope": "this-run",
}  # fmt: skip
SUMMARY: dict[str, Any] = {
    "status": "completed", "private": True, "rounds": 3, "epsilon": 1.0, "delta": 1e-5, "accuracy": 0.5,
    "federation": FEDERATION, "loss": None, "seconds": 1, "clients": {"0": CLIENT}, "reason": "",
    "metrics": {"accuracy": 0.5},
}  # fmt: skip
ROUND = {
    "round": 1, "private": True, "epsilon": 1.0, "delta": 1e-5, "federation": FEDERATION, "loss": 0.1,
    "noise_multiplier": None,
    "clients": {"0": {"status": "trained", "epsilon": 1.0, "reported": {"steps": 3}}},
    "accuracy": None, "seconds": 1.5, "metrics": {},
}  # fmt: skip


def run_in(path: Path) -> Run:
    return Run(RunFolder(path))


def write(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_a_whole_summary_is_as_it_was_written(tmp_path: Path) -> None:
    assert (run_in(tmp_path).summary(), run_in(tmp_path).status) == (None, "")
    write(tmp_path / "summary.json", SUMMARY)
    assert (run_in(tmp_path).summary(), run_in(tmp_path).status) == (SUMMARY, "completed")
    whole = run_in(tmp_path).summary(whole=True)
    assert whole
    assert whole["federation"] == FEDERATION


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "null", "3", '"x"', "[" * 10_000, "9" * 5000, {}, {"status": 3}, {"status": "won"},
     {"status": "failed", "private": 1}, {"status": "failed", "clients": []},
     {"status": "failed", "clients": {"a": 3}}, {"status": "failed", "clients": {"a": {"steps": "9"}}},
     {"status": "failed", "federation": {"accountants": [3]}}, {"status": "failed", "reason": None}],
)  # fmt: skip
def test_what_is_damaged_is_refused_by_its_name(tmp_path: Path, content: Any) -> None:
    write(tmp_path / "summary.json", content)
    with pytest.raises(ConfigError, match=r"summary\.json: is damaged"):
        run_in(tmp_path).summary()


def test_a_summary_of_another_version_says_which_wrote_it(tmp_path: Path) -> None:
    major = versions()["fl-dp"].partition(".")[0]
    strange = {"status": "won", "versions": {"fl-dp": f"{major}.99\x1b"}, "digests": {"code": "ab" * 32}}
    write(tmp_path / "summary.json", strange)
    with pytest.raises(ConfigError, match=r"by fl-dp .\.99\\u001b, code abababababab, and .* status has the"):
        run_in(tmp_path).summary()
    write(tmp_path / "summary.json", {**SUMMARY, "versions": {"fl-dp": "0.1.0"}})
    with pytest.raises(ConfigError, match=r"by fl-dp 0\.1\.0, and fl-dp .* of another major version"):
        run_in(tmp_path).summary()
    ours = {"versions": versions(), "digests": {"code": code_digest()}}
    write(tmp_path / "summary.json", strange | ours)
    with pytest.raises(ConfigError, match="is damaged: status has the wrong type"):
        run_in(tmp_path).summary()


def test_a_field_that_is_missing_is_named_where_all_are_needed(tmp_path: Path) -> None:
    short = {key: value for key, value in CLIENT.items() if key != "budget"}
    write(tmp_path / "summary.json", {**SUMMARY, "clients": {"0": short}})
    assert (run_in(tmp_path).summary() or {})["clients"]["0"] == short
    with pytest.raises(ConfigError, match=r"clients\.budget is missing"):
        run_in(tmp_path).summary(whole=True)


def test_rounds_are_read_line_by_line_and_a_half_line_is_not_there_yet(tmp_path: Path) -> None:
    def rounds(text: str) -> list[Any]:
        write(tmp_path / "rounds.jsonl", text)
        return list(run_in(tmp_path).rounds())

    assert list(run_in(tmp_path).rounds()) == []
    whole = json.dumps(ROUND)
    assert rounds(f"{whole}\n{whole}\n{whole[:40]}") == [ROUND, ROUND]
    with pytest.raises(ConfigError, match=r"rounds\.jsonl, line 2: is damaged"):
        rounds(f"{whole}\n{whole[:40]}\n")
    for damage in ("", "{}", "[" * 5000, '{"round": "x"}'):
        with pytest.raises(ConfigError, match=r"rounds\.jsonl, line 1: is damaged"):
            rounds(f"{damage}\n")
    with pytest.raises(ConfigError, match=r"line 1: is damaged: clients\.status is missing"):
        rounds(json.dumps({**ROUND, "clients": {"0": {}}}) + "\n")


def test_whatever_was_changed_is_read_or_refused(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    whole = json.dumps(SUMMARY).encode()
    refused = 0
    for _ in range(300):
        changed = bytearray(whole[: random.integers(len(whole))] if random.random() < 0.3 else whole)
        for place in random.integers(max(len(changed), 1), size=random.integers(1, 4)):
            changed[place : place + 1] = random.bytes(1)
        (tmp_path / "summary.json").write_bytes(changed)
        try:
            run_in(tmp_path).summary(whole=True)
        except ConfigError:
            refused += 1
    assert refused > 150
