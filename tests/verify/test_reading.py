"""Files of strangers: bounded, plain, and never waited for."""

import os
from pathlib import Path

import pytest

from fl_dp.errors import ConfigError
from fl_dp.verify import reading
from fl_dp.verify.findings import Found, Outcome, harmless


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="it is no plain file"):
        reading.read_bytes(tmp_path / "pipe")


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/hostname")
    with pytest.raises(ConfigError, match="it is a link, and links are not followed"):
        reading.read_bytes(tmp_path / "link")


def test_no_more_is_read_than_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 11)
    with pytest.raises(ConfigError, match="longer than 10 bytes"):
        reading.read_bytes(path, 10)
    monkeypatch.setattr(reading, "MOST_LINE", 10)
    with pytest.raises(ConfigError, match="line 1 is too long"):
        list(reading.lines(path))


def test_lines_are_read_one_after_the_other(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one\ntwo\nthr")
    found = reading.lines(path)
    assert [next(found), next(found)] == [(1, b"one\n"), (2, b"two\n")]
    with pytest.raises(ConfigError, match="line 3 is cut off"):
        next(found)


@pytest.mark.parametrize("value", [True, None, "1", float("nan"), float("inf"), 10**400, [], {}])
def test_what_is_no_number(value: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the words are of whoever asks
        reading.number(value)


def test_of_many_findings_of_one_kind_a_few_are_kept_and_all_counted() -> None:
    found = Found()
    for number in range(1000):
        found.differs(f"number {number}", "somewhere", "it means something")
    assert len(found.all()) == 6
    assert found.all()[-1].what == "and 995 more of this kind"
    assert {one.outcome for one in found.all()} == {Outcome.DIFFERS}


def test_names_are_made_harmless() -> None:
    assert harmless("\x1b[31mn\u202eorth\r\n") == "?[31mn?orth??"
    assert harmless("x" * 100) == "x" * 60 + "..."
