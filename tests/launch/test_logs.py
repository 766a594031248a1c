import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fl_dp.errors import CallError, LedgerError, TaskError
from fl_dp.federation.security import SECURITY, security_event
from fl_dp.launch import logs
from fl_dp.launch.logs import OwnersLog, causes_in, log_files, security_log


def test_a_logger_has_its_own_file_which_its_owner_alone_may_read_and_is_afterwards_as_it_was(tmp_path):
    logger, umask = logging.getLogger("one"), os.umask(0)
    before = logger.propagate, logger.level, list(logger.handlers)
    try:
        with log_files({"one": tmp_path / "1.log", "two": tmp_path / "2.log"}):
            assert not logger.propagate
            logger.info("first")
            logging.getLogger("two.deep").warning("second")
    finally:
        os.umask(umask)
    assert (tmp_path / "1.log").read_text().endswith("INFO first\n")
    assert (tmp_path / "2.log").read_text().endswith("WARNING second\n")
    assert [path.stat().st_mode & 0o777 for path in sorted(tmp_path.iterdir())] == [0o600, 0o600]
    assert (logger.propagate, logger.level, list(logger.handlers)) == before


def test_causes_are_kept_once_and_in_our_own_words_alone():
    logger = logging.getLogger("of clients")
    with causes_in("of clients") as causes:
        ours = LedgerError("is entered as a")
        quoting = CallError("The model raised.", "row 7")
        for error in (ours, ours, TaskError("row 7"), quoting, ValueError("63")):
            logger.error("a message could not be answered", exc_info=error)
        logger.error("no error at all")
    logger.error("later", exc_info=LedgerError("b"))
    assert causes.words == ["is entered as a", "The model raised."]


def test_a_log_is_bounded_and_so_are_the_older_ones(tmp_path, monkeypatch):
    """A site that runs for months, or a server that is asked without end, filled its disk."""
    monkeypatch.setattr(logs, "MOST_BYTES", 1000)
    with log_files({"one": tmp_path / "1.log"}):
        for number in range(200):
            logging.getLogger("one").info("line %03d", number)
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes.keys() == {"1.log", "1.log.1", "1.log.2"}
    assert max(sizes.values()) < 1100
    assert (tmp_path / "1.log").read_text().endswith("line 199\n")
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


PRINTS = """
import os, sys
from pathlib import Path
from fl_dp.launch import logs
logs.MOST_BYTES = 1000
log = logs.OwnersLog(Path(sys.argv[1]), prints=True)
os.write(2, b"a" * 2000)
if os.fork() == 0:
    log.bound()  # a child leaves it where it is
    os.write(1, b"of a child")
    os._exit(0)
os.wait()
log.bound()
os.system("echo of a program")
"""


@pytest.mark.parametrize("made", [OwnersLog, security_log])
def test_one_record_pushes_out_no_others(tmp_path, made):
    log = made(tmp_path / "x.log")
    log.emit(logging.makeLogRecord({"msg": "a" * 10**7}))
    log.close()
    (line,) = (tmp_path / "x.log").read_text().splitlines()
    assert "more characters" in line
    assert len(line) < 2**17


def test_what_a_process_prints_goes_along_when_its_log_is_put_aside(tmp_path):
    subprocess.run([sys.executable, "-c", PRINTS, str(tmp_path / "log")], check=True)
    assert (tmp_path / "log.1").read_text() == "a" * 2000 + "of a child"
    assert (tmp_path / "log").read_text() == "of a program\n"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_log_on_a_full_disk_says_so_once_and_ends_nothing(tmp_path, capsys):
    with log_files({"one": tmp_path / "1.log"}):
        handler = logging.getLogger("one").handlers[0]
        full = Path("/dev/full").open("w")  # noqa: SIM115  the handler closes it
        handler.setStream(full).close()
        for _ in range(3):
            logging.getLogger("one").info("a line")
    assert capsys.readouterr().err == f"{tmp_path / '1.log'}: log lines are lost: No space left on device\n"


def test_a_flood_of_refusals_leaves_a_few_lines_and_hides_no_sites(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(logs.time, "monotonic", lambda: now[0])
    path = tmp_path / "security.log"
    with log_files({SECURITY: path}, security_log):
        for number in range(5000):
            security_event("request refused", "not signed", source=f"10.0.{number % 256}.1", status=401)
            security_event("request refused", f"{number}", who="hostile", source="10.2.2.2", status=400)
        security_event("request refused", "too many requests", who="north", source="10.1.1.1", status=429)
        security_event("join refused", "row 1\nof\x1b[2J it", who="south")
        now[0] = 61.0
        security_event("request refused", "not signed", source="10.0.0.1", status=401)
        security_event("request refused", "not signed", source="10.0.0.1", status=401)
    said = [json.loads(line) for line in path.read_text().splitlines()]
    assert sum(one.get("who") == "hostile" for one in said) == 10
    said = [one for one in said if one.get("who") != "hostile"]
    assert len(said) == 13
    assert said[0].keys() == {"time", "level", "message", "event", "source", "status"}
    assert [one.get("who") for one in said[10:]] == ["north", "south", None]
    assert said[11]["message"] == "row 1 of\\u001b[2J it"
    assert said[12]["left_out"] == 4990
    assert path.stat().st_mode & 0o777 == 0o600


UNHEARD = "from fl_dp.federation.security import security_event as event; event('join refused', 'because')"


def test_security_events_are_in_no_other_log_and_nowhere_if_nobody_keeps_them(tmp_path):
    with log_files({"fl_dp": tmp_path / "server.log"}):
        security_event("join refused", "because", who="south")
    assert (tmp_path / "server.log").read_text() == ""
    said = subprocess.run([sys.executable, "-c", UNHEARD], capture_output=True, text=True, check=True)
    assert said.stderr == ""
