"""What a run itself has spent, beside what its data had spent before."""

import dataclasses
import math

import pytest

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.records import Entry
from fl_dp.reporting.page.client_facts import own_charges
from fl_dp.reporting.page.figures.canvas import drawing
from fl_dp.reporting.page.figures.of_one import attendance, budget, quality
from fl_dp.reporting.page.numbers import plain
from fl_dp.reporting.page.overview import verdict
from fl_dp.reporting.page.read import read_run
from fl_dp.reporting.page.tables import clients, mechanisms, ranked
from fl_dp.reporting.page.words import headline
from fl_dp.reporting.reports import THIS_RUN

from .conftest import Make, change_summary
from .runs import RUNS, of_clients, served


def test_own_charges_are_all_but_those_before(make: Make) -> None:
    before = [Entry(0.1, 1.5, 30), Entry(0.2, 2.0, 5)]
    client = read_run(make(before=before, rounds=3)).clients[0]
    assert client.charges == (Entry(0.1, 1.5, 9), *before)
    assert own_charges(client.charges, client.before) == (Entry(0.1, 1.5, 9),)
    assert client.own_epsilon == pytest.approx(compute_epsilon([Entry(0.1, 1.5, 9)], 1e-5, "pld"))
    assert client.own_epsilon < compute_epsilon(client.charges, 1e-5, "pld")


def test_an_account_that_lost_what_it_held_has_no_epsilon_of_its_own(make: Make) -> None:
    client = read_run(make(before=[Entry(0.1, 1.5, 30)])).clients[0]
    lost = dataclasses.replace(client, charges=(Entry(0.1, 1.5, 29),))
    assert own_charges(lost.charges, lost.before) is None


def test_without_anything_before_it_is_the_whole_epsilon(make: Make) -> None:
    assert all(one.own_epsilon == one.epsilon for one in read_run(make()).clients)
    assert all(one.own_epsilon is None for one in read_run(make("killed", over=False)).clients)


IN_ALL = "steps in all: those of this run, and those of others as its ledger shows"


def test_steps_of_this_run_and_of_all_runs_are_told_apart(make: Make) -> None:
    def steps(**made: object) -> tuple[str, str]:
        folder = make(str(len(made)), **made)
        table = mechanisms(read_run(of_clients(folder, steps=39) if folder.summary.exists() else folder))
        names = ("steps of this run", IN_ALL)
        this_run, in_all = (table.rows[0][table.columns.index(name)] for name in names)
        return this_run, in_all

    assert steps(rounds=3, before=[Entry(0.1, 1.5, 30)]) == ("9", "39")
    assert steps(over=False) == ("not known", "9")
    many = read_run(make("many", clients=[str(number) for number in range(30)]))
    assert IN_ALL in ranked(many)[1].columns


def test_noise_that_falls_is_shown_by_both_ends(make: Make) -> None:
    listed = [Entry(0.1, noise, 3).to_dict() for noise in (2.0, 1.5, 1.0)]
    rows = mechanisms(read_run(of_clients(make(), charges=listed))).rows
    assert [row[1] for row in rows] == ["2 to 1", "2 to 1"]


def test_a_value_of_one_round_is_said_once(make: Make) -> None:
    for rounds, words in ((1, "0.1000 after round 1."), (3, "0.1000 after round 1, 0.3000 after round 3.")):
        with drawing():
            figure = quality(read_run(make(str(rounds), rounds=rounds)))[0]
        assert figure.text == f"accuracy on the server's test data: {words}"


def test_within_sentences_a_small_delta_has_no_power_of_ten() -> None:
    found = [plain(one) for one in (1e-5, 2.5e-7, 0.0, 1e-12, 3, None)]
    assert found == ["0.00001", "0.00000025", "0", "1e-12", "3", "not known"]


def test_a_size_that_is_not_known_is_no_zero(make: Make) -> None:
    run = read_run(of_clients(make(clients=[str(number) for number in range(30)]), public_size=0))
    assert {row[4] for row in ranked(run)[1].rows} == {"not known"}


def test_where_no_client_was_asked_their_budgets_are_known_all_the_same(make: Make) -> None:
    """Of this run nobody has a cost: "infinite at most" was said of its budgets."""
    nothing = {"charges": [], "epsilon": 0.0, "claimed_epsilon": 0.75}
    folder = of_clients(make(federation={"scope": THIS_RUN}, reason="not today"), this_run=nothing)
    limit = "the limit set by whoever started this launch for one record: epsilon 3.00 at delta 0.00001."
    assert limit in verdict(read_run(folder))
    site = "its own site's limit for one record: epsilon 3.00 at delta 0.00001."
    assert site in verdict(read_run(served(folder)))


@pytest.mark.parametrize(
    ("kind", "claimed"),
    [
        ("of this run", "0.00"),  # its ledger shows this run alone
        ("of this run, and others", "0.25"),
        ("of this run, served", "0.00"),
        ("of this run, silent", "not known"),
        ("of this run, one own ledger", "not known"),
        ("plain", "not known"),
    ],
)
def test_what_other_runs_have_spent_is_known_only_where_a_ledger_knows_of_them(
    make: Make, kind: str, claimed: str
) -> None:
    table = clients(read_run(RUNS[kind](make)))
    assert table.rows[0][table.columns.index("other runs, as claimed")] == claimed


def test_what_a_trainer_claims_stands_beside_the_epsilon_at_the_top(make: Make) -> None:
    run = read_run(RUNS["of this run, and others"](make))
    assert "Together with what the ledgers show of other runs: up to 0.76 (budget 3.00)." in headline(run)
    none = dataclasses.replace(run.clients[0], epsilon=math.inf)
    assert ": no epsilon holds." in headline(dataclasses.replace(run, clients=(none, *run.clients[1:])))
    absent = dataclasses.replace(none, own_charges=())  # who never trained changes nothing
    assert headline(dataclasses.replace(run, clients=(*run.clients, absent))) == headline(run)


@pytest.mark.parametrize(("kind", "said"), [("of this run, interrupted", True), ("of this run", False)])
def test_who_trained_in_a_round_that_was_not_finished_is_not_known(make: Make, kind: str, said: bool) -> None:
    with drawing():
        figure = attendance(read_run(RUNS[kind](make)))
    assert figure
    assert ("A round that was begun and not finished is not counted." in figure.text) is said


def test_the_picture_ends_where_the_headline_does_with_a_round_that_was_begun(make: Make) -> None:
    def text(name: str, epsilon: float, **made: object) -> str:
        folder = make(name, federation={"scope": THIS_RUN}, **made)
        change_summary(folder, lambda said: said.update(epsilon=epsilon))
        with drawing():
            figure = budget(read_run(folder))
        assert figure
        return figure.text

    begun = " Including a round that was begun and not finished, it is 0.95."
    assert f"After the last round the federation's epsilon is 0.76.{begun}" in text(
        "a", 0.95, status="failed"
    )
    assert begun not in text("b", 0.95)
    assert "was begun" not in text("c", 0.751, status="failed")
