"""The page is what the files make, whoever has computed which digest."""

import pytest
from verify.made_run import MadeRun, epsilon

from fl_dp.verify.findings import Outcome


@pytest.fixture
def drawn(made_run: MadeRun) -> MadeRun:
    made_run.draw()
    return made_run


def test_a_page_as_it_was_drawn_agrees(drawn: MadeRun) -> None:
    assert drawn.differs() == {}
    assert [one.outcome for one in drawn.check()["page"].findings] == [Outcome.AGREES]


def test_an_epsilon_changed_on_the_page_is_found_with_every_digest_anew(drawn: MadeRun) -> None:
    """The digests of the folder are all as a forger computes them; the page alone is not what they make."""
    page, shown = drawn.files.report.read_text(), f"{epsilon(60):.2f}"
    assert shown in page
    drawn.files.report.write_text(page.replace(shown, "0.10"))
    drawn.digests_anew()
    found = drawn.differs()
    assert set(found) == {"page"}
    assert "0.10" in found["page"][0].what
    assert shown in found["page"][0].what


def test_a_figure_that_was_changed_is_found(drawn: MadeRun) -> None:
    page = drawn.files.report.read_text()
    assert "<svg" in page
    drawn.files.report.write_text(page.replace("<path", "<path x='1'", 1))
    assert "its figures or its form are not" in drawn.differs()["page"][0].what


def test_of_other_versions_the_words_are_compared_and_that_is_said(drawn: MadeRun) -> None:
    page = drawn.files.report.read_text()
    older = page.replace("Drawn by fl-dp ", "Drawn by fl-dp 0.0.", 1).replace("<path", "<path x='1'", 1)
    drawn.files.report.write_text(older)
    assert drawn.differs() == {}
    notes = [one.what for one in drawn.check()["page"].findings if one.outcome is Outcome.NOTE]
    assert "its figures were not compared" in notes[0]
    drawn.files.report.write_text(older.replace(f"{epsilon(60):.2f}", "0.10"))
    assert "the words are others" in drawn.differs()["page"][0].what


def test_the_page_of_forged_files_is_not_the_one_that_was_signed_off(drawn: MadeRun) -> None:
    drawn.change_summary(lambda summary: summary.update(seconds=99.0))
    assert set(drawn.differs()) == {"page"}


def test_a_page_that_cannot_be_read_is_a_finding(drawn: MadeRun) -> None:
    drawn.files.report.write_bytes(b"\xff\xfe")
    assert set(drawn.differs()) == {"page"}
    drawn.files.report.write_text("")
    assert set(drawn.differs()) == {"page"}
