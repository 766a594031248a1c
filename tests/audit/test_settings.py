"""From a run's config to an audit: its rates, and what cannot be audited."""

import pytest

from fl_dp.audit.settings import Overrides, audit_gradients, audit_hostile_gradients
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError

ONCE = Overrides(steps=1)
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
        task=str(tmp_path / "ours.py"), clients=1, min_clients=1, fit_clients=1, rounds=1, evaluate="off",
        noise_multiplier=2.0, expected_batch_size=6, physical_batch_size=6,
    )  # fmt: skip
    assert audit_gradients(own, ONCE, 5).sample_rate == 6 / 24  # of 20 records


@pytest.mark.parametrize("audit", [audit_gradients, audit_hostile_gradients])
def test_canaries_of_one_length_are_not_for_a_bound_that_follows(audit):
    with pytest.raises(ConfigError, match=r"adaptive-clipping = 'quantile:0.5': an audit's canaries"):
        audit(config(adaptive_clipping="quantile:0.5"), ONCE, 10)


@pytest.mark.parametrize("audit", [audit_gradients, audit_hostile_gradients])
def test_rounds_of_one_noise_are_audited(audit):
    with pytest.raises(ConfigError, match="an audit takes rounds of one mechanism"):
        audit(config(noise_multiplier_schedule="linear"), ONCE, 10)
