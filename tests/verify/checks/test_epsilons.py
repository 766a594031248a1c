"""Epsilons against their charges, in both directions, and what they add up to."""

import json
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from run_records import client
from verify.made_run import BUDGET, STEPS, Json, MadeRun, add_up, epsilon

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.records import Entry
from fl_dp.verify.check import Found, Outcome
from fl_dp.verify.checks.epsilons import _check_plan_ahead, _Recomputed


def test_one_lowered_epsilon_is_found_and_named(made_run: MadeRun) -> None:
    def lower(line: Json) -> None:
        if line["round"] == 2:
            line["clients"]["south"]["epsilon"] *= 0.9
            line["federation"]["least"] *= 0.9
            line["federation"]["median"] = sum(one["epsilon"] for one in line["clients"].values()) / 2

    made_run.change_rounds(lower)
    words = made_run.words("epsilons")
    assert "rounds.jsonl, line 2, client south" in words
    assert f"cost {epsilon(STEPS):.2f}" in words
    assert words.count("|") == 0


def test_a_raised_epsilon_is_found_for_pld_and_a_note_for_rdp(made_run: MadeRun) -> None:
    """Charges may have been left out; of a looser accountant nothing can be said."""
    made_run.change_client("south", epsilon=epsilon(2 * STEPS) + 0.3)
    assert "and its charges cost" in made_run.words("epsilons")
    made_run.change_client("south", accountant="rdp")
    assert "and its charges cost" not in made_run.words("epsilons")
    assert [one.split(" are")[0] for one in made_run.notes("epsilons")] == ["epsilons by rdp"]


def test_rdps_own_epsilons_are_fine(made_run: MadeRun) -> None:
    def by_rdp(line: Json) -> None:
        for one in line["clients"].values():
            one["accountant"] = "rdp"
            one["epsilon"] = compute_epsilon([Entry(**entry) for entry in one["charges"]], 1e-5, "rdp")
            if "planned_epsilon" in one:
                one["planned_epsilon"] = one["epsilon"]
        add_up(line)

    made_run.change_both(by_rdp)
    assert made_run.words("epsilons") == ""


@pytest.mark.parametrize("name", ["epsilon", "delta", "largest", "median", "least"])
def test_the_federations_epsilon_is_that_of_its_clients(name: str, made_run: MadeRun) -> None:
    def lower(summary: Json) -> None:
        (summary if name in summary else summary["federation"])[name] *= 0.9

    made_run.change_summary(lower)
    assert f"the federation's {name} " in made_run.words("epsilons")


def had_spent(line: Json, steps: int = 2 * STEPS) -> None:
    """North claims to have spent so much before, and the federation's figures stay as they were."""
    north = line["clients"]["north"]
    own = {key: north[key] for key in ("charges", "epsilon", "planned_epsilon") if key in north}
    entry = own["charges"][0]
    total = entry["steps"] + steps
    north |= {
        "charges": [entry | {"steps": total}],
        "steps": total,
        "epsilon": epsilon(total),
        "this_run": own,
    }
    north["budget"] = 9.0
    if "planned_epsilon" in north:
        own["claimed_epsilon"] = epsilon(steps)
        north |= {"before": [entry | {"steps": steps}], "planned_epsilon": epsilon(total)}


def test_what_was_spent_before_is_in_no_figure_of_the_federation(made_run: MadeRun) -> None:
    """And whoever counts it there, or lowers what it has cost or is claimed, is found."""
    made_run.change_both(had_spent)
    for check in ("epsilons", "files"):
        assert made_run.words(check) == ""
    made_run.change_summary(lambda one: one["clients"]["north"]["this_run"].update(claimed_epsilon=0.1))
    assert "and its charges cost" in made_run.words("epsilons")
    made_run.change_client(this_run={**of_north(made_run), "claimed_epsilon": epsilon(2 * STEPS)})
    assert made_run.words("epsilons") == ""
    made_run.change_client(this_run={**of_north(made_run), "epsilon": 0.5})
    assert "epsilon 0.5000, and its charges cost" in made_run.words("epsilons")
    assert "this run's epsilon differs" in made_run.words("files")
    assert "the federation's epsilon is" in made_run.words("epsilons")


