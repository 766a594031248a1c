"""A run's files, damaged in every way or while somebody writes them: what the form says, or a ConfigError."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_records import record

from fl_dp.errors import ConfigError
from fl_dp.reporting.provenance import code_digest, versions
from fl_dp.reporting.run_files import FIRST, Run
from fl_dp.reporting.run_folder import RunFolder

CLIENT = {
    "epsilon": 1.0, "accountant": "pld", "arithmetic": "assumed", "budget": 3.0, "delta": 1e-5, "steps": 9,
    "rounds": 3, "rounds_left": 0, "status": "trained", "reason": "", "retired": 0,
}  # fmt: skip
FEDERATION = {
    "largest": 1.0, "median": 1.0, "least": None, "accountants": ["pld"],
    "rounds_ahead": 0, "running_out": [],
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


def run_in(path: Path, first: int | None = FIRST) -> Run:
    return Run(RunFolder(path), first=first)


def write(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_a_whole_summary_is_as_it_was_written_and_what_is_newer_has_its_default(tmp_path: Path) -> None:
    assert (run_in(tmp_path).summary(), run_in(tmp_path).status) == (None, "")
    write(tmp_path / "summary.json", SUMMARY)
    assert (run_in(tmp_path).summary(), run_in(tmp_path).status) == (SUMMARY, "completed")
    whole = run_in(tmp_path).summary(whole=True)
    assert whole
    added = {"arithmetic": "assumed", "unit": "record", "scope": "all-runs"}
    assert whole["federation"] == {**FEDERATION, **added}


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
    strange = {"status": "won", "versions": {"fl-dp": "9.1\x1b"}, "digests": {"code": "ab" * 32}}
    write(tmp_path / "summary.json", strange)
    with pytest.raises(ConfigError, match=r"by fl-dp 9\.1\\u001b, code abababababab, and .* status has the"):
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


def line(server_round: int, **changes: object) -> str:
    return json.dumps(record(server_round, **changes)) + "\n"


def numbers(run: Run) -> list[int]:
    return [one["round"] for one in run.new_rounds()]


def test_each_whole_line_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    run = run_in(tmp_path)
    assert run.new_rounds() == []
    second = line(2)
    path.write_text(line(1) + second[:40])
    assert numbers(run) == [1]
    assert numbers(run) == []
    with path.open("a") as file:
        file.write(second[40:] + line(3))
    assert numbers(run) == [2, 3]
    assert not run.problems


def test_of_what_is_there_already_only_the_latest_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    path.write_text("".join(map(line, range(1, FIRST + 4))))
    run = run_in(tmp_path)
    assert numbers(run) == list(range(4, FIRST + 4))
    assert run.left_out == 3
    with path.open("a") as file:
        file.write("".join(map(line, range(FIRST + 4, 2 * FIRST + 10))))
    assert len(numbers(run)) == FIRST + 6  # none of what is new
    assert run.left_out == 3
    assert len(run_in(tmp_path, None).new_rounds()) == 2 * FIRST + 9


@pytest.mark.parametrize("replaced", [True, False])
def test_a_run_that_goes_on_may_write_the_file_anew(tmp_path: Path, replaced: bool) -> None:
    path = tmp_path / "rounds.jsonl"
    path.write_text(line(1) + line(2) + '{"round": 3, "cl')
    run = run_in(tmp_path)
    assert numbers(run) == [1, 2]
    other = tmp_path / "new" if replaced else path
    other.write_text(line(1) + line(2))
    other.replace(path)
    assert numbers(run) == []
    with path.open("a") as file:
        file.write(line(3))
    assert numbers(run) == [3]


@pytest.mark.parametrize("damage", ["\n", "{}\n", "[" * 5000 + "\n", "\udcff\n", '{"round": "x"}\n'])
def test_a_damaged_line_is_passed_over_and_said(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "rounds.jsonl"
    path.write_bytes((line(1) + damage + line(3)).encode(errors="surrogateescape"))
    run = run_in(tmp_path)
    assert numbers(run) == [1, 3]
    assert len(run.problems) == 1


def test_texts_of_clients_are_printable(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    path.write_text(line(1, lost="\x1b[2J"))
    assert run_in(tmp_path).new_rounds()[0]["lost"] == r"\u001b[2J"


def test_another_file_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    path.write_text(line(1))
    run = run_in(tmp_path)
    assert numbers(run) == [1]
    other = tmp_path / "new"
    other.write_text(line(1, lost="x" * 999) + line(2))
    other.replace(path)
    assert numbers(run) == [2]
    assert not run.problems


@pytest.mark.parametrize("missing", ["round", "private", "epsilon", "federation"])
def test_a_line_without_what_is_shown_of_it_is_passed_over(tmp_path: Path, missing: str) -> None:
    path = tmp_path / "rounds.jsonl"
    path.write_text(
        json.dumps({key: one for key, one in record(1).items() if key != missing}) + "\n" + line(2)
    )
    run = run_in(tmp_path)
    assert numbers(run) == [2]
    assert run.problems == [f"rounds.jsonl, line 1: is damaged: {missing} is missing."]
