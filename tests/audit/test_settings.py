"""From a run's config to an audit: its rates, and what cannot be audited."""

import pytest

from fl_dp.audit.settings import audit_gradients
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError

TASK = """
import torch
from fl_dp import Task

class Ours(Task):
    classes = 2

    def train_data(self):
        return torch.randn(20, 3), torch.arange(20) % 2
"""


def config(**settings):
    return RunConfig(data="digits", clients=4, min_clients=4, fit_clients=4, rounds=1, **settings)


def test_a_client_is_audited_at_the_rate_of_its_declared_number(tmp_path):
    (tmp_path / "ours.py").write_text(TASK)
    own = RunConfig(
        task=str(tmp_path / "ours.py"),
        clients=1,
        min_clients=1,
        fit_clients=1,
        rounds=1,
        evaluate="off",
        noise_multiplier=2.0,
        expected_batch_size=6,
        physical_batch_size=6,
    )
    assert audit_gradients(own, 5, steps=1).sample_rate == 6 / 24  # of 20 records


def test_a_sum_is_not_audited():
    with pytest.raises(ConfigError, match='noise are those of aggregation = "mean": audit that'):
        audit_gradients(config(aggregation="secure"), 20, steps=1)


def test_it_is_audited_as_it_clips():
    """One audit in twenty overrates, at most; of a step that clips otherwise, each."""
    clipping = config(clipping="automatic", noise_multiplier=2.0, expected_batch_size=64)
    assert any(audit_gradients(clipping, 20, steps=1).passed for _ in range(4))
