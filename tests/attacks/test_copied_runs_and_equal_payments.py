"""The same noise over two things: a run folder that was copied or rolled back, or payments that look alike.

The server knows all records but Alice's, and has a simulated run's folder twice. Noise followed from the
run's secret, the client and the round alone: in the copy the server sent other weights in the same round, and
the difference of the two updates showed both sums bare, 0.36 C and 4.4 C apart at noise multiplier 100. Noise
from the sum alone would tell which payments have equal sums.

Now each payment draws secret bytes. Mixed into the key are the weights, the plan and the data, and into that
of the noise the sum. Equal bytes and equal inputs are one computation, whose result is one release.
"""

import shutil
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
import torch

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.engine.clipping import ClippedSum
from fl_dp.engine.noise.gaussian import add_gaussian_noise
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.engine.sampling import poisson_draw
from fl_dp.federation.client.payment import Paid
from fl_dp.federation.wire.arrays import digest_of, encode
from fl_dp.federation.wire.messages import plan_to_content
from fl_dp.records import LocalUpdate, RoundPlan
from fl_dp.simulation.actor.shared_data import SharedParts
from fl_dp.simulation.clients import SimulatedClients
from fl_dp.simulation.work import Round
from fl_dp.training import step

NOISE = 100.0  # times C: differences of sums are a few C
FAR = 150.0  # two independent noises of 15 numbers are some 550 C apart, and hardly ever less than this
KERNELS = {"1.weight": "ghost", "1.bias": "instantiate"}


def _update(federation, ledger, weights=None, **changes) -> Mapping | None:
    """Client 0's noisy sum in units of C, from a run with this ledger; None if it is not trained again."""
    weights = weights or federation.start
    plan = replace(federation.plan(), noise_multiplier=NOISE, steps=1, **changes)
    with closing(Ledger.open(ledger)) as opened:
        clients = SimulatedClients(federation.config(), SharedParts(federation.shared), opened)
        works, refused = clients.read({0: ("m", plan_to_content(plan, encode(weights)))})
        assert not refused
        paid, _ = clients.pay(works, digest_of(weights))
    if not paid:
        return None
    shared = Round("r", weights, KERNELS)
    (done,) = federation.actor().train(1, paid, 64, shared).done
    rate = plan.learning_rate / plan.expected_batch_size
    return {name: (weights[name] - array) / rate for name, array in done.arrays.items()}


def _apart(one, other) -> float:
    return float(np.sqrt(sum(((one[name] - other[name]) ** 2).sum() for name in one)))


def _other(weights):
    return {name: array + np.float32(0.25) for name, array in weights.items()}


@pytest.fixture
def ledgers(federation, tmp_path):
    """A ledger and a copy of it from before the round."""
    federation.clients.register(range(1))
    federation.close()
    copy = tmp_path / "copy.sqlite"
    shutil.copy(tmp_path / "ledger.sqlite", copy)
    return tmp_path / "ledger.sqlite", copy


def test_a_copy_that_goes_on_with_other_weights_has_other_noise(federation, ledgers):
    first = _update(federation, ledgers[0])
    assert _apart(first, _update(federation, ledgers[1], _other(federation.start))) > FAR


def test_so_has_one_that_goes_on_with_the_same_as_another_payment(federation, ledgers):
    assert _apart(*(_update(federation, ledger) for ledger in ledgers)) > FAR


def test_a_copy_of_the_begun_round_gives_the_identical_update_and_no_other(federation, ledgers, tmp_path):
    first, later = _update(federation, ledgers[0]), tmp_path / "later.sqlite"
    shutil.copy(ledgers[0], later)  # with the bytes of the payment
    assert _update(federation, later, _other(federation.start)) is None
    assert _update(federation, later, learning_rate=0.25) is None
    assert _apart(first, _update(federation, later)) == 0


def test_the_same_bytes_over_other_weights_records_or_plans_share_nothing(federation):
    """However it came to that: keys and what follows from them are independent."""
    asked = {0: ("m", federation.messages()[0].content)}
    works, _ = federation.clients.read(asked)
    (accepted,) = federation.clients._accepted.values()
    federation.clients.pay(works, "weights")
    (paid,) = federation.clients._paid.values()
    other_plan = replace(accepted, plan=replace(accepted.plan, learning_rate=0.25))
    other_records = replace(accepted, client=replace(accepted.client, fingerprint="other"))
    keys = [paid.key("weights"), paid.key("other weights")]
    keys += [Paid(one, paid.reservation).key("weights") for one in (other_plan, other_records)]
    noises, draws = [], []
    for key in keys:
        randomness = Randomness(key)
        noises.append(_noise(randomness, 0.0))
        draws.append(poisson_draw(1000, 0.5, randomness.child("draw")))
    for k in range(len(keys)):
        for j in range(k):
            assert abs(float(torch.corrcoef(torch.stack([noises[k], noises[j]]))[0, 1])) < 0.1
            together = len(set(draws[k].tolist()) & set(draws[j].tolist()))
            assert 150 < together < 350  # 250 expected; the same draw has some 500


def _noise(randomness: Randomness, value: float) -> torch.Tensor:
    """(4096,) the noise over a sum that is `value` in its first entry."""
    covered = torch.zeros(4096)
    covered[0] = value
    clipped = ClippedSum({"w": covered}, 1.0, torch.zeros(0))
    return add_gaussian_noise(clipped, noise_multiplier=NOISE, generator=randomness)["w"] - covered


def test_one_key_over_two_sums_has_two_noises():
    """The last resort, where records are others and nobody noticed: the sum is in the noise's key."""
    randomness = Randomness.system()
    first, again, other = (_noise(randomness, value) for value in (0.0, 0.0, 0.01))
    assert torch.equal(first, again)
    assert abs(float(torch.corrcoef(torch.stack([first, other]))[0, 1])) < 0.1


def test_two_payments_with_equal_sums_names_and_weights_have_independent_noise(real_client):
    """Of a client in two rounds, and of two clients that differ in nothing but their ledgers."""
    plan = RoundPlan("run", 1, "linear", 1, 100, 1.0, 0.0, NOISE, 1.0)  # q = 1: the sums are equal
    one, twin = real_client("one", client="hospital"), real_client("twin", client="hospital")
    asked = [(one, plan), (one, replace(plan, server_round=2)), (one, replace(plan, run="2")), (twin, plan)]
    updates = [client.train(wanted) for client, wanted in asked]
    assert all(isinstance(update, LocalUpdate) for update in updates)
    for k, update in enumerate(updates):
        for other in updates[:k]:
            assert 100 * _apart(update.arrays, other.arrays) > FAR  # learning rate over batch size is 1 / 100


def test_nor_do_two_payments_share_a_draw(real_client, monkeypatch):
    """Steps that share one Poisson draw: 100 of them at q = 0.01 have a delta of 0.01 at epsilon 0.72."""
    drawn = []

    def draw(*args):
        drawn.append(frozenset(poisson_draw(*args).tolist()))
        return poisson_draw(*args)

    monkeypatch.setattr(step, "poisson_draw", draw)
    plan = RoundPlan("run", 1, "linear", 5, 50, 1.0, 0.0, NOISE, 1.0)
    one, twin = real_client("one", client="hospital"), real_client("twin", client="hospital")
    for client in (one, twin):
        client.train(plan)
    one.train(replace(plan, run="2"))
    assert len(drawn) == len(set(drawn)) == 15
