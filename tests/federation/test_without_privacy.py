"""A run without privacy: only where every side asks for it by name, and marked wherever it leaves a trace."""

from dataclasses import replace

import numpy as np
import pytest
from federation.server import short_run

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.errors import DeclinedError, FederationError
from fl_dp.federation.client.policy import check_plan
from fl_dp.federation.server.planning import round_mechanism, round_plan
from fl_dp.federation.wire.arrays import state_arrays
from fl_dp.records import ClientProfile, Entry, RoundPlan
from fl_dp.reporting.console import round_line
from fl_dp.reporting.run_files import Run
from fl_dp.reporting.run_folder import RunFolder

MARK = "NOT PRIVATE"
PLAN = RoundPlan("run-1", 1, "linear", 4, 10, 0.5, 0.0, 0.0, 1.0, private=False)
ALLOWED = {"allow-unprotected": True}
OFF = RunConfig(
    clients=2,
    min_clients=1,
    fit_clients=2,
    rounds=2,
    privacy="off",
    model="linear",
    expected_batch_size=10,
    physical_batch_size="auto",
    local_epochs=0.3,
    round_timeout=60.0,
)


def run(nodes, fakes, start, config=OFF):
    strategy, _ = short_run.run(nodes, fakes, config, start=start)
    return strategy, strategy.reports


def test_a_run_plans_only_with_clients_that_allow_it():
    """No noise, no budget, and the steps of a private run; and nothing private once that was done."""
    profile = ClientProfile("0", 100, 1.0, 1e-5, (Entry(0.1, 0.0, 1),), "rdp", allow_unprotected=True)
    mechanism = round_mechanism(profile, replace(OFF, noise_multiplier=2.0))
    assert mechanism == Entry(0.1, 0.0, 3)
    plan = round_plan(profile, mechanism, OFF, "run", 1)
    assert (plan.private, plan.noise_multiplier, plan.steps) == (False, 0.0, 3)
    with pytest.raises(FederationError, match="its operator has not set allow-unprotected"):
        round_mechanism(replace(profile, allow_unprotected=False), OFF)
    with pytest.raises(FederationError, match="trained without protection before; no epsilon holds"):
        round_mechanism(profile, replace(OFF, privacy="on"))


def test_no_client_accepts_it_unless_its_own_settings_say_so(real_client):
    own = ClientConfig(client="0", ledger="x.sqlite", min_noise_multiplier=5.0, allow_unprotected=True)
    check_plan(PLAN, own, public_size=100)
    for plan, settings, words in (
        (PLAN, replace(own, allow_unprotected=False), "operator has not allowed"),
        (replace(PLAN, private=True), own, "noise multiplier 0"),  # it must be asked for by its name
        (replace(PLAN, noise_multiplier=1.0), own, "without protection and for noise multiplier 1"),
    ):
        with pytest.raises(DeclinedError, match=words):
            check_plan(plan, settings, public_size=100)
    client = real_client()
    assert "has not allowed" in client.train(PLAN).reason
    assert client.register().spent == ()


def test_after_it_no_private_round_is_trained_until_the_data_are_retired(real_client):
    client = real_client(**ALLOWED)
    update = client.train(PLAN)
    assert (update.epsilon, update.steps, update.spent) == (np.inf, 4, (Entry(0.1, 0.0, 4),))
    private = replace(PLAN, private=True, noise_multiplier=2.0, server_round=2)
    refusal = client.train(private)
    assert refusal.status == "declined"
    assert "trained without protection in run run-1" in refusal.reason
    with Ledger.open(client.ledger) as ledger:
        ledger.retire(ledger.accounts()[0].dataset)
    assert client.train(replace(private, server_round=3)).steps == 4


def test_only_clients_that_allow_it_take_part_and_the_others_say_why(fakes, real_client):
    willing, careful = real_client("willing", **ALLOWED), real_client("careful")
    strategy, reports = run([willing, careful], fakes, state_arrays(willing.model))
    first = reports[0].clients
    assert (first["willing"].status, first["willing"].epsilon) == ("trained", np.inf)
    assert (first["careful"].status, first["careful"].epsilon) == ("idle", 0.0)
    assert "allow-unprotected" in first["careful"].reason
    assert strategy.outcome() == ("completed", "")
    strategy, _ = run([careful, real_client("other")], fakes, state_arrays(willing.model))
    status, reason = strategy.outcome()
    assert (status, "allow-unprotected" in reason) == ("failed", True)


