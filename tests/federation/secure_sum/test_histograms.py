"""Histograms of the sites' test records in one secure sum, from the server's question to its report."""

import math
from dataclasses import replace

import numpy as np
import pytest
from federation.secure_sum.attempts import looks_uniform
from federation.secure_sum.sum_rounds import OFFER, Federation
from flwr.app import RecordDict

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.calibration import calibrate_noise
from fl_dp.federation.client import evaluation, lost_rounds
from fl_dp.federation.client.lost_rounds import LostRounds
from fl_dp.federation.secure_sum import wire
from fl_dp.federation.secure_sum.vector import grid_of
from fl_dp.federation.server import site_metrics
from fl_dp.federation.wire.messages import ARRAYS
from fl_dp.records import Entry
from fl_dp.tasks.score_histogram import Layout

TEST = {"test": 0.3, "evaluate-epsilon": 4.0, "delta": 1e-5}
LAYOUT = Layout(10, 4)


@pytest.fixture(autouse=True)
def counts(monkeypatch):
    """Counting is tested beside its code; here each site has counts of its own, and remembers them."""
    counted = []

    def count(model, task, records, layout, passes, device):
        counted.append(np.arange(layout.size) * (len(counted) + 1) if records is not None else np.zeros(1))
        return counted[-1]

    monkeypatch.setattr(evaluation, "count", count)
    return counted


def gone_at(stage, *numbers):
    return lambda number, at, asked: None if at == stage and number in numbers else asked


def paid(federation):
    return [len(one.paid(by_test_records=True)) for one in federation.members]


def test_the_server_sees_one_sum_with_all_shares_of_noise_and_each_member_pays_both_epsilons(
    tmp_path, monkeypatch, counts
):
    federation, sums = Federation(tmp_path, **TEST), []
    real = site_metrics.metrics_of
    monkeypatch.setattr(site_metrics, "metrics_of", lambda some: sums.extend(some) or real(some))
    federation.config = replace(federation.config, rounds=1)
    found, below = federation.metrics()
    noise = calibrate_noise(1.0, 1, 4.0, 1e-5, accountant="rdp")
    assert found["secure_sum"] == {"clients": 5, "shares": 3, "masked": True}
    (one,) = sums
    clean = np.sum(counts, axis=0) * LAYOUT.weights
    share = grid_of(LAYOUT.sensitivity, noise, 3, LAYOUT.size).share_deviation
    assert one.deviation == pytest.approx(math.sqrt(5) * share)
    assert share == pytest.approx(noise * LAYOUT.sensitivity / math.sqrt(3), rel=0.02)
    assert (one.cells - clean).std() == pytest.approx(one.deviation, rel=0.3)  # of 89 numbers
    for member, site in zip(federation.members, found["sites"].values(), strict=True):
        (own,) = member.paid(by_test_records=True)
        assert (own.entry.sample_rate, own.entry.noise_multiplier, own.entry.steps) == (1.0, noise, 1)
        assert (own.entry.shares, own.committed) == (3, True)
        assert not member.paid()  # by the training records
        assert site["epsilon"] <= 4.0 < site["epsilon_alone"]
    assert found["epsilon_alone"] == max(one["epsilon_alone"] for one in found["sites"].values())
    masked = [answered for _, stage, answered in below.seen if stage == wire.MASK]
    vectors = [one[ARRAYS][wire.MASKED].numpy() for one in masked]
    assert looks_uniform(np.concatenate(vectors))
    assert all(wire.KEPT not in answered for *_, answered in below.seen)


def test_who_declares_no_test_records_stays_out_and_an_empty_test_set_gives_noise(tmp_path):
    """Whether a site answers follows from its settings alone."""
    federation = Federation(tmp_path, dropouts=0, **TEST)
    none, empty = federation.members[:2]
    none.config = replace(none.config, test=0.0)
    empty.config = replace(empty.config, test=1e-9)
    found, below = federation.metrics()
    assert found["sites"]["site-0"]["status"] == "declined"
    assert "declares no test records" in found["sites"]["site-0"]["reason"]
    assert found["secure_sum"] == {"clients": 4, "shares": 3, "masked": True}
    assert found["sites"]["site-1"]["status"] == "evaluated"
    assert {stage for number, stage, _ in below.seen if number == 0} == {OFFER}
    assert paid(federation) == [0, 1, 1, 1, 1]


def test_two_members_make_no_sum_and_pay_nothing(tmp_path):
    federation = Federation(tmp_path, clients=3, dropouts=0, **TEST)
    federation.members[0].config = replace(federation.members[0].config, test=0.0)
    found, below = federation.metrics()
    assert "secure_sum" not in found
    assert "members = 2: expected 3 to 100 in a secure sum" in found["sites"]["site-1"]["reason"]
    assert found["metrics"] == {}
    assert {stage for _, stage, _ in below.seen} == {OFFER}
    assert paid(federation) == [0, 0, 0]


