"""Each change of forger.py is made, then every digest anew, and the page drawn: who finds it?"""

from __future__ import annotations

import html

import pytest
from verify.forger import FORGERIES
from verify.made_run import MadeRun

from fl_dp.reporting.page import render
from fl_dp.verify.check import Evidence, Found, Outcome
from fl_dp.verify.verdict import UNSIGNED, agrees, unsigned, verdict

MASKS = "whether masks hid the parts of secure sums, and of how many clients each sum was"


def found_by(results: dict[str, Found]) -> set[str]:
    wrong = Outcome.DIFFERS
    return {name for name, one in results.items() if any(found.outcome is wrong for found in one.findings)}


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "_figures", lambda run: [])


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_found_or_verify_lists_it_as_signed_by_no_site(name: str, made_run: MadeRun) -> None:
    forgery = FORGERIES[name]
    made_run.draw()
    honest = made_run.files.report.read_text()
    forgery.change(made_run)
    made_run.digests_anew()
    made_run.draw()
    forgery.after(made_run)
    assert found_by(made_run.check(roster=True, ledgers=forgery.ledgers)) == set(forgery.found)
    if not forgery.unsigned:
        return
    results = list(made_run.check(roster=True).values())
    assert agrees(results)
    said = verdict(results, Evidence(made_run.files, made_run.roster))
    assert said.startswith("authentic")
    assert made_run.files.report.read_text() != honest  # it is a lie that somebody reads
    assert forgery.unsigned in unsigned(results, Evidence(made_run.files, made_run.roster))


def test_each_thing_that_nobody_signs_has_a_forgery_that_is_not_found() -> None:
    """Masks need a run of their own: checks/test_secure_sums.py."""
    assert {one.unsigned for one in FORGERIES.values() if one.unsigned} == UNSIGNED.keys() - {MASKS}


def test_data_that_the_operator_calls_otherwise_than_the_sites_are_said_to_be(made_run: MadeRun) -> None:
    """The page once called signed data what the settings did."""
    FORGERIES["`data` and `data-name` in the settings, and model.json"].change(made_run)
    made_run.digests_anew()
    made_run.draw()
    page = html.unescape(made_run.files.report.read_text())
    assert "Synthetic, no patients (mnist). NOT what sites have stated: digits" in page
