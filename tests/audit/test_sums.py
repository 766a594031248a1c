"""The audit of secure sums: both views hold, each by its own noise, and too little noise is found in either.

Sound steps: as in `test_one_run.py`, none of these will fail. Of broken ones what is found is far above.
"""

import pytest

from fl_dp.audit.canaries import GradientCanaries
from fl_dp.audit.one_run import run_audit
from fl_dp.audit.sums import in_sums
from fl_dp.audit.ways import Deployed, Simulated
from fl_dp.errors import ConfigError
from fl_dp.records import RoundPlan
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
@pytest.mark.parametrize("view", ["sum", "alone"])
def test_what_is_claimed_of_a_view_is_not_less_than_what_is_found(view, way):
    report = _audit(view, way=way)
    assert report.passed
    assert 0.5 < report.found < report.claimed
    assert report.noise_multiplier == (1.0 if view == "sum" else 0.5)


def test_a_share_seen_by_itself_shows_more_than_the_sum():
    together, alone = _audit("sum"), _audit("alone")
    assert alone.claimed > 1.5 * together.claimed
    assert alone.found > together.found + 0.3


@pytest.mark.parametrize("view", ["sum", "alone"])
def test_shares_that_are_too_small_are_found(view, monkeypatch):
    """As if the noise were made up of a hundred times as many clients' shares as there are."""
    usual = private.share_of_sum

    def small(clipped, *, shares, **more):
        return usual(clipped, shares=100 * shares, **more)

    monkeypatch.setattr(private, "share_of_sum", small)
    assert not _audit(view, noise_multiplier=8.0).passed


def test_a_view_is_of_a_secure_sum_and_of_nothing_else():
    with pytest.raises(ConfigError, match="of a secure sum"):
        _audit(None)
