"""Files of strangers: bounded, plain, and never waited for."""

import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from verify.made_run import MadeRun

from fl_dp.config.files import parse_json
from fl_dp.errors import ConfigError
from fl_dp.verify import reading
from fl_dp.verify.check import Found, Outcome


def _link(path: Path) -> None:
    path.symlink_to("/etc/hostname")


@pytest.mark.parametrize(
    ("place", "words"),
    [(os.mkfifo, "it is not a regular file"), (_link, "it is a link, and links are not followed")],
)
def test_neither_is_a_pipe_waited_for_nor_a_link_followed(
    place: Callable[[Path], object], words: str, tmp_path: Path
) -> None:
    place(tmp_path / "file")
    with pytest.raises(ConfigError, match=words):
        reading.read_bytes(tmp_path / "file")


def test_no_more_is_read_than_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 11)
    with pytest.raises(ConfigError, match=r"longer than .* MiB"):
        reading.read_bytes(path, 10)
    monkeypatch.setattr(reading, "MOST_LINE", 10)
    with pytest.raises(ConfigError, match=r"line 1 is longer than .* MiB") as refused:
        list(reading.lines(path))
    assert not isinstance(refused.value, reading.CutOffError), "a run that was ended writes no such line"


def test_lines_are_read_one_after_the_other(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one\ntwo\nthr")
    found = reading.lines(path)
    assert [next(found), next(found)] == [(1, b"one\n"), (2, b"two\n")]
    with pytest.raises(reading.CutOffError, match="line 3 is cut off"):
        next(found)


def test_of_many_findings_of_one_kind_a_few_are_kept_and_all_counted() -> None:
    found = Found()
    for number in range(1000):
        found.differs(f"number {number}", "somewhere", "it means something")
    assert len(found.findings) == 6
    assert found.findings[-1].what == "and 995 more of this kind"
    assert {one.outcome for one in found.findings} == {Outcome.DIFFERS}


def test_the_bounds_are_far_above_what_a_large_run_has(made_run: MadeRun) -> None:
    """5,000 clients, whatever the number of rounds: these are read one after the other."""
    line = json.loads(made_run.files.rounds.read_text().splitlines()[-1])
    summary = json.loads(made_run.files.summary.read_text())
    for table, most in ((line, reading.MOST_LINE), (summary, reading.MOST_JSON)):
        one = table["clients"]["north"]
        table["clients"] = {f"client-{number}": one for number in range(5000)}
        assert 10 * len(json.dumps(table)) < most
    stated = json.dumps(made_run.statements()[0])
    assert 10 * 5000 * len(stated) < reading.MOST_JSON


@pytest.mark.parametrize("hostile", ["{},", "[],", '"a":{},'])
def test_what_is_parsed_takes_two_gib_at_most(hostile: str) -> None:
    """Of JSON that takes the most memory for its length."""
    inner = hostile * 100_000
    text = f"{{{inner[:-1]}}}" if ":" in hostile else f"[{inner[:-1]}]"
    tracemalloc.start()
    found = parse_json(text.encode(), "it")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found
    assert most / len(text) * reading.MOST_JSON < 2 * 2**30


def test_what_others_parse_is_bounded_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 8 + b"\n" + b"y" * 9)
    monkeypatch.setattr(reading, "MOST_LINE", 10)
    monkeypatch.setattr(reading, "MOST_JSON", 18)
    reading.check_bounds(path, by_line=True)  # the last one may be cut off
    reading.check_bounds(path)
    path.write_bytes(b"x" * 9 + b"y" * 10)
    for by_line in (True, False):
        with pytest.raises(ConfigError, match=r"longer than .* MiB, and was not read"):
            reading.check_bounds(path, by_line=by_line)
