"""What is charged for a round, and the secret that its random numbers come from."""

from dataclasses import replace
from pathlib import Path

import pytest

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.requests import Reservation
from fl_dp.config.client import ClientConfig
from fl_dp.federation.client.payment import AcceptedRound, Client, Paid
from fl_dp.records import Entry, RoundPlan

PLAN = RoundPlan("run", 3, "linear", 5, 64, 1.0, 0.0, 2.0, 1.0)
OF_SUM = replace(PLAN, steps=1, noise_multiplier=4.0, shares=4)


@pytest.fixture
def client(tmp_path: Path) -> Client:
    settings = ClientConfig(client="one", ledger=str(tmp_path / "ledger"))
    return Client("digits", 640, "fingerprint", Budget(3.0, 1e-5, "rdp"), settings)


@pytest.mark.parametrize(
    ("plan", "entry"),
    [
        (PLAN, Entry(0.1, 2.0, 5)),
        (OF_SUM, Entry(0.1, 4.0, 1, shares=4)),
    ],
)
def test_what_the_ledger_is_charged(plan: RoundPlan, entry: Entry, client: Client) -> None:
    assert AcceptedRound("key", client, plan).entry == entry


def test_another_key_for_all_that_a_result_follows_from(client: Client) -> None:
    accepted = AcceptedRound("key", client, PLAN)
    reservation = Reservation(1, accepted.entry, bytes(32))
    first = Paid(accepted, reservation)
    changed = [{"dataset": "other"}, {"fingerprint": "other"}]
    clients = [replace(accepted, client=replace(client, **change)) for change in changed]
    others = [replace(first, accepted=one) for one in (replace(accepted, plan=OF_SUM), *clients)]
    others.append(replace(first, reservation=replace(reservation, key=bytes(31) + b"1")))
    keys = [first.key("weights", "state"), first.key("other weights", "state"), first.key("weights", "other")]
    keys += [one.key("weights", "state") for one in others]
    assert {len(key) for key in keys} == {32}
    assert len(set(keys)) == len(keys) == 7
    assert Paid(accepted, reservation).key("weights", "state") == keys[0]
