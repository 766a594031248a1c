"""Curves and confusion on the page of a run: their numbers, their pictures, and who may read them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fl_dp.errors import ConfigError
from fl_dp.reporting.page.canvas import Figure, drawing
from fl_dp.reporting.page.facts import RunFacts
from fl_dp.reporting.page.figures import answers, over_rounds, spending
from fl_dp.reporting.page.outcomes import NOT_TOLD, Outcomes, Z, outcomes_of, share
from fl_dp.reporting.page.read import read_run
from fl_dp.reporting.page.render import render_page
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.tasks import outcomes as written

from .conftest import Make, change_summary
from .reading import Page
from .runs import TWO, answered, of_rounds


def test_the_points_of_a_curve_are_shares_of_the_counts(make: Make) -> None:
    (scores,) = read_run(answered(make())).outcomes.scores
    high, low = scores.curve()
    assert (high.least, high.own, high.others) == (0.5, share(80, 30), share(20, 120))
    assert (low.least, low.own, low.others) == (0.1, share(100, 10), share(50, 90))
    assert scores.calibration() == (share(10, 90), share(20, 30), share(80, 20))


def test_of_noised_counts_the_noise_of_every_cell_counts(make: Make) -> None:
    found = read_run(answered(make(), at_sites=True)).site_metrics
    assert found is not None
    (scores,) = outcomes_of(found.outcomes, "rounds.jsonl").scores
    high, low = scores.curve()
    assert (high.own, low.own) == (share(80, 30, 4.0, (1, 2)), share(100, 10, 4.0, (2, 1)))
    assert scores.calibration()[2] == share(80, 20, 4.0)


def drawn(folder: RunFolder, picture: Callable[[RunFacts], Figure | None] = answers) -> Figure:
    with drawing():
        found = picture(read_run(folder))
    assert found is not None
    return found


def test_of_two_classes_roc_and_calibration_are_drawn_with_intervals(make: Make) -> None:
    found = drawn(answered(make(), at_sites=True))
    assert found.title == "ROC and calibration on the server's test data"
    assert "At score 0.5: recall of <ill> 0.73 (0.64 to 0.80), false alarms 0.14 (0.09 to" in found.text
    assert str(found.svg).count(">recall<") == str(found.svg).count(">share of the class<") == 1


def test_without_the_servers_those_of_the_sites_are_drawn(make: Make) -> None:
    folder = answered(make(), at_sites=True)
    change_summary(folder, lambda said: said.pop("outcomes"))
    assert drawn(folder).title == "ROC and calibration on the sites' own test records"
    noised = {**TWO, "scores": [{**TWO["scores"][0], "deviation": 1e4}]}
    of_rounds(folder, lambda line: line["site_metrics"].update(outcomes=noised))
    assert "recall of <ill> not reported" in drawn(folder).text  # noise hides every point


def test_names_of_classes_stay_texts(make: Make) -> None:
    page = Page(render_page(answered(make())))
    assert page.open == []
    assert "<ill>" in page.text
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert len(page.all("figure")) == 3


def test_a_matrix_of_many_long_names_is_drawn(make: Make) -> None:
    counts = np.diag(np.arange(20) + 20)
    counts[3, 7] = 5
    names = [f"_a class with a long name and number {number}" for number in range(20)]
    figure = drawn(answered(make(), classes=names, confusion=counts.tolist(), scores=[]))
    assert str(figure.svg).count("_a class with") == 40  # at both axes
    assert "Least often right: _a class with a long name and number 3, 82%." in figure.text
    assert ">18<" in str(figure.svg)  # 5 of 28


def test_a_value_of_the_last_round_is_said_with_its_epsilon(make: Make) -> None:
    assert drawn(make(), over_rounds).text == "After the last round accuracy is 0.3000 and epsilon is 0.76."
    assert drawn(make("off", private=False), over_rounds).text == "After the last round accuracy is 0.3000."
    assert "Dotted: round 2" in drawn(make("best", model="best", model_round=2), over_rounds).text


@pytest.mark.parametrize("clients", [2, 30])
def test_spending_is_drawn_for_few_and_many_and_says_who_is_left_out(make: Make, clients: int) -> None:
    folder = make(clients=[f"_site {number}" for number in range(clients)])
    assert drawn(folder, spending).text == f"From 0.75 to {'0.76' if clients == 2 else '0.78'} in this run."
    change_summary(folder, lambda said: said["clients"]["_site 0"].update(epsilon=None))
    assert "Not drawn: 1 for whom no epsilon holds." in drawn(folder, spending).text


def damaged(change: Any) -> Any:
    found = {**TWO, "scores": [{**TWO["scores"][0]}]}
    change(found)
    return found


@pytest.mark.parametrize(
    "damage",
    [
        lambda found: found.pop("classes"),
        lambda found: found.update(confusion=[[1, 2], [3]]),
        lambda found: found.update(confusion=[[1, 2], [3, -4]]),
        lambda found: found.update(classes=["x"] * 65),
        lambda found: found.update(scores=7),
        lambda found: found["scores"][0].update(counts=[[1, "<b>"]] * 3),
        lambda found: found["scores"][0].update(counts=[[1, 2]] * 2),
        lambda found: found["scores"][0].update(ends=[0.0, 0.5, 0.1, 1.0]),
        lambda found: found["scores"][0].update(ends=[0.0, 0.1, 0.5, 1.5]),
        lambda found: found["scores"][0].update(places=[0.05, 0.3]),
        lambda found: found["scores"][0].update(deviation=-1.0),
        lambda found: found["scores"][0].update(deviation=True),
    ],
)
def test_damage_is_refused_by_name(make: Make, damage: Any) -> None:
    folder = change_summary(make(), lambda said: said.update(outcomes=damaged(damage)))
    with pytest.raises(ConfigError, match=r"summary\.json, its outcomes: is damaged"):
        read_run(folder)


def test_a_later_format_is_refused_by_name(make: Make) -> None:
    assert Outcomes(written.FORMAT) == outcomes_of({"format": written.FORMAT}, "")
    with pytest.raises(ConfigError, match="format: Input should be 1"):
        read_run(answered(make(), format=2))


@pytest.mark.parametrize("a", [0, 1, 19, 20])
def test_without_noise_it_is_wilsons(a: int) -> None:
    n, p = 20, a / 20
    middle = (p + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * np.sqrt(p * (1 - p) / n + Z**2 / (4 * n**2))
    found = share(a, n - a)
    expected = (p, max(0.0, middle - half), min(1.0, middle + half))
    assert (found.value, found.low, found.high) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("records", "p", "deviation", "cells"),
    [(100, 0.9, 0.0, (1, 1)), (60, 0.8, 3.0, (8, 8)), (300, 0.95, 10.0, (4, 12)), (2000, 0.1, 20.0, (9, 9))],
)
def test_it_holds_in_95_per_cent(records: int, p: float, deviation: float, cells: tuple[int, int]) -> None:
    random = np.random.default_rng(0)
    held, times = 0, 4000
    for _ in range(times):
        own = random.binomial(records, p)
        noise = deviation * np.sqrt(cells) * random.standard_normal(2)
        found = share(own + noise[0], records - own + noise[1], deviation, cells)
        held += found.low is not None and found.high is not None and found.low <= p <= found.high
    assert 0.92 < held / times < 0.965


def test_where_noise_may_be_all_there_is_nothing_is_told() -> None:
    assert share(0, 0) == NOT_TOLD
    assert share(3.0, -9.0, 1.0) == NOT_TOLD
    assert share(10.0, 10.0, 5.0, (4, 4)) == NOT_TOLD  # 20 records, and noise of 14 in their number
    found = share(-4.0, 60.0, 4.0)  # a negative count
    assert (found.value, found.low) == (0.0, 0.0)
    assert found.high == pytest.approx(0.12, abs=0.05)
