"""From a run's config to an audit of its first client, on data with canaries."""

import dataclasses
from dataclasses import dataclass

from fl_dp.accounting.budget import auto_delta
from fl_dp.accounting.calibration import calibrate_noise
from fl_dp.audit.canaries import GradientCanaries, WatchedGradients, hostile_learning_rate
from fl_dp.audit.one_run import AuditReport, run_audit
from fl_dp.audit.ways import Deployed, MakeWay
from fl_dp.config.client import ClientConfig
from fl_dp.config.flat import AUTO
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.federation.client.registration import auto_size
from fl_dp.federation.server.planning import expected_batch, steps_of_round
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


def audit_gradients(
    config: RunConfig, overrides: Overrides, count: int, way: MakeWay = Deployed
) -> AuditReport:
    """Audit with `count` gradient canaries in place of the client's data and model.

    The mechanism is the client's: sample rate, steps, noise and bound. If the client has fewer records than
    canaries, it is given as many records as canaries; its expected batch grows by the same factor.
    """
    own_size = _own_size(config)
    canaries = GradientCanaries(count, max(count, own_size), config.max_grad_norm, config)
    plan = _round_plan(config, overrides, own_size, canaries.public_size)
    rate = canaries.learning_rate(plan.expected_batch_size, plan.steps * config.rounds)
    plan = dataclasses.replace(plan, learning_rate=rate, loss=canaries.loss, class_weights="")
    return run_audit(
        canaries,
        plan,
        config.rounds,
        _delta(config, own_size),
        accountant=config.accountant,
        way=way,
        runs=overrides.runs,
        unit=config,
    )


def audit_hostile_gradients(
    config: RunConfig, overrides: Overrides, count: int, way: MakeWay = Deployed
) -> AuditReport:
    """`audit_gradients` by a server that sees every step: each of the config's steps is its own round, along
    a loss that shows the canaries' gradients.
    """
    own_size = _own_size(config)
    plan = _round_plan(config, overrides, own_size, max(count, own_size))
    rounds = plan.steps * config.rounds
    plan = dataclasses.replace(
        plan,
        steps=1,
        learning_rate=hostile_learning_rate(plan.expected_batch_size),
        momentum=0.0,
        optimizer="sgd",
        optimizer_settings="",
        optimizer_state=RESET,
        loss=GradientCanaries.loss,
        class_weights="",
    )
    canaries = WatchedGradients(count, max(count, own_size), plan, config)
    return run_audit(
        canaries,
        plan,
        rounds,
        _delta(config, own_size),
        accountant=config.accountant,
        way=way,
        hostile=True,
        runs=overrides.runs,
        unit=config,
    )


def _round_plan(config: RunConfig, overrides: Overrides, own_size: int, public_size: int) -> RoundPlan:
    """The round of a client that declares `own_size` records, as it would be with `public_size` records."""
    if config.secure:
        raise ConfigError(
            f"aggregation = {config.aggregation!r}: an audit trains one client, and no secure sum. Its steps "
            'and its noise are those of aggregation = "mean": audit that.'
        )
    batch = expected_batch(config, own_size)
    rate = batch / own_size if overrides.sample_rate is None else overrides.sample_rate
    steps = steps_of_round(config, own_size) if overrides.steps is None else overrides.steps
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
    )


def _delta(config: RunConfig, own_size: int) -> float:
    return auto_delta(own_size) if config.delta == AUTO else float(config.delta)


def _own_size(config: RunConfig) -> int:
    """The number of units that the run's first client declares when it enters its data in a ledger."""
    own = ClientConfig(client="0", ledger="none", num_partitions=config.clients, **config.of_task())
    return auto_size(len(load_undivided(own)), config)
