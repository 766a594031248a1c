"""What a run itself has spent, beside what its data had spent before."""

import dataclasses

import pytest

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.records import Entry
from fl_dp.reporting.page.client_facts import own_charges
from fl_dp.reporting.page.read import read_run

from .conftest import Make


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