def test_the_site_that_needs_most_noise_decides_and_a_settled_account_keeps_its_own(tmp_path):
    federation = Federation(tmp_path, clients=5, dropouts=0, **TEST)
    needs_most, late = federation.members[0], federation.members[4]
    needs_most.config = replace(needs_most.config, evaluate_epsilon=2.0)
    late.config = replace(late.config, evaluate_epsilon=0.5, test=0.0)
    federation.config = replace(federation.config, rounds=1)
    found, _ = federation.metrics()
    noises = [one["charges"][0]["noise_multiplier"] for one in found["sites"].values() if "charges" in one]
    assert noises == [calibrate_noise(1.0, 1, 2.0, 1e-5, accountant="rdp")] * 4
    late.config = replace(late.config, test=0.3)
    found, _ = federation.metrics(server_round=2)  # the others' accounts have one noise for ever
    assert "its test records have noise multiplier" in found["sites"]["site-4"]["reason"]
    assert "Not one more step fits" in found["sites"]["site-0"]["reason"]
    assert paid(federation) == [1, 2, 2, 2, 0]


@pytest.mark.parametrize("stage", [OFFER, wire.ADVERTISE, wire.CHECK])
def test_who_is_gone_before_the_masks_has_not_paid_and_the_others_begin_again(tmp_path, stage):
    federation = Federation(tmp_path, clients=4, dropouts=0, **TEST)
    found, _ = federation.metrics(gone_at(stage, 2))
    assert found["secure_sum"] == {"clients": 3, "shares": 2, "masked": True}
    assert paid(federation) == [1, 1, 0, 1]
    assert found["sites"]["site-2"]["status"] in ("declined", "failed")


def test_who_is_gone_after_paying_is_a_drop_out_and_beyond_their_number_the_sum_is_lost(
    tmp_path, monkeypatch
):
    """A lost sum is one of the client's lost sums, as a step's is."""
    monkeypatch.setattr(lost_rounds, "MOST_LOST", 1)
    federation = Federation(tmp_path, clients=4, **TEST)
    found, _ = federation.metrics(gone_at(wire.CONFIRM, 2))
    assert found["secure_sum"] == {"clients": 4, "shares": 2, "masked": True}  # it has masked
    LostRounds.of(federation.members[2].config).opened()  # else it would not join again
    found, _ = federation.metrics(gone_at(wire.CONFIRM, 1, 2), server_round=2)
    assert "Secure sum lost" in found["lost"]
    assert "secure_sum" not in found
    assert found["metrics"] == {}
    assert [one["charges"][0]["steps"] for one in found["sites"].values()] == [2] * 4
    found, below = federation.metrics(server_round=3)
    assert "never opened" in found["sites"]["site-0"]["reason"]
    assert {stage for _, stage, _ in below.seen} == {OFFER, wire.ADVERTISE}  # before anybody has paid
    replies, _ = federation.round()
    assert "never opened" in replies[0]["refusal"]["reason"]  # nor does it train into one
    assert paid(federation) == [2] * 4


def test_an_evaluation_is_answered_once(tmp_path):
    federation = Federation(tmp_path, clients=3, dropouts=0, **TEST)
    federation.metrics()
    found, _ = federation.metrics()
    assert "secure_sum" not in found
    assert "was taken before" in found["sites"]["site-0"]["reason"]
    assert paid(federation) == [1] * 3


def test_a_member_whose_account_does_not_fit_is_named_and_its_vector_is_in_the_sum_all_the_same(tmp_path):
    federation = Federation(tmp_path, clients=3, dropouts=0, **TEST)
    other = Entry(1.0, 9.0, 1, 2)

    def lie(number, stage, answered):
        if (number, stage) == (1, wire.MASK):
            answered["spent"]["noise_multiplier"] = [other.noise_multiplier]
            answered["histogram"]["epsilon"] = Budget(4.0, 1e-5, "rdp").epsilon_of([other])
        return answered

    found, _ = federation.metrics(lie=lie)
    assert "does not show the noise of this sum" in found["sites"]["site-1"]["reason"]
    assert found["secure_sum"] == {"clients": 3, "shares": 2, "masked": True}
    assert found["metrics"]["records"]["value"] is not None


def test_sites_that_declare_other_subgroups_add_up_without_any(tmp_path):
    federation = Federation(tmp_path, clients=3, dropouts=0, **TEST)
    federation.config = replace(federation.config, site_metrics_subgroups=True)

    def lie(number, stage, answered):
        if stage == OFFER:
            answered["offer"]["subgroups"] = [f"{number} = a", f"{number} = b"]
        return answered

    found, _ = federation.metrics(lie=lie)
    assert found["secure_sum"] == {"clients": 3, "shares": 2, "masked": True}
    assert not any("[0 = " in name for name in found["metrics"])


def test_a_member_that_may_have_paid_and_was_not_heard_is_in_both_epsilons(tmp_path):
    """Its answer with the masked vector is lost: the others' sum lacks it, its ledger has paid."""
    federation = Federation(tmp_path, clients=4, **TEST, accountant="pld")

    def lost(number, stage, answered):
        return RecordDict() if (number, stage) == (1, wire.MASK) else answered

    found, _ = federation.metrics(lie=lost)
    assert found["secure_sum"] == {"clients": 3, "shares": 2, "masked": True}
    assert paid(federation) == [1] * 4
    one = found["sites"]["site-1"]
    assert (one["status"], one["epsilon"], one["unheard"]) == ("failed", 4.0, 1)
    assert found["epsilon"] == 4.0  # its whole budget: it had shown nothing yet
    assert found["epsilon_alone"] == one["epsilon_alone"] == math.inf