def test_the_plan_of_this_run_alone_costs_what_it_has_and_no_more_than_with_all_before(
    made_run: MadeRun,
) -> None:
    """Here nothing is left of the plan; another one would lower, or raise, the federation's figure."""
    made_run.change_both(had_spent)
    own = of_north(made_run)
    for planned, found in ((0.99 * own["epsilon"], True), (own["epsilon"], False), (9.0, True)):
        made_run.change_client(this_run={**own, "planned_epsilon": planned})
        assert ("of this run, which has cost" in made_run.words("epsilons")) == found


def of_north(made_run: MadeRun) -> Json:
    found: Json = json.loads(made_run.files.summary.read_text())["clients"]["north"]["this_run"]
    return found


def test_the_plan_costs_what_its_rounds_cost(made_run: MadeRun) -> None:
    """Somebody who stops a run on its results has learnt no less than the whole plan."""

    def planned(value: float | None, ahead: int) -> None:
        def change(summary: Json) -> None:
            summary["federation"]["rounds_ahead"] = ahead
            one = summary["clients"]["north"]
            one["planned_epsilon"] = one["epsilon"] if value is None else value
            summary["planned_epsilon"] = max(
                client["planned_epsilon"] for client in summary["clients"].values()
            )

        made_run.change_summary(change)

    planned(None, 2)
    assert "of the steps ahead cost" in made_run.words("epsilons")
    planned(epsilon(3 * STEPS + 5), 2)
    assert made_run.words("epsilons").count("north") == 0
    planned(0.5, 0)
    assert "planned epsilon 0.5" in made_run.words("epsilons")
    planned(BUDGET + 1, 2)
    assert "of a budget of" in made_run.words("epsilons")


def test_a_delta_below_its_rounding_is_not_answered(made_run: MadeRun) -> None:
    made_run.change_client(delta=1e-15)
    given = [one for one in made_run.check()["epsilons"].findings if one.outcome is Outcome.NOT_GIVEN]
    assert "dp_accounting at delta 1e-15" in given[0].what


def no_plan_of_clients(summary: Json) -> None:
    for one in summary["clients"].values():
        one["planned_epsilon"] = None
    summary["planned_epsilon"] = 0.01


def more_than_was_left(summary: Json) -> None:
    summary["clients"]["north"]["planned_epsilon"] += 0.01
    summary["planned_epsilon"] += 0.01


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda summary: summary["clients"]["north"].update(delta=0.0), "delta 0"),
        (lambda summary: summary["clients"]["north"].update(epsilon=0.10001), "epsilon 0.1001, and its"),
        (lambda summary: summary.update(delta=None), "delta is given as infinite"),
        (no_plan_of_clients, "by its clients' it is infinite"),
        (more_than_was_left, "no more if nothing was left"),
    ],
)
def test_what_cannot_be_is_said(change: Callable[[Json], None], words: str, made_run: MadeRun) -> None:
    made_run.change_summary(change)
    assert any(words in one.what + one.means for one in made_run.differs()["epsilons"])


PAID = (Entry(0.1, 6.0, 20),)
CLIENT = client(0.5, budget=100.0, noise_multiplier=6.0, charges=PAID)


def test_a_whole_plan_that_its_budget_allows_costs_all_of_its_steps() -> None:
    """Not only one of them, which is what is asked where the budget ends within the plan."""
    claimed = {}
    for steps in (21, 60):
        found = Found()
        claimed[steps] = compute_epsilon([Entry(0.1, 6.0, steps)], 1e-5)
        _check_plan_ahead(CLIENT, "", 2, 20, claimed[steps], found, math.inf)
        claimed[steps] = [one.what.split(" cost")[0] for one in found.kept]
    assert claimed[21][0].endswith("and 40 of the steps ahead")
    assert claimed[60] == []


def test_no_step_ahead_costs_where_the_run_may_cost_no_more() -> None:
    """Though the client's budget has room."""
    found, spent = Found(), compute_epsilon(PAID, 1e-5)
    _check_plan_ahead(CLIENT, "", 2, 20, spent, found, run_epsilon=spent)
    assert not found.any_differ
    _check_plan_ahead(CLIENT, "", 2, 20, spent, found, run_epsilon=2 * spent)
    assert found.any_differ


def test_steps_of_sums_need_both_epsilons() -> None:
    shared = replace(CLIENT, charges=(Entry(0.1, 6.0, 3, 2),))
    for more, differs in (({}, True), ({"epsilon_alone": 9.0}, False)):
        found = Found()
        _Recomputed(found).add(replace(shared, **more), "")
        assert found.any_differ == differs
