"""rounds.jsonl and summary.json agree field by field."""

from typing import Any

import pytest
from verify.made_run import BUDGET, DELTA, NOISE, RATE, ROUNDS, STEPS, MadeRun, epsilon


def what_differs(run: MadeRun) -> str:
    return " | ".join(f"{one.what} ({one.where})" for one in run.differs().get("rounds", []))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", 0.1), ("accountant", "rdp"), ("steps", 1), ("rounds_left", 9), ("status", "idle"),
        ("reason", "x"), ("arithmetic", "proven"), ("delta", 1e-9), ("budget", 1.0), ("sample_rate", 0.2),
        ("noise_multiplier", 9.0), ("charges", []),
    ],
)  # fmt: skip
def test_every_field_of_a_client_is_compared(name: str, value: Any, made_run: MadeRun) -> None:
    made_run.change_summary(lambda summary: summary["clients"]["north"].update({name: value}))
    assert f"{name} is another one in summary.json (rounds.jsonl, line 3, client north)" in what_differs(
        made_run
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("private", False),
        ("epsilon", 0.1),
        ("delta", 1e-9),
        ("lost_rounds", 1),
        ("accuracy", 0.99),
        ("loss", 0.1),
    ],
)
def test_every_field_of_the_run_is_compared(name: str, value: Any, made_run: MadeRun) -> None:
    made_run.change_summary(lambda summary: summary.update({name: value}))
    assert f"{name} is another one in summary.json (rounds.jsonl, line 3)" in what_differs(made_run)


def test_of_a_model_of_an_earlier_round_the_accuracy_is_another(made_run: MadeRun) -> None:
    made_run.change_summary(lambda summary: summary.update(model="best", model_round=2, accuracy=0.99))
    assert what_differs(made_run) == ""


def test_rounds_that_were_taken_out_as_a_whole(made_run: MadeRun) -> None:
    made_run.files.rounds.write_text("")
    assert "3 rounds in the summary, and none in rounds.jsonl" in what_differs(made_run)


MOST = ROUNDS * STEPS + STEPS // 2  # the budget ends there


@pytest.fixture
def four(made_run: MadeRun) -> MadeRun:
    """Of four rounds that were planned, one was not run: it may have been begun."""
    for file in (made_run.files.config, made_run.files.resolved):
        file.write_text(file.read_text().replace(f"\nrounds = {ROUNDS}\n", f"\nrounds = {ROUNDS + 1}\n"))

    def plan(summary: dict[str, Any]) -> None:
        summary.update(status="failed", planned_epsilon=BUDGET)
        for client in summary["clients"].values():
            client["planned_epsilon"] = BUDGET

    made_run.change_rounds(lambda line: line["federation"].update(rounds_ahead=ROUNDS + 1 - line["round"]))
    made_run.change_summary(lambda summary: summary["federation"].update(rounds_ahead=1) or plan(summary))
    made_run.digests_anew()
    return made_run


def ended_within_a_round(summary: dict[str, Any]) -> None:
    """As the server writes it: a fourth round of four was begun, and has no line."""
    summary.update(status="failed", reason="interrupted", epsilon=epsilon(MOST))
    summary["federation"].update(largest=epsilon(MOST), median=(epsilon(MOST) + epsilon(40)) / 2)
    summary["clients"]["north"].update(
        charges=[{"sample_rate": RATE, "noise_multiplier": NOISE, "steps": MOST}],
        steps=MOST, epsilon=epsilon(MOST),
        status="failed", reason="the run was ended before it had answered",
    )  # fmt: skip


def test_of_a_run_that_ended_within_a_round_the_summary_knows_more(four: MadeRun) -> None:
    assert epsilon(MOST) < BUDGET
    four.change_summary(ended_within_a_round)
    four.draw()
    found = four.differs()
    assert list(found) in ([], ["statements"])  # those were made before
    findings = four.check()["rounds"].findings
    assert "client north has other charges than in the last line" in [one.what for one in findings]


