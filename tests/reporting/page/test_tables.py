"""The tables of a page: what was spent, stated and measured."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from fl_dp.errors import ConfigError
from fl_dp.kits.keys import fingerprint
from fl_dp.kits.signed import Signature
from fl_dp.records import Entry
from fl_dp.reporting.page.read import read_run
from fl_dp.reporting.page.render import render_page
from fl_dp.reporting.page.tables import LISTED, Table, clients, metrics, noise, settings, statements
from fl_dp.statements import Stated

from .conftest import Make, change_summary, statement
from .reading import Page
from .runs import evaluated, of_clients, of_rounds, of_sums, signed


def column(table: Table, name: str) -> list[str]:
    return [row[table.columns.index(name)] for row in table.rows]


def test_steps_of_this_run_and_of_all_runs_are_told_apart(make: Make) -> None:
    table = noise(read_run(of_clients(make(before=[Entry(0.1, 1.5, 30)]), steps=39)))
    assert column(table, "steps of this run") == ["9", "9"]
    assert column(table, "steps in all") == ["39", "39"]


def test_noise_that_falls_is_shown_by_both_ends_and_a_size_that_is_not_known_is_no_zero(make: Make) -> None:
    listed = [Entry(0.1, noise, 3).to_dict() for noise in (2.0, 1.5, 1.0)]
    table = noise(read_run(of_clients(make(), charges=listed, public_size=0)))
    assert column(table, "noise multiplier") == ["2 to 1", "2 to 1"]
    assert column(table, "declared size (records)") == ["not known", "not known"]


@pytest.mark.parametrize(("alone", "words"), [(7.0, "7.00"), (None, "none"), (20.5, "none"), (400.0, "none")])
def test_both_epsilons_of_secure_sums_are_told(make: Make, alone: float | None, words: str) -> None:
    run = read_run(of_sums(make(), alone))
    table = clients(run)
    north, south = column(table, "if the assumption fails")
    of_south = column(table, "all runs in its ledger")[1]  # no secure sums: both are one
    assert (north, south) == (words, of_south)
    text = Page(render_page(of_sums(make("again"), alone))).text
    assert f"If the assumption behind secure sums fails: epsilon {words}." in text


def test_a_signature_that_fits_is_said_with_its_key(make: Make) -> None:
    said = [signed(statement(["north"])), statement(["south"])]
    run = read_run(make(signed=said))
    assert [site.signed for site in run.sites] == [Signature.HOLDS, Signature.NONE]
    assert column(statements(run), "stated by") == [
        f"signed by the key {fingerprint(said[0].key)}",
        "a statement signed by nobody",
    ]


@pytest.mark.parametrize("change", ["key", "text", "signature", "no hex"])
def test_a_signature_that_does_not_fit_is_said(make: Make, change: str) -> None:
    good, other = signed(statement(["north"])), signed(statement(["north"], commitment="00" * 32))
    bad = (
        dataclasses.replace(good, signature="zz")
        if change == "no hex"
        else dataclasses.replace(good, **{change: getattr(other, change)})
    )
    folder = make(clients=["north"], signed=[bad])
    assert read_run(folder).sites[0].signed is Signature.WRONG
    text = Page(render_page(folder)).text
    assert "1 statement cannot be relied on: WRONG SIGNATURE" in text
    assert "No statement has a valid signature." in text


@pytest.mark.parametrize(
    ("said", "summary"),
    [({"run": "18"}, {}), ({"weights": "00" * 32}, {}), ({}, {"digests": {}})],  # of none none is vouched for
)
def test_a_statement_of_another_run_or_model_is_said(
    make: Make, said: dict[str, str], summary: dict[str, object]
) -> None:
    run = read_run(make(clients=["north"], signed=[signed(statement(["north"], **said))], **summary))
    (words,) = column(statements(run), "stated by")
    assert words.startswith(f"NOT OF THIS RUN: it speaks of another {'' if 'run' in said else 'model'}")
    assert (run.signed, run.unreliable) == (0, 1)


def test_a_statement_that_cannot_be_read_is_no_end_of_the_page(make: Make) -> None:
    said = column(statements(read_run(make(clients=["north"], signed=[Stated("{}")]))), "stated by")
    assert "not a readable statement" in said[0]
    assert said[1] == "the server alone"


def test_metrics_of_sites_have_intervals_and_their_cost_is_in_the_clients_row(make: Make) -> None:
    run = read_run(evaluated(make()))
    where = "the sites' own, after round 3"
    assert metrics(run).rows[-2:] == (
        ("auroc", "0.8412", "0.7900 to 0.8900", where),
        ("recall", "too few records", "", where),
    )
    assert column(clients(run), "its test records") == ["0.94 of 1.00 at delta 1e-05", "none"]
    both = read_run(evaluated(make("sum"), in_sums=True))
    assert column(clients(both), "its test records") == ["0.94 of 1.00 at delta 1e-05, alone 1.40", "none"]


def test_what_was_not_heard_is_an_upper_bound_and_the_end_of_the_run_counts(make: Make) -> None:
    """A run that ended within an evaluation; south has shown nothing, and may have spent all that it may."""
    folder = evaluated(make(), in_sums=True)
    sites = json.loads(folder.rounds.read_text().splitlines()[-1])["site_metrics"]["sites"]
    north = {**sites["north"], "status": "failed", "unheard": 1}
    south = {**north, "budget": 3.0, "epsilon": 3.0, "epsilon_alone": None, "charges": []}
    accounts = {"north": north, "south": south, "of no client": north}
    of_all = {"epsilon": 3.0, "delta": 1e-5, "sites": accounts}
    change_summary(folder, lambda said: said.update(test_accounts=of_all))
    table = clients(read_run(folder))
    assert column(table, "client") == ["north", "south", "of no client"]
    assert column(table, "its test records") == [
        "at most 0.94 of 1.00 at delta 1e-05, alone 1.40",
        "at most 3.00 of 3.00 at delta 1e-05, alone none",
        "at most 0.94 of 1.00 at delta 1e-05, alone 1.40",
    ]
    change_summary(folder, lambda said: said["test_accounts"].update(sites=[1]))
    with pytest.raises(ConfigError, match=r"summary\.json: .* cannot read it: test_accounts\.sites"):
        read_run(folder)


@pytest.mark.parametrize(
    "damage",
    [
        lambda found: found.pop("sites"),
        lambda found: found.update(metrics=[1]),
        lambda found: found["metrics"]["auroc"].update(low="<b>"),
        lambda found: found["sites"]["north"].update(epsilon="<b>"),
    ],
)
def test_damage_is_refused_by_name(make: Make, damage: Any) -> None:
    folder = of_rounds(evaluated(make()), lambda line: damage(line["site_metrics"]))
    with pytest.raises(ConfigError, match=r"line 1: is damaged: site_metrics\."):
        read_run(folder)


def test_only_settings_that_are_no_default_are_listed(make: Make) -> None:
    folder = make(settings={"learning-rate": 0.25, "rounds": 30, "delta": "auto"})
    folder.resolved.write_text(folder.resolved.read_text().replace('delta = "auto"', "delta = 1e-5"))
    rows = settings(read_run(folder)).rows
    assert rows == (("rounds", "30", "30"), ("learning-rate", "0.25", "0.25"), ("delta", "auto", "1e-05"))
    off = settings(read_run(make("off", private=False, settings={"max-grad-norm": 9.0}))).rows
    assert off == (("privacy", "off", "off"), ("max-grad-norm", "9.0", "not used"))


def test_three_thousand_clients_make_a_small_page(make: Make) -> None:
    folder = make(clients=[f"site {number}" for number in range(3000)], rounds=2, reason="no budget")
    html = render_page(folder)
    page = Page(html)
    assert len(html) < 1_000_000
    assert page.text.count("site 2500") == 0
    assert page.text.count("2,800 more rows in the run's files") == 3  # who has spent most comes first
    assert "site 2999" in page.text
    assert len(page.all("tr")) < 4 * LISTED + 100
    assert "3000: site 0" in page.text
