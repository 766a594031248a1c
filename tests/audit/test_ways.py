"""The audit of secure sums: both views hold, each by its own noise, and too little noise is found in either.

Sound steps: as in `test_one_run.py`, none of these will fail. Of broken ones what is found is far above.
"""

import dataclasses

import pytest

from fl_dp.accounting.alone import compute_epsilon_alone
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.audit.canaries import GradientCanaries
from fl_dp.audit.one_run import run_audit
from fl_dp.audit.settings import (
    Overrides,
    audit_gradients,
    audit_hostile_gradients,
    views_of,
)
from fl_dp.audit.ways import Deployed, Simulated, in_sums
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.records import Entry, RoundPlan
from fl_dp.training import private

COUNT, BOUND, SHARES = 1500, 0.7, 4


def _audit(view, noise_multiplier=1.0, way=Deployed):
    canaries = GradientCanaries(COUNT, COUNT, BOUND)
    plan = RoundPlan(
        run="audit", server_round=1, model="canaries", steps=1, expected_batch_size=COUNT,
        learning_rate=canaries.learning_rate(COUNT, 1), momentum=0.0, noise_multiplier=noise_multiplier,
        max_grad_norm=BOUND, shares=SHARES,
    )  # fmt: skip
    return run_audit(canaries, plan, 1, 1e-5, way=in_sums(way, view, canaries.of_member), view=view)


@pytest.mark.parametrize("way", [Deployed, Simulated])
def test_what_is_claimed_of_a_view_is_the_ledgers_and_not_less_than_what_is_found(way):
    together, alone = _audit("sum", way=way), _audit("alone", way=way)
    for report, noise_multiplier in ((together, 1.0), (alone, 0.5)):
        assert report.passed
        assert 0.5 < report.found < report.claimed
        assert report.noise_multiplier == noise_multiplier
    entry = Entry(1.0, 1.0, 1, SHARES)
    assert together.claimed == compute_epsilon([entry], 1e-5)
    assert alone.claimed == compute_epsilon_alone([entry], 1e-5) > 1.5 * together.claimed
    assert alone.found > together.found + 0.3  # a share seen by itself shows more than the sum


@pytest.mark.parametrize("view", ["sum", "alone"])
def test_shares_that_are_too_small_are_found(view, monkeypatch):
    """As if the noise were made up of a hundred times as many clients' shares as there are."""
    usual = private.share_of_sum

    def small(clipped, *, shares, **more):
        return usual(clipped, shares=100 * shares, **more)

    monkeypatch.setattr(private, "share_of_sum", small)
    assert not _audit(view, noise_multiplier=8.0).passed


CONFIG = RunConfig(
    clients=5,
    min_clients=5,
    fit_clients=5,
    rounds=2,
    aggregation="secure",
    data="digits",
    noise_multiplier=3.0,
)


@pytest.mark.parametrize("audit", [audit_gradients, audit_hostile_gradients])
def test_a_config_with_secure_sums_is_audited_in_both_views(audit):
    assert views_of(dataclasses.replace(CONFIG, aggregation="mean")) == (None,)
    assert views_of(CONFIG) == ("sum", "alone")
    for view in views_of(CONFIG):
        report = audit(CONFIG, Overrides(sample_rate=1.0), 400, view=view)
        assert (report.view, report.shares, report.steps) == (view, 4, 2)
        assert report.passed


def test_what_is_not_audited_in_sums_is_refused():
    with pytest.raises(ConfigError, match="steps = 2: a round into a secure sum is one step"):
        audit_gradients(CONFIG, Overrides(steps=2), 400, view="sum")
    with pytest.raises(ConfigError, match="view='sum' of a secure sum, and of nothing else"):
        audit_gradients(dataclasses.replace(CONFIG, aggregation="mean"), Overrides(), 400, view="sum")
    with pytest.raises(ConfigError, match="view=None of a secure sum"):
        _audit(None)
