"""From a run's config to an audit of its first client, on data with canaries."""

import dataclasses

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

_MODEL = "audited"  # the model's name in the plan; the audit's task holds the model itself


def audit_gradients(
    config: RunConfig,
    count: int,
    way: MakeWay = Deployed,
    *,
    hostile: bool = False,
    sample_rate: float | None = None,
    steps: int | None = None,
    runs: int = 1,
) -> AuditReport:
    """Audit with `count` gradient canaries in place of the client's data and model.

    The mechanism is the client's: sample rate, steps, noise and clipping bound. A client with fewer records
    than canaries is given as many records as canaries, and its expected batch grows by the same factor.

    hostile: the server sees every step: each of the config's steps becomes a round, and the loss shows the
    canaries' gradients. sample_rate, steps of a round: None for the config's. runs: number of trainings.
    """
    own_size = _own_size(config)
    public_size, rounds = max(count, own_size), config.rounds
    plan = _round_plan(config, own_size, public_size, sample_rate, steps)
    if hostile:
        rounds *= plan.steps
        plan = dataclasses.replace(
            plan,
            steps=1,
            learning_rate=hostile_learning_rate(plan.expected_batch_size),
            momentum=0.0,
            optimizer="sgd",
            optimizer_settings="",
            optimizer_state=RESET,
        )
        canaries: GradientCanaries = WatchedGradients(count, public_size, plan, config)
    else:
        canaries = GradientCanaries(count, public_size, config.max_grad_norm, config)
        rate = canaries.learning_rate(plan.expected_batch_size, plan.steps * rounds)
        plan = dataclasses.replace(plan, learning_rate=rate)
    return run_audit(
        canaries,
        dataclasses.replace(plan, loss=canaries.loss, class_weights=""),
        rounds,
        _delta(config, own_size),
        accountant=config.accountant,
        way=way,
        hostile=hostile,
        runs=runs,
        unit=config,
    )


def _round_plan(
    config: RunConfig, own_size: int, public_size: int, sample_rate: float | None, steps: int | None
) -> RoundPlan:
    """The round of a client with `own_size` records, as it would be with `public_size` records."""
    if sample_rate is not None and not 0.0 < sample_rate <= 1.0:
        raise ConfigError(f"sample-rate = {sample_rate}: expected a number in (0, 1].")
    if steps is not None and steps < 1:
        raise ConfigError(f"steps = {steps}: expected an integer >= 1.")
    if config.secure:
        raise ConfigError(
            f"aggregation = {config.aggregation!r}: an audit trains one client, without a secure sum. Steps "
            'and noise are those of aggregation = "mean": audit that.'
        )
    sample_rate = sample_rate or expected_batch(config, own_size) / own_size
    steps = steps or steps_of_round(config, own_size)
    expected_batch_size = max(1, round(sample_rate * public_size))
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
    """The number of units that the run's first client declares when it registers its data in a ledger."""
    own = ClientConfig(client="0", ledger="none", num_partitions=config.clients, **config.of_task())
    return auto_size(len(load_undivided(own)), config)
