"""Curves and confusion on the page of a run: their numbers, their pictures, and who may read them."""

from typing import Any

import numpy as np
import pytest

from fl_dp.errors import ConfigError
from fl_dp.records import LEAST_CELL
from fl_dp.reporting.page.figures.canvas import drawing
from fl_dp.reporting.page.figures.of_outcomes import outcome_figures
from fl_dp.reporting.page.intervals import share
from fl_dp.reporting.page.outcomes import FORMAT, calibration, confusion, curve
from fl_dp.reporting.page.read import read_run
from fl_dp.reporting.page.render import render_page
from fl_dp.tasks import outcomes as written

from .conftest import Make, change_summary
from .reading import Page
from .runs import TWO, answered, evaluated, of_rounds


def test_the_points_of_a_curve_are_shares_of_the_counts(make: Make) -> None:
    (scores,) = read_run(answered(make())).outcomes.scores
    high, low = curve(scores)
    assert (high.least, high.own, high.others) == (0.5, share(80, 30), share(20, 120))
    assert (low.least, low.own, low.others) == (0.1, share(100, 10), share(50, 90))
    assert calibration(scores) == (share(10, 90), share(20, 30), share(80, 20))
    assert confusion(read_run(answered(make("b"))).outcomes) == (
        ((120, share(120, 20)), (20, share(20, 120))),
        ((30, share(30, 80)), (80, share(80, 30))),
    )


def test_of_noised_counts_the_noise_of_every_cell_counts(make: Make) -> None:
    found = read_run(answered(make(), at_sites=True)).site_metrics
    assert found is not None
    (scores,) = found.outcomes.scores
    high, low = curve(scores)
    assert (high.own, low.own) == (share(80, 30, 4.0, (1, 2)), share(100, 10, 4.0, (2, 1)))
    assert calibration(scores)[2] == share(80, 20, 4.0)
    assert confusion(found.outcomes)[1] == (
        (30, share(30, 80, 4.0, (2, 1))), (80, share(80, 30, 4.0, (1, 2))),
    )  # fmt: skip


def test_each_picture_has_a_text_and_a_table_with_its_numbers(make: Make) -> None:
    run = read_run(answered(make(), at_sites=True))
    with drawing():
        found = {one.key: one for one in outcome_figures(run)}
    kinds = ("roc", "calibration", "confusion")
    assert list(found) == [f"f-{kind}-{where}" for where in ("server", "sites") for kind in kinds]
    tables = {one.table.key: one.table for one in found.values() if one.table is not None}
    assert [f"f-{key}" for key in tables] == list(found)
    for one in found.values():
        assert one.text in str(one.svg).replace("&lt;", "<").replace("&gt;", ">").replace("&#39;", "'")
    assert (
        "recall of <ill> is 0.73 (0.64 to 0.80), of false alarms there are 0.14 (0.09 to"
        in found["f-roc-server"].text
    )
    assert "for sampling." in found["f-roc-server"].text
    assert "for noise and sampling." in found["f-calibration-sites"].text
    assert "Right were 86 % of well, 73 % of <ill>." in found["f-confusion-server"].text
    shares = (share(80, 30), share(20, 120))
    ends = [f"{number:.4f}" for one in shares for number in (one.value, one.low, one.high)]
    assert tables["roc-server"].rows[0] == ("<ill>", "0.500", *ends)
    assert tables["confusion-server"].columns == (
        "class",
        "as well",
        "as <ill>",
        "right",
        "right from",
        "right to",
    )
    assert [row[:4] for row in tables["confusion-server"].rows] == [
        ("well", "120", "20", "0.8571"), ("<ill>", "30", "80", "0.7273"),
    ]  # fmt: skip
    assert tables["calibration-server"].rows[0][:5] == ("<ill>", "0.000", "0.100", "0.050", "100")


def test_a_curve_whose_points_noise_hides_is_no_line(make: Make) -> None:
    """A line from corner to corner would say that the model guesses."""
    folder = answered(make(), at_sites=True)
    noised = {**TWO, "scores": [{**TWO["scores"][0], "deviation": 1e4}]}
    of_rounds(folder, lambda line: line["site_metrics"].update(outcomes=noised))
    with drawing():
        found = {one.key: one for one in outcome_figures(read_run(folder))}
    assert "Noise hides every point." in found["f-roc-sites"].text
    assert "Noise hides" not in found["f-roc-server"].text


def test_names_of_classes_stay_texts_and_the_first_screen_stays(make: Make) -> None:
    plain, drawn = (render_page(one) for one in (make("a"), answered(make("b"))))
    page = Page(drawn)
    assert page.open == []
    assert "<ill>" in page.text
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert len(page.all("figure")) == len(Page(plain).all("figure")) + 3
    first, same = (html.partition('class="glance"')[2].partition("</section>")[0] for html in (plain, drawn))
    assert first == same != ""


def test_a_matrix_of_many_long_names_is_drawn(make: Make) -> None:
    counts = np.diag(np.arange(20) + 20)
    counts[3, 7] = 5
    names = [f"_a class with a long name and number {number}" for number in range(20)]
    run = read_run(answered(make(), classes=names, confusion=counts.tolist(), scores=[]))
    with drawing():
        (figure,) = outcome_figures(run)
    assert figure.table is not None
    assert len(figure.table.rows) == 20
    assert str(figure.svg).count("_a class with") == 42  # at both axes, and two in the text
    assert "Right were 82 % of _a class with a long name and number 3, the least, to 100 % of" in figure.text
    assert ">18<" in str(figure.svg)  # 5 of 28


def test_subgroups_are_drawn_where_they_are_told(make: Make) -> None:
    metrics = {
        "accuracy": 0.9,
        "accuracy-per-subgroup[sex = women]": 0.8,
        "accuracy-per-subgroup[sex = men]": None,
    }
    folder = evaluated(make(metrics=metrics, suppressed_below=LEAST_CELL))
    own = {
        "auroc[sex = women]": {"value": 0.7, "low": 0.6, "high": 0.75},
        "auroc[2]": {"value": 0.1, "low": 0, "high": 1},
    }
    of_rounds(folder, lambda line: line["site_metrics"]["metrics"].update(own))
    with drawing():
        server, sites = outcome_figures(read_run(folder))
    assert "The least of each: accuracy: 0.80 (sex = women)." in server.text
    assert "The least of each: auroc: 0.70 (sex = women)." in sites.text
    assert "0.10" not in sites.text


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
    with pytest.raises(ConfigError, match=r"summary\.json: its outcomes are damaged"):
        read_run(folder)


def test_a_later_format_is_refused_by_name(make: Make) -> None:
    assert written.FORMAT == FORMAT
    with pytest.raises(ConfigError, match="outcomes have the format 2, and this fl_dp reads 1"):
        read_run(answered(make(), format=2))
