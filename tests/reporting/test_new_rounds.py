"""rounds.jsonl while somebody writes it."""

import json
from pathlib import Path

import pytest
from run_records import record

from fl_dp.reporting.new_rounds import FIRST, NewRounds


def line(server_round: int, **changes: object) -> str:
    return json.dumps(record(server_round, **changes)) + "\n"


def numbers(rounds: NewRounds) -> list[int]:
    return [one["round"] for one in rounds.new()]


def test_each_whole_line_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    rounds = NewRounds(path)
    assert rounds.new() == []
    second = line(2)
    path.write_text(line(1) + second[:40])
    assert numbers(rounds) == [1]
    assert numbers(rounds) == []
    with path.open("a") as file:
        file.write(second[40:] + line(3))
    assert numbers(rounds) == [2, 3]
    assert not rounds.problems


def test_of_what_is_there_already_only_the_latest_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    path.write_text("".join(map(line, range(1, FIRST + 4))))
    rounds = NewRounds(path)
    assert numbers(rounds) == list(range(4, FIRST + 4))
    assert rounds.left_out == 3
    with path.open("a") as file:
        file.write("".join(map(line, range(FIRST + 4, 2 * FIRST + 10))))
    assert len(numbers(rounds)) == FIRST + 6  # none of what is new
    assert rounds.left_out == 3
    assert len(NewRounds(path, first=None).new()) == 2 * FIRST + 9


@pytest.mark.parametrize("replaced", [True, False])
def test_a_run_that_goes_on_may_write_the_file_anew(tmp_path: Path, replaced: bool) -> None:
    path = tmp_path / "rounds.jsonl"
    path.write_text(line(1) + line(2) + '{"round": 3, "cl')
    rounds = NewRounds(path)
    assert numbers(rounds) == [1, 2]
    other = tmp_path / "new" if replaced else path
    other.write_text(line(1) + line(2))
    other.replace(path)
    assert numbers(rounds) == []
    with path.open("a") as file:
        file.write(line(3))
    assert numbers(rounds) == [3]


@pytest.mark.parametrize("damage", ["\n", "{}\n", "[" * 5000 + "\n", "\udcff\n", '{"round": "x"}\n'])
def test_a_damaged_line_is_passed_over_and_said(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "rounds.jsonl"
    path.write_bytes((line(1) + damage + line(3)).encode(errors="surrogateescape"))
    rounds = NewRounds(path)
    assert numbers(rounds) == [1, 3]
    assert len(rounds.problems) == 1


def test_texts_of_clients_are_printable(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    path.write_text(line(1, lost="\x1b[2J"))
    assert NewRounds(path).new()[0]["lost"] == r"\u001b[2J"


def test_another_file_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    path.write_text(line(1))
    rounds = NewRounds(path)
    assert numbers(rounds) == [1]
    other = tmp_path / "new"
    other.write_text(line(1, lost="x" * 999) + line(2))
    other.replace(path)
    assert numbers(rounds) == [2]
    assert not rounds.problems


@pytest.mark.parametrize("missing", ["round", "private", "epsilon", "federation"])
def test_a_line_without_what_is_shown_of_it_is_passed_over(tmp_path: Path, missing: str) -> None:
    path = tmp_path / "rounds.jsonl"
    path.write_text(
        json.dumps({key: one for key, one in record(1).items() if key != missing}) + "\n" + line(2)
    )
    rounds = NewRounds(path)
    assert numbers(rounds) == [2]
    assert rounds.problems == [f"rounds.jsonl, line 1: is damaged: {missing} is missing."]
