"""The page is what the files make, whoever has computed which digest."""

import pytest
from verify.made_run import MadeRun, epsilon

from fl_dp.errors import ConfigError
from fl_dp.reporting.vouched import LISTED
from fl_dp.verify import reading
from fl_dp.verify.check import Evidence, Outcome
from fl_dp.verify.verdict import agrees, verdict


@pytest.fixture
def drawn(made_run: MadeRun) -> MadeRun:
    made_run.draw()
    return made_run


def test_a_page_as_it_was_drawn_agrees(drawn: MadeRun) -> None:
    assert drawn.differs() == {}
    findings = drawn.check()["page"].findings
    assert [one.outcome for one in findings] == [Outcome.NOTE, Outcome.AGREES]
    assert LISTED in findings[-1].what


def test_what_was_changed_on_the_page_is_found_with_every_digest_anew(drawn: MadeRun) -> None:
    """The digests of the folder are all as a forger computes them; the page alone is not what they make."""
    page, shown = drawn.files.report.read_text(), f"{epsilon(60):.2f}"
    drawn.files.report.write_text(page.replace("<path", "<path x='1'", 1))
    assert "its figures or its form are not" in drawn.words("page")
    drawn.files.report.write_text(page.replace(shown, "0.10"))
    drawn.digests_anew()
    assert set(drawn.differs()) == {"page"}
    assert "0.10" in drawn.words("page")
    assert shown in drawn.words("page")


def test_of_other_versions_the_words_are_compared_and_that_is_said(drawn: MadeRun) -> None:
    page = drawn.files.report.read_text()
    older = page.replace(", matplotlib ", ", matplotlib 0.0.", 1).replace("<path", "<path x='1'", 1)
    drawn.files.report.write_text(older)
    assert drawn.differs() == {}
    assert "its figures were not compared" in drawn.notes("page")[-1]
    shown, foot = f"{epsilon(60):.2f}", 'content: "Run'
    for change in ((shown, "0.10"), ("<title>Run", "<title>Sum"), (foot, foot.replace("Run", "Sum"))):
        assert change[0] in older
        drawn.files.report.write_text(older.replace(*change))
        assert "the words are others" in drawn.words("page"), change


@pytest.mark.parametrize("own", ["Drawn by fl-dp ", "code of fl-dp "])
def test_a_page_in_another_fl_dps_words_is_neither_good_nor_said_to_differ(own: str, drawn: MadeRun) -> None:
    """Whoever forges a page can name any version: such a page is not to be signed."""
    page = drawn.files.report.read_text().replace(own, f"{own}0", 1)
    drawn.files.report.write_text(page)
    assert drawn.check()["page"].findings[-1].outcome is Outcome.NOTE
    drawn.files.report.write_text(page.replace(f"{epsilon(60):.2f}", "0.10"))
    results = list(drawn.check(roster=True).values())
    assert drawn.differs(roster=True) == {}
    assert [one.outcome for one in drawn.check()["page"].findings] == [Outcome.NOTE, Outcome.UNCHECKED]
    assert not agrees(results)
    assert verdict(results, Evidence(drawn.files, drawn.roster)).startswith("UNCHECKED: ")
    drawn.change_summary(lambda summary: summary.update(seconds=99.0))
    assert "it shows the digest of other files" in drawn.words("page")


def test_the_page_of_forged_files_is_not_the_one_that_was_signed_off(drawn: MadeRun) -> None:
    drawn.change_summary(lambda summary: summary.update(seconds=99.0))
    assert set(drawn.differs()) == {"page"}


@pytest.mark.parametrize("content", [b"\xff\xfe", b""])
def test_a_page_that_cannot_be_read_is_a_finding(content: bytes, drawn: MadeRun) -> None:
    drawn.files.report.write_bytes(content)
    assert set(drawn.differs()) == {"page"}


@pytest.mark.parametrize("bound", ["MOST_LINE", "MOST_JSON"])
def test_no_page_is_drawn_of_files_that_are_too_long(
    drawn: MadeRun, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, bound, 100)
    assert "longer than" in drawn.words("page")


@pytest.mark.parametrize(
    "name",
    ["rounds.jsonl", "summary.json", "statements.json", "config.toml", "resolved.toml", "launch.toml",
     "model.json", "approval.toml", "report.html"],
)  # fmt: skip
@pytest.mark.parametrize("itself", [True, False])
def test_no_file_of_the_folder_is_a_link_out_of_it(drawn: MadeRun, name: str, itself: bool) -> None:
    """Also not for the page: neither it nor a finding may show a file of the reader's machine."""
    file = drawn.files.path / name
    away = drawn.files.path.parent / f"away-{name}"
    if file.exists():
        file.rename(away)
    else:
        away.write_text('purpose = "secret of this machine"\n')
    file.symlink_to(name if itself else away)
    findings = [one for found in drawn.differs().values() for one in found]
    assert any("link" in one.what for one in findings)
    assert not any("secret" in one.what for one in findings)
    if name != "report.html":
        with pytest.raises(ConfigError, match="it is a link"):
            drawn.draw()
