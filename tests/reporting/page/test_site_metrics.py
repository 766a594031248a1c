"""Metrics from the sites' own test records on the page of a run."""

from __future__ import annotations

from typing import Any

import pytest

from fl_dp.errors import ConfigError
from fl_dp.reporting.page.read import read_run
from fl_dp.reporting.page.render import render_page
from fl_dp.reporting.page.site_metrics import site_metric_tables

from .conftest import Make
from .runs import SUM_OF_SITES, evaluated, of_rounds


def test_the_tables_have_the_metrics_and_who_paid_for_them(make: Make) -> None:
    metrics, accounts = site_metric_tables(read_run(evaluated(make())))
    assert metrics.rows == (
        ("auroc", "0.8412", "0.7900", "0.8900"),
        ("recall", "too few records", "too few records", "too few records"),
    )
    assert accounts.rows == (
        ("north", "evaluated", "0.94", "1.00", "1e-05", "2", "5.277", "pld", ""),
        ("south", "declined", *["none"] * 6, "declares <none>"),
    )


def test_of_a_sum_the_accounts_say_both_epsilons(make: Make) -> None:
    _, accounts = site_metric_tables(read_run(evaluated(make(), secure_sum=SUM_OF_SITES)))
    assert accounts.rows == (
        ("north", "evaluated", "0.94", "1.40", "1.00", "1e-05", "2", "5.277", "pld", ""),
        ("south", "declined", *["none"] * 7, "declares <none>"),
    )


def test_words_of_sites_are_escaped(make: Make) -> None:
    page = render_page([evaluated(make())])
    assert "declares &lt;none&gt;" in page
    assert "<none>" not in page
    assert site_metric_tables(read_run(make("other"))) == ()


@pytest.mark.parametrize(
    "damage",
    [
        lambda found: found.pop("sites"),
        lambda found: found.update(metrics=[1]),
        lambda found: found["metrics"]["auroc"].update(low="<b>"),
        lambda found: found["sites"]["north"].update(charges=[{"steps": 1}]),
        lambda found: found.update(bins="eight"),
    ],
)
def test_damage_is_refused_by_name(make: Make, damage: Any) -> None:
    folder = of_rounds(evaluated(make()), lambda line: damage(line["site_metrics"]))
    with pytest.raises(ConfigError, match=r"its site_metrics are damaged"):
        read_run(folder)
