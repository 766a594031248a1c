"""All checks together: a run as it was left agrees, and a forger who computes every digest anew is found."""

import json
from typing import Any

import pytest
from verify.made_run import RATE, STEPS, Json, MadeRun

from fl_dp.choices import CHECKS
from fl_dp.errors import ConfigError
from fl_dp.verify import reading
from fl_dp.verify.check import Evidence, Outcome, checked
from fl_dp.verify.verdict import verdict


def the_verdict(run: MadeRun, *, roster: bool = False, ledgers: bool = False) -> str:
    evidence = Evidence(run.files, run.roster if roster else None)
    return verdict(list(run.check(roster=roster, ledgers=ledgers).values()), evidence)


def test_a_run_as_it_was_left_agrees(untouched: MadeRun) -> None:
    assert untouched.differs(roster=True, ledgers=True) == {}
    results = untouched.check(roster=True, ledgers=True)
    agreeing = {
        name for name, one in results.items() if any(f.outcome is Outcome.AGREES for f in one.findings)
    }
    assert agreeing == set(CHECKS.built_in()) - {"site-metrics"}  # of which it has none


def test_without_a_roster_nothing_is_authentic(untouched: MadeRun) -> None:
    assert the_verdict(untouched).startswith("consistent, not authenticated")
    assert the_verdict(untouched, roster=True).startswith("authentic: every client's own site")


def test_a_client_without_a_statement_is_named_and_not_authentic(made_run: MadeRun) -> None:
    made_run.write_statements([one for one in made_run.statements() if '"north"' in one["text"]])
    assert made_run.differs(roster=True) == {}
    assert "authentic for 1 client" in the_verdict(made_run, roster=True)
    words = [one.what for one in made_run.check()["statements"].findings]
    assert any("a statement of 1 client: south" in one for one in words)


def test_what_is_said_of_signatures_is_true_to_what_is_there(made_run: MadeRun) -> None:
    def said(check: str, **given: bool) -> str:
        return " ".join(f"{one.what} {one.means}" for one in made_run.check(**given)[check].findings)

    assert "give --kit DIR or --roster FILE" in said("statements")
    made_run.files.launch.write_text('engine = ""\nledgers = "ledgers"\n')
    assert "the keys were made for one launch on one machine: no roster has them" in said("statements")
    made_run.write_statements([one | {"key": "", "signature": ""} for one in made_run.statements()])
    assert "the sites' statements are not signed" in said("statements")
    made_run.files.launch.write_text('engine = "ray"\nledgers = "ledgers"\n')
    assert "the clients of a simulation have no keys" in said("statements")


def test_rounds_that_were_cut_off_are_found(made_run: MadeRun) -> None:
    first, second, third = made_run.files.rounds.read_text().splitlines(keepends=True)
    for text, words in (
        (first + second, "3 rounds in the summary, and 2 in rounds.jsonl"),
        ((first + second + third)[:-40], "the rest of rounds.jsonl was not checked"),
        (first + third, "rounds are counted from 1 without a gap"),
    ):
        made_run.files.rounds.write_text(text)
        assert words in " ".join(f"{one.what} {one.means}" for one in made_run.differs()["files"])


def test_a_run_that_was_killed_is_checked_as_far_as_it_came(made_run: MadeRun) -> None:
    """It has no summary, no model and no statements, and its last line may be cut off."""
    for path in (made_run.files.summary, made_run.files.statements, made_run.files.model(private=True)):
        path.unlink()
    made_run.files.rounds.write_bytes(made_run.files.rounds.read_bytes()[:-40])
    assert made_run.differs() == {}
    assert any("begun since is paid for" in one.means for one in made_run.check()["files"].findings)
    assert the_verdict(made_run).startswith("consistent, not authenticated")


def test_a_run_without_privacy_says_so_in_the_verdict(made_run: MadeRun) -> None:
    def unprotected(line: Json) -> None:
        line |= {"private": False, "epsilon": None}
        line |= {"planned_epsilon": None} if "planned_epsilon" in line else {}
        line["federation"] |= {"largest": None, "median": None, "least": None}
        for client in line["clients"].values():
            client |= {"epsilon": None, "sample_rate": None, "noise_multiplier": None}
            client["charges"] = [{"sample_rate": RATE, "noise_multiplier": 0.0, "steps": client["steps"]}]
            client.pop("planned_epsilon", None)

    made_run.change_both(unprotected)
    made_run.files.statements.unlink()
    made_run.files.model(private=True).rename(made_run.files.model(private=False))
    assert made_run.differs() == {}
    assert the_verdict(made_run).startswith("NOT PRIVATE")
    for claimed in ({"epsilon": 1.0}, {"private": True}):
        made_run.change_summary(lambda summary, claimed=claimed: summary.update(claimed))
        assert set(made_run.differs()) >= {"files"}


