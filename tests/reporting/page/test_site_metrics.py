"""Metrics from the sites' own test records on the page of a run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fl_dp.errors import ConfigError
from fl_dp.reporting.page.read import read_run
from fl_dp.reporting.page.render import render_page
from fl_dp.reporting.page.site_metrics import site_metric_tables

from .conftest import Make
from .runs import change_summary, evaluated, of_rounds


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


def test_of_shares_of_sums_the_accounts_say_both_epsilons(make: Make) -> None:
    _, accounts = site_metric_tables(read_run(evaluated(make(), in_sums=True)))
    assert accounts.rows == (
        ("north", "evaluated", "0.94", "1.40", "1.00", "1e-05", "2", "5.277", "pld", ""),
        ("south", "declined", *["none"] * 7, "declares <none>"),
    )


def test_what_was_not_heard_is_an_upper_bound_and_the_end_of_the_run_counts(make: Make) -> None:
    """A run that ended within an evaluation; south has shown nothing, and may have spent all that it may."""
    folder = evaluated(make(), in_sums=True)
    sites = json.loads(folder.rounds.read_text().splitlines()[-1])["site_metrics"]["sites"]
    north = {**sites["north"], "status": "failed", "unheard": 1}
    south = {**north, "budget": 3.0, "epsilon": 3.0, "epsilon_alone": None, "charges": [], "reason": "ended"}
    change_summary(
        folder, lambda said: said.update(test_accounts={"sites": {"north": north, "south": south}})
    )
    (*_, accounts) = site_metric_tables(read_run(folder))
    assert accounts.rows == (
        ("north", "failed", "at most 0.94", "at most 1.40", "1.00", "1e-05", "at most 2", "5.277", "pld", ""),
        ("south", "failed", "at most 3.00", "none", "3.00", "1e-05", *["not known"] * 2, "pld", "ended"),
    )
    of_rounds(folder, lambda line: line.pop("site_metrics"))
    assert site_metric_tables(read_run(folder)) == (accounts,)
    assert "at most 0.94" in render_page([folder])
    change_summary(folder, lambda said: said["test_accounts"].update(sites=[1]))
    with pytest.raises(ConfigError, match=r"summary.json: its test_accounts are damaged"):
        read_run(folder)


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
    ],
)
def test_damage_is_refused_by_name(make: Make, damage: Any) -> None:
    folder = of_rounds(evaluated(make()), lambda line: damage(line["site_metrics"]))
    with pytest.raises(ConfigError, match=r"its site_metrics are damaged"):
        read_run(folder)
