"""Statements: of this run, this model and this client, and by whose key."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from verify.made_run import DELTA, STEPS, Json, MadeRun, charges, epsilon, signed

from fl_dp.kits.keys import SigningKey
from fl_dp.statements import Statement


def said_again(run: MadeRun, change: Callable[[Statement], Statement], key: SigningKey | None = None) -> None:
    """North says something else, by its own key or another."""
    found = run.statements()
    new = signed(change(Statement.from_text(found[0]["text"])), key or run.key("north"))
    found[0] = {"text": new.text, "key": new.key, "signature": new.signature}
    run.write_statements(found)


def of_account(**changes: Any) -> Callable[[Statement], Statement]:
    return lambda said: replace(said, accounts=(replace(said.accounts[0], **changes),))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda said: replace(said, run="7002"), "it is of another run"),
        (lambda said: replace(said, weights="0" * 64), "it is of another model"),
        (lambda said: replace(said, retired=1), "retired differs"),
        (of_account(client="west"), "the run has no such client"),
        (of_account(public_size=641), "public_size differs"),
        (of_account(delta=DELTA / 10), "delta differs"),
        (of_account(budget=4.0), "budget differs"),
        (of_account(accountant="rdp"), "accountant differs"),
        (of_account(epsilon=1.0), "epsilon 1.0000 is stated"),
        (of_account(spent=charges(4 * STEPS), epsilon=epsilon(4 * STEPS)), "80 steps stated"),
    ],
)
def test_what_a_site_has_signed_is_what_the_folder_says(
    change: Callable[[Statement], Statement], words: str, made_run: MadeRun
) -> None:
    said_again(made_run, change)
    assert words in made_run.words("statements")


def test_a_ledger_that_was_made_for_the_run_alone_is_told(made_run: MadeRun) -> None:
    assert made_run.notes("statements") == []
    said_again(made_run, lambda said: replace(said, one_run_ledger=True))
    told = "the ledger was made for this run alone (1 client: north)"
    assert made_run.notes("statements") == [told]
    made_run.files.statements.unlink()
    made_run.files.launch.write_text('engine = ""\nledgers = "ledgers"\none-run-ledger = true\n')
    assert made_run.notes("statements") == ["the clients' ledger was made for this run alone"]


def test_a_site_that_has_spent_less_than_was_feared_is_a_note(made_run: MadeRun) -> None:
    said_again(made_run, of_account(spent=charges(2 * STEPS), epsilon=epsilon(2 * STEPS)))
    assert "steps stated" not in made_run.words("statements")
    assert made_run.notes("statements") == ["40 steps stated, and summary.json counts 60"]


def test_steps_of_other_runs_that_the_summary_counts_for_this_one_are_a_note(made_run: MadeRun) -> None:
    said_again(made_run, of_account(other_runs=charges(STEPS)))
    assert "20 steps of this run in summary.json, not stated as such" in made_run.notes("statements")


def test_a_site_that_has_spent_nothing_states_more_than_the_summary(made_run: MadeRun) -> None:
    """Of no step at all every one is proven; the summary speaks of the run's."""
    said_again(made_run, of_account(arithmetic="proven"))
    assert "arithmetic" not in made_run.words("statements")


@pytest.mark.parametrize("field", ["text", "key", "signature"])
def test_a_changed_statement_has_no_signature(field: str, made_run: MadeRun) -> None:
    first, second = made_run.statements()
    first[field] = first["text"].replace("640", "641") if field == "text" else second[field]
    made_run.write_statements([first, second])
    assert "its signature does not hold" in made_run.words("statements")
    assert not made_run.check(roster=True)["statements"].signed.get("north")


def test_another_spelling_or_a_second_statement_is_refused(made_run: MadeRun) -> None:
    first, second = made_run.statements()
    made_run.write_statements([first, second, first])
    assert "a second statement of client north" in made_run.words("statements")
    made_run.write_statements([{**first, "text": json.dumps(json.loads(first["text"]), indent=1)}, second])
    assert "not in canonical form" in made_run.words("statements")


def test_a_key_in_the_file_proves_nothing(made_run: MadeRun) -> None:
    said_again(made_run, lambda said: said, SigningKey.generate())
    assert made_run.words("statements") == ""
    assert not any(made_run.check()["statements"].signed.values())
    words = made_run.words("statements", roster=True)
    assert "signed by a key that the roster of hospitals does not have" in words


def test_no_site_speaks_for_another(made_run: MadeRun) -> None:
    """South signs what north has spent: its key is in the roster, and not for that."""
    said_again(made_run, lambda said: said, made_run.key("south"))
    words = made_run.words("statements", roster=True)
    assert "signed by site south, and speaks of client north" in words
    assert made_run.check(roster=True)["statements"].signed == {"north": False, "south": True}


def test_a_statement_without_a_signature_is_consistent_and_no_more(made_run: MadeRun) -> None:
    made_run.write_statements([{**one, "key": "", "signature": ""} for one in made_run.statements()])
    assert made_run.words("statements", roster=True) == ""
    assert not any(made_run.check(roster=True)["statements"].signed.values())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda summary: [one.pop("public_size") for one in summary["clients"].values()], "public_size"),
        (lambda summary: summary["digests"].pop("model"), "it is of another model"),
        (lambda summary: summary["federation"].update(unit="person"), "unit"),
        (lambda summary: summary["federation"].update(arithmetic="proven"), "arithmetic"),
        (
            lambda summary: summary["clients"]["north"].update(arithmetic="proven"),
            "arithmetic is proven in summary.json, and steady-rows is stated",
        ),
    ],
)
def test_a_summary_says_all_that_was_signed_and_no_more(
    change: Callable[[Json], object], words: str, made_run: MadeRun
) -> None:
    made_run.change_summary(change)
    assert words in made_run.words("statements", roster=True)


def test_a_weaker_arithmetic_cannot_be_called_a_stronger_one(made_run: MadeRun) -> None:
    made_run.change_summary(
        lambda said: [one.update(arithmetic="proven") for one in said["clients"].values()]
    )
    words = made_run.words("statements", roster=True)
    assert words.count("arithmetic is proven in summary.json, and steady-rows is stated") == 2


def test_a_site_of_the_roster_that_the_folder_leaves_out_is_named(made_run: MadeRun) -> None:
    """Whoever writes the folder can drop a client with all that it has said."""
    made_run.change_both(lambda table: table["clients"].pop("south"))
    made_run.write_statements(made_run.statements()[:1])
    findings = made_run.check(roster=True)["statements"].findings
    assert any("anything of 1 site of the roster: south" in one.what for one in findings)