def test_whatever_stands_in_the_files_is_a_finding_and_no_traceback(made_run: MadeRun) -> None:
    """Every value of the files is replaced by values of other types, one after the other."""
    odd = [None, True, -1, 1.5, 10**400, "\x1b[2J", [], {}, [[]], {"a": None}]
    for path in (made_run.files.summary, made_run.files.statements, made_run.files.description):
        whole = path.read_text()
        for number, place in enumerate(_places(json.loads(whole))):
            found = json.loads(whole)
            _put(found, place, odd[number % len(odd)])
            path.write_text(json.dumps(found))
            results = list(checked(Evidence(made_run.files)))
            assert len(results) == len(CHECKS.built_in())
        path.write_text(whole)


@pytest.mark.parametrize("name", ["sample_rate", "noise_multiplier", "steps", "shares"])
def test_a_number_of_400_digits_in_a_charge_is_a_finding(name: str, made_run: MadeRun) -> None:
    one = {"sample_rate": RATE, "noise_multiplier": 1.5, "steps": STEPS}
    made_run.change_client("south", charges=[{**one, name: 10**400}])
    assert set(made_run.differs()) >= {"files"}


def test_steps_of_a_round_with_4300_digits_are_a_finding(made_run: MadeRun) -> None:
    """The longest number that Python writes: of two rounds together it would be a traceback."""

    def steps(line: Json) -> None:
        line["clients"]["north"]["reported"] = {"steps": 10**4300 - 1}

    made_run.change_rounds(steps)
    assert set(made_run.differs()) >= {"files"}


DAMAGE = {
    "empty": b"",
    "cut off": b"{",
    "a list": b"[]",
    "not UTF-8": b"\xff\xfe",
    "too deep": b"[" * 100_000,
    "too long a number": b"9" * 5000,
    "no number": b"NaN",
    "zeros": b"\0" * 99,
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", ["summary", "rounds", "statements"])
def test_a_damaged_file_is_a_finding(name: str, damage: str, made_run: MadeRun) -> None:
    getattr(made_run.files, name).write_bytes(DAMAGE[damage])
    assert made_run.differs()


@pytest.mark.parametrize("name", ["summary", "rounds", "statements", "config", "resolved", "description"])
def test_a_folder_in_a_files_place_is_a_finding(name: str, made_run: MadeRun) -> None:
    path = getattr(made_run.files, name)
    path.unlink()
    path.mkdir()
    assert made_run.differs()


@pytest.mark.parametrize("bound", ["MOST_LINE", "MOST_JSON"])
def test_files_that_are_too_long_are_not_read(
    made_run: MadeRun, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, bound, 100)
    assert "longer than" in made_run.words("files")


@pytest.mark.parametrize(
    "name",
    [
        "rounds.jsonl",
        "summary.json",
        "statements.json",
        "config.toml",
        "resolved.toml",
        "launch.toml",
        "model.json",
        "approval.toml",
    ],
)
@pytest.mark.parametrize("itself", [True, False])
def test_no_file_of_the_folder_is_a_link_out_of_it(made_run: MadeRun, name: str, itself: bool) -> None:
    """Also not for the page: neither it nor a finding may show a file of the reader's machine."""
    file = made_run.files.path / name
    away = made_run.files.path.parent / f"away-{name}"
    if file.exists():
        file.rename(away)
    else:
        away.write_text('purpose = "secret of this machine"\n')
    file.symlink_to(name if itself else away)
    findings = [one for found in made_run.differs().values() for one in found]
    assert any("link" in one.what for one in findings)
    assert not any("secret" in one.what for one in findings)
    with pytest.raises(ConfigError, match="it is a link"):
        made_run.draw()


def test_names_cannot_move_the_cursor(made_run: MadeRun) -> None:
    evil = "\x1b[2J\u202enorth\n" + "x" * 500

    def rename(line: Json) -> None:
        line["clients"][evil] = line["clients"].pop("north")
        line["clients"][evil]["epsilon"] /= 2

    made_run.change_both(rename)
    shown = "".join(one.what + one.where for findings in made_run.differs().values() for one in findings)
    assert shown.isprintable()
    assert "x" * 300 not in shown


def _places(found: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    return [place, *(deeper for key, one in items for deeper in _places(one, (*place, key)))][
        0 if place else 1 :
    ]


def _put(found: Any, place: tuple[Any, ...], value: Any) -> None:
    for key in place[:-1]:
        found = found[key]
    found[place[-1]] = value
