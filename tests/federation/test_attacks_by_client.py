"""What a dishonest client, or one whose ledger went back in time, tells a server."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from federation.server.short_run import run, settings
from flwr.app import ConfigRecord

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.federation.wire.arrays import encode, state_arrays
from fl_dp.training.trainer import as_arrays, trainable

START = {"weight": np.zeros(3, np.float32)}
CONFIG = settings(min_clients=1, physical_batch_size="auto", round_timeout=60.0)


LIES = {
    "hides all": lambda entry: (),
    "hides steps": lambda entry: (replace(entry, steps=entry.steps - 1),),
    "says more noise": lambda entry: (replace(entry, noise_multiplier=9.0),),
    "says a smaller batch": lambda entry: (replace(entry, sample_rate=entry.sample_rate / 10),),
}


def says(lie, update):
    """The update with a lie of what it has cost, and the epsilon that would go with that."""
    spent = LIES[lie](*update.spent)
    return replace(update, spent=spent, epsilon=compute_epsilon(spent, update.delta, "rdp"))


@pytest.mark.parametrize("lie", LIES)
def test_a_client_that_reports_less_than_it_spent_is_dropped_and_stays_out(fakes, lie):
    nodes = [fakes.Client("0"), fakes.Client("1", lie=partial(says, lie))]
    strategy, _ = run(nodes, fakes, CONFIG, start=START)
    honest = [report.clients["0"] for report in strategy.reports]
    liar = [report.clients["1"] for report in strategy.reports]
    assert [client.status for client in honest] == ["trained"] * 3
    assert liar[0].status == "failed"
    assert "does not show the steps" in liar[0].reason
    assert liar[0].epsilon >= honest[0].epsilon  # the server's own account of it
    assert "trained" not in {client.status for client in liar}
    np.testing.assert_array_equal(strategy.result.arrays["weight"].numpy(), np.full(3, 3, np.float32))


def test_a_ledger_restored_from_a_backup_is_refused_for_good(fakes, real_client):
    """It forgets round 2; then round 3 makes it as long as the server remembers it: it stays refused."""
    client = real_client("north", epsilon=5.0)

    def on_round(report):
        if report.round == 1:
            client.back_up()
        if report.round == 2:
            client.restore()

    config = replace(CONFIG, model="linear", rounds=5, expected_batch_size=10, local_epochs=0.2)
    start = state_arrays(client.model)
    assert start.keys() == as_arrays(trainable(client.model)).keys()
    nodes = [client, fakes.Client("south", public_size=100)]
    strategy, _ = run(nodes, fakes, config, start=start, on_round=on_round)
    north = [report.clients["north"] for report in strategy.reports]
    assert [one.status for one in north] == ["trained", "trained", "failed", "idle", "idle"]
    assert north[2].reason.endswith("it was restored from a backup, or retired during the run")
    assert "Give it its newest ledger back, or wait for the next run" in north[3].reason
    assert [one.steps for one in north] == [2, 4, 6, 6, 6]  # what the server knows, not what it is shown
    assert all(report.clients["south"].status == "trained" for report in strategy.reports)


@pytest.mark.parametrize("aggregation", ["mean", "median"])
def test_a_sum_that_nobody_asked_for_is_not_taken(fakes, aggregation):
    """A client of its own that claims to answer for a group: its round is lost, and nobody else's."""

    class Claims(fakes.Client):
        def __call__(self, message):
            reply = super().__call__(message)
            if message.metadata.message_type == "train":
                reply.content["group"] = ConfigRecord({"group": "1", "messages": ["1", "2"]})
                reply.content["sum"] = encode({"weight": np.full((2, 3), 1e30)})
            return reply

    start = {"weight": np.zeros((2, 3), np.float32)}
    config = replace(CONFIG, rounds=1, aggregation=aggregation, min_updates=1)
    strategy, _ = run([Claims("0"), fakes.Client("1")], fakes, config, start=start)
    found = strategy.reports[0].clients
    assert (found["0"].status, found["1"].status) == ("failed", "trained")
    assert "records that do not belong together: ['group', 'sum']" in found["0"].reason
    np.testing.assert_array_equal(strategy.result.arrays["weight"].numpy(), np.ones((2, 3)))
