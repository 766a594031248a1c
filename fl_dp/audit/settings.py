"""From a run's config to an audit of its first client, on data with canaries."""

import dataclasses
from dataclasses import dataclass

from fl_dp.accounting.budget import auto_delta
from fl_dp.accounting.calibration import calibrate_noise
from fl_dp.audit.canaries import GradientCanaries
from fl_dp.audit.hostile import WatchedGradients, hostile_learning_rate
from fl_dp.audit.one_run import AuditReport, run_audit
from fl_dp.audit.ways import Deployed, MakeWay, View, in_sums
from fl_dp.config.client import ClientConfig
from fl_dp.config.flat import AUTO
from fl_dp.config.run import RunConfig
from fl_dp.data.persons import Examples
from fl_dp.errors import ConfigError
from fl_dp.federation.client.registration import auto_size
from fl_dp.federation.server.planning import expected_batch, members_shares, steps_of_round
from fl_dp.records import RESET, RoundPlan
from fl_dp.tasks.records import load_undivided

_MODEL = "audited"  # the model's name between audit and client; the audit's task brings the model itself


@dataclass(frozen=True, slots=True)
class Overrides:
    """Parts of a round's mechanism that differ from the config; None: as in the config. runs: trainings."""

    sample_rate: float | None = None
    steps: int | None = None
    runs: int = 1

    def __post_init__(self) -> None:
        if self.sample_rate is not None and not 0.0 < self.sample_rate <= 1.0:
            raise ConfigError(f"sample-rate = {self.sample_rate}: expected a number in (0, 1].")
        if self.steps is not None and self.steps < 1:
            raise ConfigError(f"steps = {self.steps}: expected an integer >= 1.")
        if self.runs < 1:
            raise ConfigError(f"runs = {self.runs}: expected an integer >= 1.")


def views_of(config: RunConfig) -> tuple[View | None, ...]:
    """The views of a run to audit: a run with secure sums has two, each with its own claim."""
    return ("sum", "alone") if config.secure else (None,)


def audit_gradients(
    config: RunConfig, overrides: Overrides, count: int, way: MakeWay = Deployed, view: View | None = None
) -> AuditReport:
    """Audit with `count` gradient canaries in place of the client's data and model.

    The mechanism is the client's: sample rate, steps, noise and bound. If the client has fewer records than
    canaries, it is given as many records as canaries; its expected batch grows by the same factor. view: one
    of `views_of`.
    """
    own_size = _declared(config, own_part(config))
    canaries = GradientCanaries(count, max(count, own_size), config.max_grad_norm, config)
    plan = _round_plan(config, overrides, own_size, canaries.public_size)
    rate = canaries.learning_rate(plan.expected_batch_size, plan.steps * config.rounds)
    plan = dataclasses.replace(plan, learning_rate=rate, loss=canaries.loss, class_weights="")
    way = in_sums(way, view, canaries.of_member) if view else way
    return _audit(canaries, plan, config, overrides, own_size, way, view=view)


def audit_hostile_gradients(
    config: RunConfig, overrides: Overrides, count: int, way: MakeWay = Deployed, view: View | None = None
) -> AuditReport:
    """`audit_gradients` by a server that sees every step: each of the config's steps is its own round."""
    own_size = _declared(config, own_part(config))
    plan = _round_plan(config, overrides, own_size, max(count, own_size))
    rounds, plan = plan.steps * config.rounds, _hostile(plan)
    seen = plan.own_multiplier if view == "alone" else plan.noise_multiplier
    watched = dataclasses.replace(plan, noise_multiplier=seen)
    canaries = WatchedGradients(count, max(count, own_size), watched, config)
    way = in_sums(way, view, canaries.of_member) if view else way
    return _audit(canaries, plan, config, overrides, own_size, way, hostile_rounds=rounds, view=view)


def _declared(config: RunConfig, part: Examples) -> int:
    """The number of units that the client declares when it enters its data in a ledger."""
    return auto_size(len(part), config)


def _hostile(plan: RoundPlan) -> RoundPlan:
    """The plan of a hostile server: one step a round, along a loss that shows the canaries' gradients."""
    rate = hostile_learning_rate(plan.expected_batch_size)
    return dataclasses.replace(
        plan,
        steps=1,
        learning_rate=rate,
        momentum=0.0,
        optimizer="sgd",
        optimizer_settings="",
        optimizer_state=RESET,
        loss=GradientCanaries.loss,
        class_weights="",
    )


def _audit(
    canaries: GradientCanaries,
    plan: RoundPlan,
    config: RunConfig,
    overrides: Overrides,
    own_size: int,
    way: MakeWay,
    *,
    hostile_rounds: int = 0,
    view: View | None = None,
) -> AuditReport:
    return run_audit(
        canaries,
        plan,
        hostile_rounds or config.rounds,
        _delta(config, own_size),
        accountant=config.accountant,
        way=way,
        hostile=hostile_rounds > 0,
        runs=overrides.runs,
        unit=config,
        view=view,
    )


def _round_plan(config: RunConfig, overrides: Overrides, own_size: int, public_size: int) -> RoundPlan:
    """The round of a client that declares `own_size` records, as it would be with `public_size` records."""
    batch = expected_batch(config, own_size)
    rate = batch / own_size if overrides.sample_rate is None else overrides.sample_rate
    steps = steps_of_round(config, own_size) if overrides.steps is None else overrides.steps
    if config.secure and steps != 1:
        raise ConfigError(f"steps = {steps}: a round into a secure sum is one step; give --rounds instead.")
    expected_batch_size = max(1, round(rate * public_size))
    noise = config.noise_multiplier
    if noise == AUTO:
        noise = calibrate_noise(
            expected_batch_size / public_size,
            steps * config.rounds,
            config.epsilon,
            _delta(config, own_size),
            accountant=config.accountant,
        )
    return RoundPlan(
        run="audit",
        server_round=1,
        model=_MODEL,
        steps=steps,
        expected_batch_size=expected_batch_size,
        learning_rate=config.learning_rate,
        momentum=config.momentum,
        noise_multiplier=float(noise),
        max_grad_norm=config.max_grad_norm,
        loss=config.loss,
        arithmetic=config.arithmetic,
        optimizer=config.optimizer,
        optimizer_settings=config.other_settings,
        optimizer_state=config.optimizer_state,
        class_weights=config.class_weights,
        clipping=config.clipping,
        shares=members_shares(config) if config.secure else 0,
    )


def _delta(config: RunConfig, own_size: int) -> float:
    return auto_delta(own_size) if config.delta == AUTO else float(config.delta)


def own_part(config: RunConfig) -> Examples:
    """The data of the run's first client."""
    own = ClientConfig(client="0", ledger="none", num_partitions=config.clients, **config.of_task())
    return load_undivided(own)
