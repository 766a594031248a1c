"""From a run's config to an audit of its first client, on data with canaries."""

import dataclasses
from dataclasses import dataclass

import torch
from torch import nn

from fl_dp.accounting.budget import auto_delta
from fl_dp.accounting.calibration import calibrate_noise
from fl_dp.audit.canaries import Canaries, GradientCanaries
from fl_dp.audit.hostile import LOSS, HostileRecords, WatchedGradients, hostile_learning_rate
from fl_dp.audit.mislabelled import MislabelledRecords
from fl_dp.audit.one_run import AuditReport, run_audit
from fl_dp.audit.ways import Deployed, MakeWay, View, in_sums
from fl_dp.config.client import ClientConfig
from fl_dp.config.flat import AUTO
from fl_dp.config.run import RunConfig
from fl_dp.data.persons import Examples, PersonData
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError
from fl_dp.federation.client.registration import auto_size
from fl_dp.federation.server.planning import expected_batch, members_shares, steps_of_round
from fl_dp.models.start import load_start
from fl_dp.records import RESET, RoundPlan
from fl_dp.tasks.load import new_model, task_of
from fl_dp.tasks.records import SERVER, load_undivided, of_client, records_of
from fl_dp.tasks.task import Task

_MISLABELLED = 1000  # the most that are used by default: each costs a backward pass in each round
_MODEL = "audited"  # the model's name between audit and client; the audit's task brings the model itself
_HOSTILE_CANARIES, _KNOWN = 500, 500  # defaults: all canaries' gradients are kept; known ones change nothing


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


def audit_own_model(
    config: RunConfig, overrides: Overrides, count: int | None, way: MakeWay = Deployed
) -> AuditReport:
    """Audit the config's model on its data, with `count` mislabelled records of the test split among them."""
    _require_no_sums(config)
    part, spare = own_part(config), spare_records(config)
    count = min(_MISLABELLED, len(spare)) if count is None else count
    if not 1 <= count <= len(spare):
        raise ConfigError(f"canaries = {count}: expected 1 to {len(spare)}, the records of the test split.")
    model = own_model(config, part)
    canaries = MislabelledRecords(model, part, first_records(spare, count), config.seed, config.loss)
    own_size = _declared(config, part)
    plan = _round_plan(config, overrides, own_size, canaries.public_size)
    return _audit(canaries, plan, config, overrides, own_size, way)


def audit_hostile_gradients(
    config: RunConfig, overrides: Overrides, count: int, way: MakeWay = Deployed, view: View | None = None
) -> AuditReport:
    """`audit_gradients` by a server that sees every step: each of the config's steps is its own round."""
    own_size = _declared(config, own_part(config))
    plan = _round_plan(config, overrides, own_size, max(count, own_size))
    rounds, plan = plan.steps * config.rounds, _hostile(plan, plan.max_grad_norm)
    seen = plan.own_multiplier if view == "alone" else plan.noise_multiplier
    watched = dataclasses.replace(plan, noise_multiplier=seen)
    canaries = WatchedGradients(count, max(count, own_size), watched, config)
    way = in_sums(way, view, canaries.of_member) if view else way
    return _audit(canaries, plan, config, overrides, own_size, way, hostile_rounds=rounds, view=view)


def audit_hostile_model(
    config: RunConfig, overrides: Overrides, count: int | None, way: MakeWay = Deployed
) -> AuditReport:
    """Audit the config's model by a server that sends hostile weights, and sees every step by itself.

    Its canaries are made for these weights: `count`, or fewer if the model has room for fewer.
    The server knows some hundreds of the first client's records, which have no gradient.
    """
    _require_no_sums(config)
    part = own_part(config)
    known, model = first_records(records_of_examples(part), _KNOWN), own_model(config, part)
    canaries = HostileRecords(
        model, config.model, known, _HOSTILE_CANARIES if count is None else count, config.seed, config
    )
    own_size = _declared(config, part)
    plan = _round_plan(config, overrides, own_size, canaries.public_size)
    rounds, plan = plan.steps * config.rounds, _hostile(plan, canaries.max_grad_norm(plan.max_grad_norm))
    canaries.watch(plan)
    return _audit(canaries, plan, config, overrides, own_size, way, hostile_rounds=rounds)


def _declared(config: RunConfig, part: Examples) -> int:
    """The number of units that the client declares when it enters its data in a ledger."""
    return auto_size(len(part), config)


def _require_no_sums(config: RunConfig) -> None:
    """ConfigError for secure sums: we would have to invent the other members' records."""
    if config.secure:
        raise ConfigError(
            f"aggregation = {config.aggregation!r}: secure sums are audited with gradient canaries; leave "
            "--own-model out."
        )


def _hostile(plan: RoundPlan, max_grad_norm: float) -> RoundPlan:
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
        loss=LOSS,
        class_weights="",
        max_grad_norm=max_grad_norm,
    )


def _audit(
    canaries: Canaries,
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
        optimizer_settings=config.optimizer_settings,
        optimizer_state=config.optimizer_state,
        class_weights=config.class_weights,
        precision=config.precision,
        clipping=config.clipping,
        shares=members_shares(config) if config.secure else 0,
    )


def _delta(config: RunConfig, own_size: int) -> float:
    return auto_delta(own_size) if config.delta == AUTO else float(config.delta)


_OF_THE_LOSS = ("losses", "outputs", "weights")  # parts of a task that an audit's own task does not have


def own_part(config: RunConfig) -> Examples:
    """The data of the run's first client."""
    own = ClientConfig(client="0", ledger="none", num_partitions=config.clients, **config.of_task())
    return load_undivided(own)


def records_of_examples(data: Examples) -> TensorData:
    """The records of the examples, whether these are records or persons."""
    return data.records if isinstance(data, PersonData) else data


def spare_records(config: RunConfig) -> TensorData:
    """The server's test data; ConfigError if it has none."""
    found = records_of(task_of(of_client(config, SERVER)), "test")
    if found is None:
        raise ConfigError("--own-model makes canaries of test data, and there are none.")
    return found


def own_model(config: RunConfig, part: Examples) -> nn.Module:
    """What clients train in the first round: the start weights, the adapters, and the frozen parts.

    Raises ConfigError for a task with a loss of its own: an audit's canaries are made for the built-in ones.
    """
    task = task_of(config)
    own = [name for name in _OF_THE_LOSS if getattr(type(task), name) is not getattr(Task, name)]
    if own:
        raise ConfigError(
            f"task = {config.task!r}: it has {own[0]}() of its own, and --own-model audits a model under one "
            "of the built-in losses. Leave --own-model out."
        )
    task.form = part.form
    model = new_model(task)
    load_start(model, config.start)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ConfigError("--own-model: nothing of this model is trained, so there is nothing to audit.")
    return model


def first_records(data: TensorData, count: int) -> TensorData:
    """The first `count` records, or all if there are fewer."""
    return data.subset(torch.arange(min(count, len(data))))
