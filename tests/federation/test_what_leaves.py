"""Poisoned records through the client as it is shipped: only noised arrays depend on them."""

import json
import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from federation.server.short_run import run, settings
from flwr.app import RecordDict

from fl_dp.federation.wire.arrays import encode, state_arrays
from fl_dp.federation.wire.messages import plan_to_content
from fl_dp.records import RoundPlan
from fl_dp.training import private, step

PLAN = RoundPlan("run-1", 1, "linear", 4, 50, 0.5, 0.0, 8.0, 1.0)
MARKER = 1234567.0
SECRET = "Mrs Smith, HIV positive"
LABELS = np.arange(100) % 3


def records(value=None):
    """100 records; the first holds `value`."""
    x = np.random.default_rng(7).normal(size=(100, 4))
    if value is not None:
        x[0] = value
    return x


def answers(client, x, y=LABELS):
    """What leaves a client that holds these records, when it registers and in a round."""
    client.give(x, y)
    plan = plan_to_content(PLAN, encode(state_arrays(client.model)))
    return client.call("query", RecordDict()), client.ask("train", plan)


def all_but_arrays(content):
    return {name: dict(record) for name, record in content.config_records.items()}


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (records(MARKER), LABELS),
        (records(3e38), LABELS),
        (records(1e-45), LABELS),
        (records(), np.zeros(100, int)),
        (np.zeros((100, 4)), LABELS),
    ],
    ids=["marker", "huge", "tiny", "one class", "all zero"],
)
def test_only_the_noised_arrays_depend_on_the_records(real_client, x, y):
    plain = answers(real_client("plain"), records())
    poisoned = answers(real_client("poisoned"), x, y)
    for one, other in zip(plain, poisoned, strict=True):
        told, tells = all_but_arrays(one), all_but_arrays(other)
        if "profile" in told:
            told["profile"]["client"] = tells["profile"]["client"]  # the two differ by name alone
        assert tells == told
        assert set(one) == set(other)
    one, other = plain[1].array_records["arrays"], poisoned[1].array_records["arrays"]
    assert one.keys() == other.keys() == {"1.weight", "1.bias"}
    for name, array in other.items():
        alike = one[name]
        assert (array.shape, array.dtype, len(array.data)) == (alike.shape, alike.dtype, len(alike.data))
        assert np.isfinite(array.numpy()).all()
        assert np.float32(MARKER).tobytes() not in array.data


def test_one_record_moves_the_arrays_by_no_more_than_the_bound(real_client, monkeypatch):
    """Without noise and with every record drawn, so that what is left is the record itself."""
    monkeypatch.setattr(step, "add_gaussian_noise", lambda clipped, **_: clipped.grads)
    plan = replace(PLAN, steps=1, expected_batch_size=100, learning_rate=1.0)
    ends = []
    for name, value in (("plain", 0.0), ("poisoned", 3e38), ("marked", MARKER)):
        client = real_client(name)
        client.give(records(value), LABELS)
        ends.append(client.train(plan).arrays)
    for end in ends[1:]:
        moved = np.sqrt(sum(((end[name] - ends[0][name]) ** 2).sum() for name in end))
        assert moved * 100 <= 2.0 * (1 + 1e-5)  # one record goes and another comes: 2 C


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (records(np.nan), LABELS),
        (records(np.inf), LABELS),
        (records(1e300), LABELS),  # too large for float32
        (records(), np.full(100, 42)),
        (records(), LABELS - 1),
        (np.full((100, 4), SECRET), LABELS),
        (np.zeros((0, 4)), np.zeros(0, int)),
    ],
    ids=["NaN", "infinite", "overflow", "label", "negative label", "text", "none"],
)
def test_unusable_records_are_reported_in_one_line(real_client, caplog, x, y):
    reason = "its data cannot be used; its own log says why"
    for content in answers(real_client(), x, y):
        assert all_but_arrays(content) == {
            "refusal": {"status": "failed", "reason": reason, "budget_exhausted": False}
        }
    assert "npz" in caplog.text  # its own log has the cause


def test_the_servers_log_and_reports_tell_nothing_of_the_records(real_client, fakes, monkeypatch, caplog):
    clients = [real_client("plain"), real_client("poisoned"), real_client("broken")]
    clients[1].give(records(MARKER), LABELS)
    take_step = private.PrivateTrainer.step

    def fail_after_a_round(self, data, *arguments):
        take_step(self, data, *arguments)
        if self.plan.server_round == 2:
            raise ValueError(f"{SECRET}: {data.x[0].tolist()}")

    monkeypatch.setattr(private.PrivateTrainer, "step", fail_after_a_round)
    noise = {"noise_multiplier": 8.0, "expected_batch_size": 50, "physical_batch_size": "auto"}
    config = settings(clients=3, min_clients=3, fit_clients=3, rounds=2, round_timeout=60.0, **noise)
    with caplog.at_level(logging.DEBUG):
        strategy, _ = run(clients, fakes, config, start=state_arrays(clients[0].model))
    servers_log = "\n".join(
        r.getMessage() for r in caplog.records if Path(r.pathname).parent.name != "client"
    )
    reports = json.dumps([report.to_dict() for report in strategy.reports])
    assert "an unexpected error" in servers_log
    assert "an unexpected error" in reports
    for text in (servers_log, reports):
        assert SECRET not in text
        assert str(int(MARKER)) not in text
    assert SECRET in caplog.text  # the client's own log has it
