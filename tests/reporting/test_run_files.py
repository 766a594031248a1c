"""A run's files, damaged in every way or while somebody writes them: what the form says, or a ConfigError."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_records import client, record, summary

from fl_dp.accounting.cost import Cost
from fl_dp.errors import ConfigError
from fl_dp.records import Entry
from fl_dp.reporting.provenance import code_digest, versions
from fl_dp.reporting.report_json import strict_json
from fl_dp.reporting.run_files import Run
from fl_dp.reporting.run_folder import RunFolder

COST = Cost(charges=(Entry(0.1, 1.1, 3),), epsilon=float("inf"), epsilon_alone=float("inf"))
SUMMARY: dict[str, Any] = summary({"0": client(rounds=3, public_size=9, this_run=COST)}).to_dict()
CLIENT = SUMMARY["clients"]["0"]
ROUND = record(clients={"0": client(reported=(("steps", 3),), this_run=COST, shares=2)}, loss=None)


def run_in(path: Path) -> Run:
    return Run(RunFolder(path))


def write(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_a_whole_summary_is_as_it_was_written(tmp_path: Path) -> None:
    assert run_in(tmp_path).summary() is None
    write(tmp_path / "summary.json", strict_json(SUMMARY))
    found = run_in(tmp_path).summary()
    assert found
    assert found.to_dict() == SUMMARY
    assert found.clients["0"].this_run == COST


@pytest.mark.parametrize(
    "content",
    [
        *("", "{", "[]", "null", "3", '"x"', "[" * 10_000, "9" * 5000, {}),
        *(
            {**SUMMARY, **one}
            for one in (
                {"status": 3},
                {"status": "won"},
                {"private": 1},
                {"clients": []},
                {"clients": {"a": 3}},
                {"clients": {"a": {**CLIENT, "steps": "9"}}},
                {"reason": None},
                {"x": 1},
                {"epsilon": "1"},
                {"federation": {**SUMMARY["federation"], "accountants": [3]}},
                {"delta": True},
                {"clients": {"a": {**CLIENT, "charges": [{"steps": 1}]}}},
            )
        ),
    ],
)
def test_what_is_damaged_is_refused_by_its_name(tmp_path: Path, content: Any) -> None:
    write(tmp_path / "summary.json", content if isinstance(content, str) else strict_json(content))
    with pytest.raises(ConfigError, match=r"summary\.json: is damaged"):
        run_in(tmp_path).summary()


def test_a_summary_of_another_version_says_which_wrote_it(tmp_path: Path) -> None:
    major = versions()["fl-dp"].partition(".")[0]
    strange = {
        **strict_json(SUMMARY),
        "status": "won",
        "versions": {"fl-dp": f"{major}.99\x1b"},
        "digests": {"code": "ab" * 32},
    }
    write(tmp_path / "summary.json", strange)
    with pytest.raises(ConfigError, match=r"by fl-dp .\.99\\u001b, code abababababab, and .* status: Input"):
        run_in(tmp_path).summary()
    write(tmp_path / "summary.json", {"versions": {"fl-dp": "0.1.0"}})
    with pytest.raises(ConfigError, match=r"by fl-dp 0\.1\.0, and fl-dp .* of another major version"):
        run_in(tmp_path).summary()
    ours = {"versions": versions(), "digests": {"code": code_digest()}}
    write(tmp_path / "summary.json", strange | ours)
    with pytest.raises(ConfigError, match="is damaged: status: Input"):
        run_in(tmp_path).summary()


def test_rounds_are_read_line_by_line_and_a_half_line_is_not_there_yet(tmp_path: Path) -> None:
    def rounds(text: str) -> list[Any]:
        write(tmp_path / "rounds.jsonl", text)
        return list(run_in(tmp_path).rounds())

    assert list(run_in(tmp_path).rounds()) == []
    whole = ROUND.line
    assert rounds(f"{whole}\n{whole}\n{whole[:40]}") == [ROUND, ROUND]
    with pytest.raises(ConfigError, match=r"rounds\.jsonl, line 2: is damaged"):
        rounds(f"{whole}\n{whole[:40]}\n")
    for damage in ("", "{}", "[" * 5000, '{"round": "x"}'):
        with pytest.raises(ConfigError, match=r"rounds\.jsonl, line 1: is damaged"):
            rounds(f"{damage}\n")
    short = json.loads(whole)
    del short["clients"]["0"]["status"]
    with pytest.raises(ConfigError, match=r"line 1: is damaged: clients\.0\.status: is missing"):
        rounds(json.dumps(short) + "\n")


def test_whatever_was_changed_is_read_or_refused(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    whole = json.dumps(strict_json(SUMMARY)).encode()
    refused = 0
    for _ in range(300):
        changed = bytearray(whole[: random.integers(len(whole))] if random.random() < 0.3 else whole)
        for place in random.integers(max(len(changed), 1), size=random.integers(1, 4)):
            changed[place : place + 1] = random.bytes(1)
        (tmp_path / "summary.json").write_bytes(changed)
        try:
            run_in(tmp_path).summary()
        except ConfigError:
            refused += 1
    assert refused > 150
