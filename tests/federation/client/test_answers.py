"""The client's two messages, called as Flower calls them, on real data, ledger and training."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from federation.client.sites import MODEL, PLAN, Site
from flwr.app import Context, RecordDict

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.errors import FlDpError, ModelError
from fl_dp.federation.client import answers
from fl_dp.federation.client.answers import own_settings
from fl_dp.records import Entry, Refusal
from fl_dp.training.trainer import as_arrays, trainable


def test_a_client_registers_trains_pays_and_reports(tmp_path):
    site = Site(tmp_path)
    profile = site.register()
    assert (profile.client, profile.epsilon, profile.delta) == ("hospital", 3.0, 1e-5)
    assert (profile.spent, profile.retired) == ((), 0)
    assert 600 < profile.public_size < 800
    update = site.train()
    expected = (Entry(64 / profile.public_size, 1.5, 3),)
    assert (update.spent, update.steps, update.delta) == (expected, 3, 1e-5)
    assert update.epsilon == compute_epsilon(expected, 1e-5, "rdp")
    before = as_arrays(trainable(MODEL))
    assert all(not np.array_equal(update.arrays[name], before[name]) for name in before)
    assert site.register().spent == expected
    with Ledger.open(Path(site.config.ledger)) as ledger:
        ledger.retire("digits, part 0/2 (iid, seed 0)")
    profile = site.register()
    assert (profile.retired, profile.spent) == (1, ())


def test_an_unknown_model_is_a_failure_in_words(tmp_path):
    refusal = Site(tmp_path, model="gpt-9").train(replace(PLAN, model="gpt-9"))
    assert (refusal.status, refusal.reason.startswith("model = 'gpt-9'")) == ("failed", True)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ModelError("the model cannot be protected"), "the model cannot be protected"),
        (ValueError("'Mrs Smith, HIV positive'"), "an unexpected error; its own log says which"),
    ],
)
def test_words_of_fl_dp_are_told_and_those_of_other_libraries_stay(
    tmp_path, monkeypatch, caplog, error, words
):
    def broken(config):
        raise error

    monkeypatch.setattr(answers, "load_part", broken)
    site = Site(tmp_path)
    assert site.register() == site.train() == Refusal("failed", words)
    assert str(error) in caplog.text  # the client's own log has the traceback


def settings_of(**node_config):
    return own_settings(Context(1, 1, node_config, RecordDict(), {}))


def test_a_real_client_names_its_file_in_its_node_config(tmp_path):
    path = tmp_path / "hospital.toml"
    path.write_text('client = "hospital"\nledger = "l.sqlite"\nepsilon = 1.0\n')
    config = settings_of(**{"client-config": str(path), "partition-id": 9, "num-partitions": 10})
    assert (config.client, config.epsilon, config.num_partitions) == ("hospital", 1.0, 1)


def test_missing_settings_are_explained_only_in_the_clients_own_log():
    with pytest.raises(FlDpError, match="its own log says why") as told:
        settings_of(**{"partition-id": 0})
    assert "--node-config" in str(told.value.__cause__)
