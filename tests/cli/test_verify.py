"""`fl-dp verify`: what is printed, and the exit code."""

import json

import pytest
from verify.made_run import MadeRun, run_in

from fl_dp.cli.common import run_command
from fl_dp.cli.main import app
from fl_dp.kits.keys import fingerprint
from fl_dp.reporting.page.approval import write_approval
from fl_dp.reporting.provenance import page_digest
from fl_dp.verify.verdict import UNSIGNED


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> MadeRun:
    """Not to be changed."""
    return run_in(tmp_path_factory.mktemp("made"))


def verify(*arguments: object) -> int:
    return run_command(app, ["verify", *map(str, arguments)])


def test_a_run_that_agrees(made, capsys):
    assert verify(made.files.path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{made.files.shown}, checked by fl_dp ")
    assert lines[1] == "summary.json: epsilon 2.76; the smallest budget is 3.00"
    assert lines[2].startswith("report.html is not read")
    assert any(line.startswith("agrees     epsilons ") for line in lines)
    assert any(line.startswith("not given  ledgers ") for line in lines)
    assert lines[-1].startswith("consistent, not authenticated: ")


def test_kits_rosters_and_ledgers_are_taken(made, capsys):
    north, south = made.ledgers["north"], made.ledgers["south"]
    for words, said in (
        (("--kit", made.kits.kit("north")), "authentic: every client's own site"),
        (("--roster", made.kits.roster), fingerprint(made.kits.authority.public)),
        (("--roster", made.kits.roster), "compare this fingerprint"),
        (("--ledger", north.parent, "--ledger", south), "2 ledgers of 12 entries: no chain is broken"),
    ):
        assert verify(made.files.path, *words) == 0
        out = capsys.readouterr().out
        assert said in out
        whole = "".join(f"\n- {one}" for one in UNSIGNED) + "\n"  # once, after the verdict
        assert out.endswith(whole) == (said.startswith("authentic") or words[0] == "--roster")
        assert out.count(next(iter(UNSIGNED))) <= 1


def test_what_differs_is_named_and_ends_with_1(made, tmp_path, capsys):
    forged = made.copy(tmp_path / "forged")
    forged.change_summary(lambda summary: summary["clients"]["north"].update(epsilon=0.1))
    assert verify(forged.files.path) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any("epsilon 0.1000, and its charges cost" in line for line in lines)
    assert any(line.startswith("differs    epsilons ") for line in lines)
    assert any(line.strip() == "summary.json, client north" for line in lines)
    assert lines[-1].startswith("DIFFERS: ")


def test_the_smallest_budget_is_told(made, tmp_path, capsys):
    forged = made.copy(tmp_path / "forged")
    forged.change_summary(lambda summary: summary["clients"]["north"].update(budget=5.0))
    verify(forged.files.path)
    assert "the smallest budget is 3.00\n" in capsys.readouterr().out


def test_all_of_it_as_json(made, capsys):
    assert verify(made.files.path, "--json", "--roster", made.kits.roster) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["agrees"] is True
    assert found["authentic"] == ["north", "south"]
    assert found["authority"] == made.kits.authority.public
    assert {check["check"] for check in found["checks"]} >= {"epsilons", "files", "ledgers"}
    assert found["checks"][0]["findings"][0]["outcome"] == "agrees"


def test_bad_arguments_end_with_2(made, tmp_path, capsys):
    run = made.files.path
    for arguments, words in (
        ((tmp_path,), "holds no run"),
        ((run, "--kit", tmp_path), "trusted.json is missing"),
        ((run, "--roster", tmp_path / "none"), "no such file"),
        ((run, "--kit", made.kits.kit("north"), "--roster", made.kits.roster), "give only one of them"),
        ((run, "--ledger", tmp_path), "holds no ledger"),
        ((run, "--digest", "12ab"), "expected 64 hexadecimal digits"),
        ((run, "--digest", f"SHA-512 {'a' * 64}"), "expected 64 hexadecimal digits"),
        ((run, "--digest", "g" * 64), "expected 64 hexadecimal digits"),
    ):
        assert verify(*arguments) == 2
        assert words in capsys.readouterr().err


def test_the_digest_on_paper_is_compared_however_it_is_printed(made, tmp_path, capsys):
    digest = page_digest(made.files)
    assert verify(made.files.path) == 0
    assert fingerprint(digest) in capsys.readouterr().out
    foot = f"SHA-256 {fingerprint(digest)}"
    for printed in (digest, fingerprint(digest).upper(), f"{digest[:32]}\n{digest[32:]}", foot, f" {foot}\n"):
        assert verify(made.files.path, "--digest", printed) == 0
        assert "the digest that was given is that of these files" in capsys.readouterr().out
    copy = made.copy(tmp_path / "copy")
    write_approval(copy.files, approver="Somebody Else")
    assert verify(copy.files.path, "--digest", digest) == 1
    assert f"the digest of these files is {fingerprint(page_digest(copy.files))}" in capsys.readouterr().out
