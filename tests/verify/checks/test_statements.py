"""Statements: of this run, this model and this client, and by whose key."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from verify.made_run import DELTA, STEPS, MadeRun, charges, epsilon, signed

from fl_dp.kits.keys import SigningKey
from fl_dp.statements import Statement
from fl_dp.verify.findings import Outcome

Json = dict[str, Any]


def what_differs(run: MadeRun, *, roster: bool = False) -> str:
    return " | ".join(f"{one.what} ({one.where})" for one in run.differs(roster=roster).get("statements", []))


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
        (lambda said: replace(said, retired=1), "retired is another one"),
        (of_account(client="west"), "the run has no such client"),
        (of_account(public_size=641), "public_size is another one"),
        (of_account(delta=DELTA / 10), "delta is another one"),
        (of_account(budget=4.0), "budget is another one"),
        (of_account(accountant="rdp"), "accountant is another one"),
        (of_account(epsilon=1.0), "epsilon 1.0000 is stated"),
        (of_account(spent=charges(4 * STEPS), epsilon=epsilon(4 * STEPS)), "80 steps are stated"),
    ],
)
def test_what_a_site_has_signed_is_what_the_folder_says(
    change: Callable[[Statement], Statement], words: str, made_run: MadeRun
) -> None:
    said_again(made_run, change)
    assert words in what_differs(made_run)


def test_a_site_that_has_spent_less_than_was_feared_is_a_note(made_run: MadeRun) -> None:
    said_again(made_run, of_account(spent=charges(2 * STEPS), epsilon=epsilon(2 * STEPS)))
    assert "steps are stated" not in what_differs(made_run)
    notes = [one.what for one in made_run.check()["statements"].findings if one.outcome is Outcome.NOTE]
    assert notes == ["40 steps are stated, and summary.json counts 60"]


@pytest.mark.parametrize("field", ["text", "key", "signature"])
def test_a_changed_statement_has_no_signature(field: str, made_run: MadeRun) -> None:
    found = made_run.statements()
    other = found[1][field]
    found[0][field] = found[0]["text"].replace("640", "641") if field == "text" else other
    made_run.write_statements(found)
    assert "its signature does not hold" in what_differs(made_run)
    assert not made_run.check(roster=True)["statements"].signed.get("north")


def test_another_spelling_says_nothing(made_run: MadeRun) -> None:
    found = made_run.statements()
    found[0]["text"] = json.dumps(json.loads(found[0]["text"]), indent=1)
    made_run.write_statements(found)
    assert "another spelling" in what_differs(made_run)


def test_a_key_in_the_file_proves_nothing(made_run: MadeRun) -> None:
    said_again(made_run, lambda said: said, SigningKey.generate())
    assert what_differs(made_run) == ""
    assert not any(made_run.check()["statements"].signed.values())
    assert "signed by a key that the roster of hospitals does not have" in what_differs(made_run, roster=True)


def test_no_site_speaks_for_another(made_run: MadeRun) -> None:
    """South signs what north has spent: its key is in the roster, and not for that."""
    said_again(made_run, lambda said: said, made_run.key("south"))
    assert "signed by site south, and speaks of client north" in what_differs(made_run, roster=True)
    assert made_run.check(roster=True)["statements"].signed == {"north": False, "south": True}


def test_two_statements_of_one_client_are_one_too_many(made_run: MadeRun) -> None:
    found = made_run.statements()
    made_run.write_statements([*found, found[0]])
    assert "a second statement of client north" in what_differs(made_run)


def test_a_statement_without_a_signature_is_consistent_and_no_more(made_run: MadeRun) -> None:
    made_run.write_statements([{**one, "key": "", "signature": ""} for one in made_run.statements()])
    assert what_differs(made_run, roster=True) == ""
    assert not any(made_run.check(roster=True)["statements"].signed.values())


@pytest.mark.parametrize("name", ["delta", "budget", "public_size", "retired", "arithmetic", "charges"])
def test_what_was_signed_cannot_be_left_out_of_the_summary(name: str, made_run: MadeRun) -> None:
    made_run.change_summary(lambda found: [one.pop(name) for one in found["clients"].values()])
    assert name in what_differs(made_run, roster=True)


def test_a_model_without_a_digest_is_not_the_one_that_was_signed(made_run: MadeRun) -> None:
    made_run.change_summary(lambda found: found["digests"].pop("model"))
    assert "it is of another model" in what_differs(made_run, roster=True)


@pytest.mark.parametrize(("name", "value"), [("unit", "person"), ("arithmetic", "proven")])
def test_unit_and_arithmetic_of_all_are_those_that_were_signed(
    name: str, value: str, made_run: MadeRun
) -> None:
    made_run.change_summary(lambda found: found["federation"].update({name: value}))
    assert name in what_differs(made_run, roster=True)


def test_a_site_of_the_roster_that_the_folder_leaves_out_is_named(made_run: MadeRun) -> None:
    """Whoever writes the folder can drop a client with all that it has said."""

    def without_south(table: dict[str, Any]) -> None:
        table["clients"].pop("south")

    made_run.change_both(without_south)
    made_run.write_statements([one for one in made_run.statements() if '"client":"south"' not in one["text"]])
    findings = made_run.check(roster=True)["statements"].findings
    assert any("anything of 1 site of the roster: south" in one.what for one in findings)


def test_a_site_that_has_spent_nothing_states_more_than_the_summary(made_run: MadeRun) -> None:
    """Of no step at all every one is proven; the summary speaks of the run's."""

    def proven(one: Statement) -> Statement:
        return replace(one, accounts=tuple(replace(each, arithmetic="proven") for each in one.accounts))

    said_again(made_run, proven)
    assert "arithmetic" not in what_differs(made_run)


def test_a_client_is_not_called_proven_that_has_signed_assumed(made_run: MadeRun) -> None:
    made_run.change_summary(lambda table: table["clients"]["north"].update(arithmetic="proven"))
    assert "arithmetic is proven in summary.json, and was assumed" in what_differs(made_run)
