"""`fl-dp report`, as it is typed."""

from fl_dp.cli.common import run_command
from fl_dp.cli.main import app
from fl_dp.errors import ExitCode

from ..reporting.page.conftest import make

__all__ = ["make"]


def typed(*words: object) -> int:
    return run_command(app, ["report", *map(str, words)])


def test_a_page_where_it_belongs(make, capsys):
    folder = make()
    assert typed(folder.path) == 0
    assert capsys.readouterr().out == f"report in {folder.report}\n"
    assert folder.report.read_text().startswith("<!doctype html>")


def test_who_approves_is_kept_and_shown(make, tmp_path):
    folder, out = make(), tmp_path / "page.html"
    words = ("--purpose", "Triage", "--approver", "Dr. Ng", "--date", "2024-02-29", "--operator", "Clinic N")
    more = ("--recipients", "both", "--retention", "a year", "--legal-basis", "Art. 9")
    assert typed(folder.path, "--out", out, *words, *more) == 0
    assert all(word in out.read_text() for word in (*words[1::2], *more[1::2]))
    assert not folder.report.exists()
    assert typed(folder.path) == 0
    assert "Dr. Ng" in folder.report.read_text()


def test_what_cannot_be_is_said(make, tmp_path, capsys):
    one = make("a").path
    for words, said in (
        ((tmp_path / "nothing",), "no such folder"),
        ((tmp_path,), "holds no run"),
        ((one, "--out", tmp_path / "nowhere" / "page.html"), "name another with --out"),
    ):
        assert typed(*words) == ExitCode.USAGE
        assert said in capsys.readouterr().err
