"""What a site notes of each message, and that nothing it answers depends on that."""

import json
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from federation.client.sites import MODEL, PLAN, Site
from flwr.app import RecordDict

from fl_dp.accounting.ledger import ledger
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.errors import CallError, DataError, LedgerError, TaskError
from fl_dp.federation.client import answers, journal
from fl_dp.federation.client.journal import (
    NAME,
    OLDER,
    Line,
    append,
    check_newest_ledger,
    in_words,
    journal_folder,
    new_lines,
    read_journal,
)
from fl_dp.federation.wire.arrays import encode, state_arrays
from fl_dp.federation.wire.evaluation import (
    EvaluationPlan,
    SiteHistogram,
    evaluation_to_content,
    histogram_from_content,
)
from fl_dp.records import LocalUpdate, Refusal

UNEXPECTED = "an unexpected error; its own log says which"
TASK = "its task cannot be used; its own log says why"
LINE = Line(event="trained", at="2026-01-31T12:00:00+00:00", client="north", run="r", round=3, steps=12)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def lines_of(site: Site) -> list[Line]:
    return read_journal(journal_folder(site.config.ledger))


def test_each_message_is_noted(site: Site) -> None:
    site.register()
    update = site.train()
    refusal = site.train(replace(PLAN, server_round=2, noise_multiplier=1e-9))
    site.call("train", RecordDict())
    registered, asked, trained, _, declined, unread = lines_of(site)
    assert (registered.event, registered.after, registered.budget) == ("registered", 0.0, 3.0)
    assert (asked.event, asked.run, asked.round, asked.steps) == ("asked", "run-1", 1, 3)
    assert (trained.event, trained.steps) == ("trained", 3)
    assert (trained.before, trained.after) == (0.0, update.epsilon)
    assert (trained.dataset, trained.client) == ("digits, part 0/2 (iid, seed 0)", "hospital")
    assert trained.seconds > 0
    assert (declined.event, declined.reason) == ("declined", refusal.reason)
    assert (declined.before, declined.after) == (update.epsilon, update.epsilon)
    assert (unread.event, "without the record 'plan'" in unread.reason) == ("failed", True)
    folder = journal_folder(site.config.ledger)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in folder.iterdir())


