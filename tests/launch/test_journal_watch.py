"""What a client's console says of its rounds."""

from dataclasses import replace

from fl_dp.config.client import ClientConfig
from fl_dp.federation.client.journal import Line, append, journal_folder
from fl_dp.federation.client.journal_words import in_words
from fl_dp.launch.journal_watch import JournalWatch

LINE = Line(
    event="trained", at="2026-01-31T12:00:00", client="north", run="r", round=3, steps=12,
    before=0.404, after=0.5101, budget=2.0, seconds=0.81, process=7,
)  # fmt: skip


def test_only_what_is_new_of_this_client_is_said_and_no_question_that_is_answered(tmp_path):
    settings = ClientConfig(client="north", ledger=str(tmp_path / "ledger.sqlite"))
    folder = journal_folder(settings.ledger)
    append(folder, replace(LINE, round=1))
    said: list[str] = []
    watch = JournalWatch(settings, said.append)
    watch.look()
    append(folder, replace(LINE, event="asked"))
    append(folder, LINE)
    append(folder, replace(LINE, event="asked", round=4, process=8))
    append(folder, replace(LINE, client="south", round=9))
    watch.look()
    append(folder, replace(LINE, event="declined", round=4, process=8, after=None, reason="no"))
    watch.look()
    watch.look()
    assert said == [
        in_words(LINE),
        "round 4 of run r: asked for 12 steps",
        "round 4 of run r: declined: no",
    ]


def test_a_journal_that_begins_later_is_followed(tmp_path):
    settings = ClientConfig(client="north", ledger=str(tmp_path / "deep" / "ledger.sqlite"))
    said: list[str] = []
    watch = JournalWatch(settings, said.append)
    watch.look()
    append(journal_folder(settings.ledger), LINE)
    watch.look()
    assert said == [in_words(LINE)]


def test_at_the_end_of_a_run_it_says_whether_anything_was_trained(tmp_path):
    settings = ClientConfig(client="north", ledger=str(tmp_path / "ledger.sqlite"))
    folder, said = journal_folder(settings.ledger), list[str]()
    watch = JournalWatch(settings, said.append)
    for line in (LINE, replace(LINE, round=4, after=2.0), replace(LINE, client="south", round=4)):
        append(folder, line)
    assert watch.at_the_end() == "2 rounds trained here (epsilon 2.00 of 2.00 is spent)"
    assert said[0] == in_words(LINE)  # what came before it is said before it
    append(folder, replace(LINE, event="registered", run="", after=2.0))
    assert watch.at_the_end() == "nothing was trained here (epsilon 2.00 of 2.00 is spent)"


def test_without_a_journal_nothing_is_said_of_a_budget(tmp_path):
    settings = ClientConfig(client="north", ledger=str(tmp_path / "ledger.sqlite"))
    assert JournalWatch(settings, print).at_the_end() == "nothing was trained here"
