"""rounds.jsonl and summary.json agree field by field."""

from collections.abc import Callable
from typing import Any

import pytest
from verify.made_run import BUDGET, DELTA, NOISE, RATE, ROUNDS, STEPS, Json, MadeRun, epsilon

WHERE = "(rounds.jsonl, line 3"
OF_A_CLIENT = {
    "epsilon": 0.1,
    "accountant": "rdp",
    "steps": 1,
    "rounds_left": 9,
    "status": "idle",
    "reason": "x",
    "arithmetic": "proven",
    "delta": 1e-9,
    "budget": 1.0,
    "sample_rate": 0.2,
    "noise_multiplier": 9.0,
    "charges": [],
}
OF_THE_RUN = {
    "private": False,
    "epsilon": 0.1,
    "delta": 1e-9,
    "lost_rounds": 1,
    "accuracy": 0.99,
    "loss": 0.1,
}


@pytest.mark.parametrize("name", OF_A_CLIENT)
def test_every_field_of_a_client_is_compared(name: str, made_run: MadeRun) -> None:
    made_run.change_client(**{name: OF_A_CLIENT[name]})
    assert f"{name} differs in summary.json {WHERE}, client north)" in made_run.words("files")


@pytest.mark.parametrize("name", OF_THE_RUN)
def test_every_field_of_the_run_is_compared(name: str, made_run: MadeRun) -> None:
    made_run.change_summary(lambda summary: summary.update({name: OF_THE_RUN[name]}))
    assert f"{name} differs in summary.json {WHERE})" in made_run.words("files")


def test_of_a_model_of_an_earlier_round_the_accuracy_is_another(made_run: MadeRun) -> None:
    made_run.change_summary(lambda summary: summary.update(model="best", model_round=2, accuracy=0.99))
    assert made_run.words("files") == ""


def test_rounds_that_were_taken_out_as_a_whole(made_run: MadeRun) -> None:
    made_run.files.rounds.write_text("")
    assert "3 rounds in the summary, and none in rounds.jsonl" in made_run.words("files")


MOST = ROUNDS * STEPS + STEPS // 2  # the budget ends there


@pytest.fixture
def four(made_run: MadeRun) -> MadeRun:
    """Of four rounds that were planned, one was not run: it may have been begun."""

    def plan(summary: Json) -> None:
        summary["federation"].update(rounds_ahead=1)
        summary.update(status="failed", planned_epsilon=BUDGET)
        for client in summary["clients"].values():
            client["planned_epsilon"] = BUDGET

    made_run.change_rounds(lambda line: line["federation"].update(rounds_ahead=ROUNDS + 1 - line["round"]))
    made_run.change_summary(plan)
    return made_run


def ended_within_a_round(summary: Json) -> None:
    """As the server writes it: a fourth round of four was begun, and has no line."""
    summary.update(status="failed", reason="interrupted", epsilon=epsilon(MOST))
    summary["federation"].update(largest=epsilon(MOST), median=(epsilon(MOST) + epsilon(40)) / 2)
    summary["clients"]["north"].update(
        charges=[{"sample_rate": RATE, "noise_multiplier": NOISE, "steps": MOST}],
        steps=MOST,
        epsilon=epsilon(MOST),
        status="failed",
        reason="the run ended before it answered",
    )


@pytest.fixture
def begun(four: MadeRun) -> MadeRun:
    four.change_summary(ended_within_a_round)
    return four


def test_of_a_run_that_ended_within_a_round_the_summary_knows_more(begun: MadeRun) -> None:
    assert epsilon(MOST) < BUDGET
    begun.draw()
    assert list(begun.differs()) in ([], ["statements"])  # those were made before
    assert "client north has other charges than in the last line" in [
        one.what for one in begun.check()["files"].findings
    ]


def test_it_may_have_been_accepted_before_the_run_ended(begun: MadeRun) -> None:
    begun.change_client(rounds=ROUNDS + 1)
    assert "files" not in begun.differs()
    begun.change_client(rounds=ROUNDS + 2)
    assert f"{ROUNDS + 2} rounds trained" in begun.words("files")
    begun.change_client(rounds=ROUNDS + 1)
    begun.change_summary(lambda summary: summary.update(status="completed"))
    assert f"{ROUNDS + 1} rounds trained" in begun.words("files")


def of_north(**fields: Any) -> Callable[[Json], None]:
    return lambda summary: summary["clients"]["north"].update(fields)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda summary: summary["clients"].pop("south"), "client south is missing"),
        # with the same charges the numbers are the same
        (of_north(epsilon=1), "epsilon differs in summary.json"),
        (of_north(delta=1), "delta differs in summary.json"),
        (of_north(steps=1), "steps differs in summary.json"),
        *(
            (
                lambda summary, fields=fields: summary["federation"].update(fields),
                f"{next(iter(fields))} differs in summary.json {WHERE})",
            )
            for fields in ({"rounds_ahead": 0}, {"unit": "person"})
        ),
        (
            lambda summary: summary.update(federation=None, epsilon=0.1),
            f"rounds_ahead differs in summary.json {WHERE})",
        ),
    ],
)
def test_what_stays_however_a_run_ended(change: Callable[[Json], None], words: str, four: MadeRun) -> None:
    four.change_summary(change)
    assert words in four.words("files")


def test_nothing_is_given_back_by_ending_early(four: MadeRun) -> None:
    charges = [{"sample_rate": RATE, "noise_multiplier": NOISE, "steps": STEPS}]
    four.change_client(charges=charges, steps=STEPS, epsilon=epsilon(STEPS), delta=DELTA)
    assert "the charges lack 40 steps" in four.words("files")


def test_where_no_round_was_left_none_can_have_been_begun(made_run: MadeRun) -> None:
    made_run.change_summary(ended_within_a_round)
    assert f"epsilon differs in summary.json {WHERE}, client north)" in made_run.words("files")


@pytest.mark.parametrize("name", ["delta", "budget", "accountant", "sample_rate", "noise_multiplier"])
def test_with_other_charges_its_settings_are_the_same(name: str, begun: MadeRun) -> None:
    """By a larger delta, beside a step that was added, an epsilon was lowered and nothing differed."""
    assert begun.words("files") == ""
    begun.change_client(**{name: "rdp" if name == "accountant" else 0.05})
    assert f"{name} differs in summary.json {WHERE}, client north)" in begun.words("files")


def test_who_takes_no_part_any_more_has_no_rate(begun: MadeRun) -> None:
    begun.change_client(sample_rate=None, noise_multiplier=None)
    assert begun.words("files") == ""


@pytest.mark.parametrize("name", ["charges", "delta"])
def test_what_an_epsilon_is_computed_from_is_not_taken_out(name: str, begun: MadeRun) -> None:
    begun.change_summary(lambda summary: summary["clients"]["north"].pop(name))
    assert f"summary.json: is damaged: clients.north.{name}: is missing" in begun.words("files")


def test_steps_without_noise_have_no_epsilon(made_run: MadeRun) -> None:
    without = [{"sample_rate": RATE, "noise_multiplier": 0.0, "steps": ROUNDS * STEPS}]
    made_run.change_client(charges=without)
    assert "its charges protect nothing" in made_run.words("epsilons")


def test_one_round_that_is_not_private_is_found(made_run: MadeRun) -> None:
    made_run.change_rounds(lambda line: line.update(private=line["round"] != 2))
    words = made_run.words("files")
    assert "of a run without privacy (rounds.jsonl, line 2)" in words
    assert "(rounds.jsonl, line 2, client north)" in words  # it trained: its own epsilon does not hold
