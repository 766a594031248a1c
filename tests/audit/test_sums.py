"""Secure sums are audited twice: their sum against epsilon, a share by itself against epsilon alone."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch

from fl_dp.accounting.alone import compute_epsilon_alone
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.audit import sums
from fl_dp.audit.canaries import GradientCanaries
from fl_dp.audit.one_run import AuditReport, run_audit
from fl_dp.audit.settings import (
    Overrides,
    audit_gradients,
    audit_hostile_gradients,
    audit_own_model,
    views_of,
)
from fl_dp.audit.sums import View, in_sums
from fl_dp.audit.ways import Deployed, Simulated
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.records import Entry, RoundPlan
from fl_dp.training import private

DELTA, SHARES, NOISE, ROUNDS, CANARIES = 1e-5, 4, 3.0, 2, 1000
CONFIG = RunConfig(
    clients=5,
    min_clients=5,
    fit_clients=5,
    rounds=2,
    aggregation="secure",
    data="digits",
    noise_multiplier=3.0,
)


def audit(view: View, way: Any = Deployed) -> AuditReport:
    canaries = GradientCanaries(CANARIES, CANARIES, 0.7)
    plan = RoundPlan(
        "audit", 1, "canaries", 1, CANARIES, canaries.learning_rate(CANARIES, ROUNDS), 0.0, NOISE, 0.7,
        shares=SHARES,
    )  # fmt: skip
    coins = torch.Generator().manual_seed(0)
    way = in_sums(way, view, canaries.of_member)
    return run_audit(canaries, plan, ROUNDS, DELTA, coins=coins, way=way, view=view)


@pytest.mark.parametrize("way", [Deployed, Simulated])
def test_both_views_stay_below_their_claims(way: Any) -> None:
    entry = Entry(1.0, NOISE, ROUNDS, SHARES)
    summed, alone = audit("sum", way), audit("alone", way)
    assert summed.claimed == compute_epsilon([entry], DELTA)
    assert alone.claimed == compute_epsilon_alone([entry], DELTA) > summed.claimed
    assert (summed.noise_multiplier, alone.noise_multiplier) == (NOISE, NOISE / 2)
    for report in (summed, alone):
        assert report.passed
        assert 0.2 * report.claimed < report.found < report.claimed
        assert (report.shares, report.steps) == (SHARES, ROUNDS)


def test_a_share_by_itself_is_no_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is seen alone is held against epsilon: the first view fails where the others give no noise."""
    monkeypatch.setattr(sums._InSums, "_others", lambda self, plan: [])
    monkeypatch.setattr(private, "share_of_sum", with_noise(0.5))
    assert not audit("sum").passed


def with_noise(factor: float, share: Callable[..., Any] = private.share_of_sum) -> Callable[..., Any]:
    """Shares whose noise is smaller than was accounted for."""

    def broken(clipped: Any, *, noise_multiplier: float, shares: int, generator: Any) -> Any:
        found, grid = share(clipped, noise_multiplier=noise_multiplier, shares=shares, generator=generator)
        exact = {
            name: torch.round(grad.double() / grid.spacing).long() for name, grad in clipped.grads.items()
        }
        return {
            name: exact[name] + torch.round(factor * (found[name] - exact[name]).double()).long()
            for name in found
        }, grid

    return broken


@pytest.mark.parametrize("view", ["sum", "alone"])
def test_noise_that_is_much_too_small_is_found_in_both_views(
    monkeypatch: pytest.MonkeyPatch, view: View
) -> None:
    monkeypatch.setattr(private, "share_of_sum", with_noise(0.2))
    report = audit(view)
    assert not report.passed
    assert report.to_dict()["view"] == view


def test_a_config_with_secure_sums_is_audited_in_both_views() -> None:
    assert views_of(CONFIG) == ("sum", "alone")
    assert views_of(dataclasses.replace(CONFIG, aggregation="mean")) == (None,)
    for audited in (audit_gradients, audit_hostile_gradients):
        for view in views_of(CONFIG):
            report = audited(CONFIG, Overrides(sample_rate=1.0), 400, view=view)
            assert (report.view, report.shares) == (view, 4)
            assert report.passed


def test_a_view_is_of_secure_sums_and_of_nothing_else() -> None:
    with pytest.raises(ConfigError, match="view=None of a secure sum"):
        audit_gradients(CONFIG, Overrides(), 400)
    with pytest.raises(ConfigError, match="view='sum'"):
        audit_gradients(dataclasses.replace(CONFIG, aggregation="mean"), Overrides(), 400, view="sum")


def test_what_is_not_audited_in_sums_is_refused() -> None:
    with pytest.raises(ConfigError, match="leave --own-model out"):
        audit_own_model(CONFIG, Overrides(), 20)
    with pytest.raises(ConfigError, match="steps = 2: a round into a secure sum is one step"):
        audit_gradients(CONFIG, Overrides(steps=2), 400, view="sum")