def test_a_run_s_name_brings_no_codes_of_its_own_to_console_and_log(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    site.train(replace(PLAN, run="run\x1b[2J\nround 9 of run run-1: 0 steps"))
    asked, declined = lines_of(site)
    assert asked.run == declined.run == r"run\u001b[2J round 9 of run run-1: 0 steps"
    assert "\x1b" not in caplog.text


@pytest.mark.parametrize(
    ("error", "told", "noted"),
    [
        (DataError("/data/north.npz: is damaged"), "its data cannot be used; its own log says why", None),
        (ValueError("patient 17"), UNEXPECTED, UNEXPECTED),  # it may quote records
        (TaskError("patient 17"), TASK, TASK),
        (CallError("The model raised.", "patient 17"), "The model raised.", "The model raised."),
    ],
)
def test_a_fault_is_said_to_the_operator_in_more_words_than_to_the_server(
    site: Site, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str, noted: str | None
) -> None:
    def broken(config: object) -> None:
        raise error

    monkeypatch.setattr(answers, "load_part", broken)
    assert site.train() == Refusal("failed", told)
    assert (lines_of(site)[-1].event, lines_of(site)[-1].reason) == ("failed", noted or str(error))


def test_a_disk_that_takes_no_line_ends_no_round(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(folder: Path, line: Line) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal, "append", full)
    assert site.train().steps == 3
    assert "the journal cannot be written" in caplog.text


def test_a_ledger_that_fails_after_the_answer_is_made_changes_no_answer(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spent(ledger: object, dataset: str) -> tuple[()]:
        raise LedgerError("the disk is gone")

    refusal = Refusal("failed", UNEXPECTED)
    monkeypatch.setattr(answers, "play", lambda *given: refusal)
    monkeypatch.setattr(Ledger, "spent", spent)
    assert site.train() == refusal
    assert (lines_of(site)[-1].reason, lines_of(site)[-1].after) == (refusal.reason, None)


def test_a_payment_is_noted_even_if_it_was_not_committed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def commit(ledger: object, reservations: object) -> None:
        raise LedgerError("the disk is full")

    monkeypatch.setattr(Ledger, "commit_all", commit)
    assert site.train().status == "failed"
    *_, line = lines_of(site)
    assert (line.event, line.before, line.total) == ("failed", 0.0, 3)
    assert line.after is not None
    assert line.after > 0


def test_the_journal_is_bounded_and_new_lines_are_read_across_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "MOST_BYTES", 2000)
    append(tmp_path, replace(LINE, round=0))
    new, found = new_lines(tmp_path), []
    for number in range(1, 40):
        append(tmp_path, replace(LINE, round=number))
        if number % 3 == 0:
            found += new()
    assert [line.round for line in found] == list(range(1, 40))
    assert {file.name for file in tmp_path.glob("*.jsonl")} == {NAME, OLDER}
    assert all(file.stat().st_size <= 2000 for file in tmp_path.glob("*.jsonl"))
    assert [line.round for line in read_journal(tmp_path)][-5:] == [35, 36, 37, 38, 39]
    assert new() == []


def test_processes_at_once_lose_no_line(tmp_path: Path) -> None:
    def many(first: int) -> None:
        for number in range(50):
            append(tmp_path, replace(LINE, round=first + number))

    threads = [threading.Thread(target=many, args=(100 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({line.round for line in read_journal(tmp_path)}) == 200


def test_a_line_that_was_cut_off_spoils_no_other(tmp_path: Path) -> None:
    append(tmp_path, LINE)
    file = tmp_path / NAME
    file.write_bytes(file.read_bytes() + file.read_bytes()[:40])
    append(tmp_path, replace(LINE, round=4))
    assert [line.round for line in read_journal(tmp_path)] == [3, 4]


def test_numbers_that_are_not_finite_become_none_and_reasons_are_short(tmp_path: Path) -> None:
    append(tmp_path, replace(LINE, after=math.inf, reason="x" * 10_000))
    (line,) = read_journal(tmp_path)
    assert line.after is None
    assert len(line.reason) == 500


def test_whatever_a_line_holds_it_is_read_or_left_out(tmp_path: Path) -> None:
    append(tmp_path, replace(LINE, before=0.5, after=1.0, budget=2.0))
    whole = (tmp_path / NAME).read_bytes()
    random = np.random.default_rng(0)
    for _ in range(100):
        changed = bytearray(whole)
        for place in random.integers(len(whole), size=3):
            changed[place] = random.integers(256)
        (tmp_path / NAME).write_bytes(changed)
        for line in read_journal(tmp_path):
            json.dumps([line.round + 1, line.reason + "", line.seconds + 0.0])


TRAINED = replace(LINE, before=0.404, after=0.5101, budget=2.0, seconds=0.81, process=7)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "round 3 of run r: 12 steps, epsilon 0.41 -> 0.52 of 2.00, 0.8 s"),
        ({"steps": 1, "before": 0.0}, "round 3 of run r: 1 step, epsilon 0.00 -> 0.52 of 2.00, 0.8 s"),
        ({"event": "asked", "steps": 1}, "round 3 of run r: asked for 1 step"),
        ({"event": "asked"}, "round 3 of run r: asked for 12 steps"),
        ({"after": None}, "round 3 of run r: 12 steps, NOT PRIVATE (no epsilon holds), 0.8 s"),
        ({"event": "declined", "after": 0.404, "reason": "no"}, "round 3 of run r: declined: no"),
        ({"event": "failed", "after": None, "reason": "no"}, "round 3 of run r: failed: no"),
        ({"event": "failed", "reason": "no"}, "round 3 of run r: failed, epsilon 0.41 -> 0.52 of 2.00: no"),
        (
            {"event": "registered", "run": "", "after": 0.404},
            "a server asked who this client is; epsilon 0.41 of 2.00 is spent",
        ),
        (
            {"event": "failed", "run": "", "after": None, "reason": "no"},
            "a server asked who this client is: failed: no",
        ),
    ],
)
def test_a_line_in_words(changes: dict[str, object], words: str) -> None:
    assert in_words(replace(TRAINED, **changes)) == words  # type: ignore[arg-type]


@contextmanager
def later(module: ModuleType) -> Iterator[None]:
    """Its clock is a minute ahead: times are told in seconds."""
    with pytest.MonkeyPatch.context() as patched:
        ahead = SimpleNamespace(now=lambda zone: datetime.now(zone) + timedelta(minutes=1))
        patched.setattr(module, "datetime", ahead)
        yield


def test_an_older_copy_of_the_ledger_is_noticed_by_the_journal_beside_it(site, tmp_path):
    file = tmp_path / "ledger.sqlite"
    site.register()
    with later(journal):
        assert isinstance(site.train(), LocalUpdate)
        older = file.read_bytes()
        check_newest_ledger(file)
        assert isinstance(site.train(replace(PLAN, server_round=2)), LocalUpdate)
    check_newest_ledger(file)
    newest = file.read_bytes()
    file.write_bytes(older)
    with pytest.raises(LedgerError, match="does not have round 2 of run run-1"):
        check_newest_ledger(file)
    file.write_bytes(newest)
    check_newest_ledger(file)


def test_an_older_copy_that_lacks_an_evaluation_is_noticed_too(tmp_path):
    site = Site(tmp_path, **{"test": 0.3, "evaluate-epsilon": 2.0})
    site.register()
    file = tmp_path / "ledger.sqlite"
    older = file.read_bytes()
    plan = EvaluationPlan("run-1", 1, "linear", "", "record")
    with later(journal):
        answer = site.call("evaluate", evaluation_to_content(plan, encode(state_arrays(MODEL))))
    assert isinstance(histogram_from_content(answer), SiteHistogram)
    check_newest_ledger(file)
    file.write_bytes(older)
    with pytest.raises(LedgerError, match="does not have round 1 of run run-1"):
        check_newest_ledger(file)


def test_a_ledger_that_was_deleted_is_noticed_and_one_that_was_retired_is_not(site, tmp_path):
    file = tmp_path / "ledger.sqlite"
    site.register()
    assert isinstance(site.train(), LocalUpdate)
    with later(ledger):
        with Ledger.open(file) as opened:
            opened.retire("digits, part 0/2 (iid, seed 0)")
        site.register()
        check_newest_ledger(file)
        file.unlink()
        with Ledger.open(file):
            pass
        with pytest.raises(LedgerError, match="was recreated"):
            check_newest_ledger(file, ["digits, part 0/2 (iid, seed 0)"])
        with pytest.raises(LedgerError, match="was recreated"):
            check_newest_ledger(file)
        site.register()
    with pytest.raises(LedgerError, match="is an older copy or was recreated"):
        check_newest_ledger(file)