class Claims:
    """An honest client between which and the server somebody changes what it reports of its round."""

    def __init__(self, client, **changes):
        self.client, self.changes = client, changes

    def __call__(self, message):
        reply = self.client(message)
        if message.metadata.message_type == "train":
            for record, fields in self.changes.items():
                for name, value in fields.items():
                    reply.content.config_records[record][name] = value
        return reply


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"report": {"epsilon": 1.5}}, "claims epsilon 1.5"),
        ({"report": {"epsilon": float("nan")}}, "impossible epsilon"),
        ({"report": {"steps": 4}}, "claims 4 steps, was asked for 3"),
        ({"spent": {"noise_multiplier": [1.0]}}, "does not show the steps"),
    ],
)
def test_a_client_that_claims_privacy_in_such_a_run_fails(fakes, real_client, changes, words):
    liar = Claims(real_client("liar", **ALLOWED), **changes)
    _, reports = run([liar], fakes, state_arrays(liar.client.model), replace(OFF, rounds=1))
    client = reports[0].clients["liar"]
    assert client.status == "failed"
    assert words in client.reason
    assert client.epsilon == np.inf  # it was asked, and may have done it


def test_a_private_run_takes_no_unprotected_update(fakes, real_client):
    """A client that trained without noise has that in its ledger, not what the server asked for."""
    bare = Claims(real_client("bare"), spent={"noise_multiplier": [0.0]}, report={"epsilon": np.inf})
    config = replace(OFF, privacy="on", noise_multiplier=2.0, rounds=1)
    strategy, reports = run([bare], fakes, state_arrays(bare.client.model), config)
    assert reports[0].clients["bare"].status == "failed"
    start = state_arrays(bare.client.model)
    for name, array in strategy.result.arrays.items():
        np.testing.assert_array_equal(array.numpy(), start[name])


def serve(tmp_path, fakes, nodes, **changes):
    data = tmp_path / "server.npz"
    x = np.random.default_rng(1).normal(size=(30, 4)).astype(np.float32)
    np.savez(data, x_test=x, y_test=np.arange(30) % 3, classes=["a", "b", "c"])
    batches = {"expected-batch-size": 10, "physical-batch-size": 5, "local-epochs": 0.3}
    own = {"data": f"npz:{data}", "model": "linear", "round-timeout": 60.0, **batches, **changes}
    short_run.serve(tmp_path, fakes.Grid(dict(enumerate(nodes, 1))), **own)
    return tmp_path / "out"


def test_every_file_and_line_of_the_run_bears_the_mark_and_none_of_a_private_run(
    tmp_path, fakes, real_client, caplog
):
    caplog.set_level("INFO", "fl_dp")
    out = serve(tmp_path, fakes, [real_client(name, **ALLOWED) for name in "ab"])
    lines, summary = short_run.left(tmp_path)
    assert (out / "model.pt").exists()
    assert not any("NOT" in path.name for path in out.iterdir())
    assert all(line["private"] and line["epsilon"] > 0 for line in lines)
    assert summary["private"] is True
    assert MARK not in caplog.text
    sites = [real_client(name, **ALLOWED) for name in "cd"]
    (tmp_path / "off").mkdir()
    out = serve(tmp_path / "off", fakes, sites, privacy="off")
    lines, summary = short_run.left(tmp_path / "off")
    assert (out / "model-NOT-PRIVATE.pt").exists()
    assert not (out / "model.pt").exists()
    assert len(lines) == 2
    for record in (*lines, summary):
        assert (record["private"], record["epsilon"]) == (False, None)
        assert all(client["epsilon"] is None for client in record["clients"].values())
    assert all(MARK in round_line(report, 2) for report in Run(RunFolder(out)).rounds())
    assert all(line["noise_multiplier"] is None for line in lines)
    assert all(one["sample_rate"] is None for line in lines for one in line["clients"].values())
    assert sum(MARK in text for text in caplog.messages) == 2 + 4  # the server's rounds, the clients'