def test_it_may_have_been_accepted_before_the_run_ended(four: MadeRun) -> None:
    four.change_summary(ended_within_a_round)
    four.change_summary(lambda summary: summary["clients"]["north"].update(rounds=ROUNDS + 1))
    assert "charges" not in four.differs()
    four.change_summary(lambda summary: summary["clients"]["north"].update(rounds=ROUNDS + 2))
    assert "charges" in four.differs()
    four.change_summary(
        lambda summary: (
            summary["clients"]["north"].update(rounds=ROUNDS + 1) or summary.update(status="completed")
        )
    )
    assert "charges" in four.differs()


def test_no_client_is_taken_out_of_a_run_that_ended_early(four: MadeRun) -> None:
    four.change_summary(lambda summary: summary.update(status="failed") or summary["clients"].pop("south"))
    assert "client south is missing" in what_differs(four)


@pytest.mark.parametrize("name", ["epsilon", "delta", "steps"])
def test_with_the_same_charges_its_numbers_are_the_same(name: str, four: MadeRun) -> None:
    four.change_summary(
        lambda summary: summary.update(status="failed") or summary["clients"]["north"].update({name: 1})
    )
    assert f"{name} is another one in summary.json" in what_differs(four)


def test_nothing_is_given_back_by_ending_early(four: MadeRun) -> None:
    four.change_summary(
        lambda summary: summary.update(status="failed")
        or summary["clients"]["north"].update(
            charges=[{"sample_rate": RATE, "noise_multiplier": NOISE, "steps": STEPS}], steps=STEPS,
            epsilon=epsilon(STEPS), delta=DELTA,
        )
    )  # fmt: skip
    assert "charges" in four.differs()


def test_where_no_round_was_left_none_can_have_been_begun(made_run: MadeRun) -> None:
    made_run.change_summary(ended_within_a_round)
    assert "epsilon is another one in summary.json (rounds.jsonl, line 3, client north)" in what_differs(
        made_run
    )


@pytest.mark.parametrize("status", ["stopped", "", None, ["failed"]])
def test_a_status_that_no_run_has_loosens_nothing(status: Any, four: MadeRun) -> None:
    four.change_summary(ended_within_a_round)
    four.change_summary(lambda summary: summary.update(status=status))
    words = what_differs(four)
    assert "status " in words
    assert "epsilon is another one in summary.json (rounds.jsonl, line 3, client north)" in words


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("delta", 0.05),
        ("budget", 99.0),
        ("accountant", "rdp"),
        ("sample_rate", 0.01),
        ("noise_multiplier", 9.0),
    ],
)
def test_with_other_charges_its_settings_are_the_same(name: str, value: Any, four: MadeRun) -> None:
    """By a larger delta, beside a step that was added, an epsilon was lowered and nothing differed."""
    four.change_summary(ended_within_a_round)
    assert what_differs(four) == ""
    four.change_summary(lambda summary: summary["clients"]["north"].update({name: value}))
    assert f"{name} is another one in summary.json (rounds.jsonl, line 3, client north)" in what_differs(four)


def test_who_takes_no_part_any_more_has_no_rate(four: MadeRun) -> None:
    four.change_summary(ended_within_a_round)
    four.change_summary(
        lambda summary: summary["clients"]["north"].update(sample_rate=None, noise_multiplier=None)
    )
    assert what_differs(four) == ""


@pytest.mark.parametrize(
    ("name", "value"), [("clients_per_person", 2), ("rounds_ahead", 0), ("unit", "person")]
)
def test_what_was_planned_stays_however_the_run_ended(name: str, value: Any, four: MadeRun) -> None:
    """A person at two clients was said to be at one: half the epsilon."""
    four.change_summary(lambda summary: summary["federation"].update({name: value}))
    assert f"{name} is another one in summary.json (rounds.jsonl, line 3)" in what_differs(four)


@pytest.mark.parametrize("name", ["charges", "delta"])
def test_what_an_epsilon_is_computed_from_is_not_taken_out(name: str, four: MadeRun) -> None:
    four.change_summary(ended_within_a_round)
    four.change_summary(lambda summary: summary["clients"]["north"].pop(name))
    assert f"{name} of it is not in summary.json (rounds.jsonl, line 3, client north)" in what_differs(four)


def test_nor_what_the_federations_epsilon_is_made_of(four: MadeRun) -> None:
    four.change_summary(lambda summary: summary.update(federation=None, epsilon=0.1))
    assert "federation is not in summary.json (rounds.jsonl, line 3)" in what_differs(four)
