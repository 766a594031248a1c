"""Checks before a process is started, after the quick ones: choices, paths, data, parts, model, budget."""

import dataclasses
import math
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch

from fl_dp.accounting.budget import Budget, auto_delta
from fl_dp.accounting.ledger.files import ledger_file
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.config.data import RECORD
from fl_dp.config.flat import AUTO
from fl_dp.config.run import RunConfig
from fl_dp.data.fixed_features import features_of
from fl_dp.data.partition_scheme import PartitionSettings, choose_partition
from fl_dp.data.source import absolute_name, absolute_schema, choose_source
from fl_dp.data.tensor_data import TensorData
from fl_dp.data.tokens import absolute_tokenizer
from fl_dp.durable_files import private_folder
from fl_dp.errors import AccountingError, ConfigError, DataError, LedgerError, ModelError
from fl_dp.federation.client.registration import auto_size
from fl_dp.federation.devices import find_device
from fl_dp.federation.server.aggregation import check_aggregation
from fl_dp.federation.server.evaluation import try_own_metrics
from fl_dp.federation.server.optimizer import server_optimizer_of
from fl_dp.federation.server.planning import round_mechanism
from fl_dp.launch.ledger_entry import check_copies
from fl_dp.models.build import choose_model
from fl_dp.models.names import absolute_model, is_own_code
from fl_dp.models.start import load_start
from fl_dp.records import ClientProfile
from fl_dp.tasks.load import absolute_task, new_model, task_class, task_of
from fl_dp.tasks.metric import check_metrics
from fl_dp.tasks.own_code import own_function, own_parts
from fl_dp.tasks.records import evaluation_records, load_parts
from fl_dp.tasks.task import Task
from fl_dp.tasks.validation import check_losses
from fl_dp.training.examples import axes_of
from fl_dp.training.local_algorithm import check_algorithm, personal_names
from fl_dp.training.losses import loss_of
from fl_dp.training.optimizers import check_optimizer, settings_of
from fl_dp.training.trainer import trainable

_FEW_STEPS = 30  # no model was seen to learn well in fewer
_ALWAYS_MET = 1.0  # an epsilon that some noise meets for any plan; to compute it takes a while
_RAISING = nullcontext()


@dataclasses.dataclass(frozen=True, slots=True)
class Checked:
    """config: with absolute paths. notes: for the user. sizes: the declared, public number of records or
    persons of each client; empty if clients are elsewhere, or if their data cannot be used.
    """

    config: RunConfig
    notes: tuple[str, ...]
    sizes: tuple[int, ...] = ()


def preflight(
    config: RunConfig,
    *,
    clients: bool,
    each: AbstractContextManager[Any, bool | None] = _RAISING,
    check_task: Callable[[RunConfig], bool] = lambda config: True,
    budget: bool = True,
    doing: Callable[[str], None] = lambda words: None,
) -> Checked:
    """Everything that a run needs, after `check_first`: choices, data, split, model and budget.

    clients: whether they are on this machine, too; their records are then read and split. each: entered for
    each step that is independent of the others; if it swallows errors, all steps are tried. check_task: also
    checks task and model; False if the server's checks would only find the same again. budget: whether some
    client must be able to take a step. doing: called with words for what takes a while. Raises FlDpError.
    """
    check_choices(config)
    config = with_absolute_paths(config)
    sizes, notes = tuple[int, ...](), tuple(_of_settings(config))

    with each:
        find_device(config.device)  # otherwise the run would end as soon as it has begun
    with each:
        if clients:
            doing("reading the training data and splitting them among the clients")
            sizes, notes = split(config)
    with each:
        doing("checking the model and the test data")
        if (sizes or not clients) and check_task(config):
            check_server(config)
    if sizes and budget:
        check_budget(config, max(sizes))
    return Checked(config, notes, sizes)


def check_choices(config: RunConfig) -> None:
    """Raise ConfigError for a choice whose file cannot be used, or with a wrong argument or wrong settings.

    Imports the chosen files, and torch with them, but reads no data.
    """
    if config.task:
        task_class(config.task)
    choose_source(config.data)
    features_of(config.features)
    if is_own_code(config.model):
        own_function(config.model)
    else:
        choose_model(config.model)
    choose_partition(PartitionSettings.of(config))
    loss_of(config.loss)
    settings_of(config.optimizer, config.other_settings, config.momentum)
    check_algorithm(config.local_algorithm, config.pull, config.learning_rate, config.optimizer)
    if config.strategy:
        own_parts(config.strategy)
    check_aggregation(config)
    server_optimizer_of(config.server_optimizer)


def with_absolute_paths(config: RunConfig) -> RunConfig:
    """`config` with absolute paths: the same from any working directory. Raises as `check_choices` does."""
    data_root = Path(config.data_root).expanduser().absolute()
    return dataclasses.replace(
        config,
        data=absolute_name(config.data),
        data_root=str(data_root),
        model=absolute_model(config.model),
        start=config.start and str(Path(config.start).expanduser().absolute()),
        schema=absolute_schema(config.schema),
        tokenizer=absolute_tokenizer(config.tokenizer),
        task=config.task and absolute_task(config.task),
    )


def check_server(config: RunConfig) -> None:
    """Find the device, load the test data, build the model, and check that the engine can protect it. Try the
    metrics of the user's own.

    This needs the form of the data; if there are none here, the clients check it.

    Raises DataError, TaskError, and ConfigError if a setting is at fault: an unknown name, a model that does
    not fit the data, or one that cannot be trained privately.
    """
    device = find_device(config.device)  # otherwise the run would end as soon as it has begun
    task = task_of(config)
    test = evaluation_records(config, task)
    if task.known_form is not None:
        task.check_loss()
    if config.server_evaluates:
        check_metrics(task, config.metric_names, test)
    try:
        model = new_model(task)
        load_start(model, config.start)
    except ModelError as error:
        raise ConfigError(str(error)) from error
    check_optimizer(config.optimizer, config.other_settings, config.momentum, list(model.parameters()))
    personal_names(config.personal, tuple(trainable(model)))
    if task.known_form is None:
        return  # the user's own model() and no data here: each client checks it before it pays
    try:
        objective = task.objective
        check_losses(task, model)
        axes_of(model, objective, torch.device("cpu"))
    except ModelError as error:
        whose = f"model = {config.model!r}" if type(task).model is Task.model else f"model() of {config.task}"
        raise ConfigError(f"{whose} cannot be trained privately on {task.form}: {error}") from error
    if test is not None:
        try_own_metrics(model, test, task, device, config.metric_names)


def check_ledgers(folder: Path | None) -> None:
    """Raise ConfigError unless the folder, which is made, can hold the clients' ledger; None: a new one."""
    if folder is None:
        return

    file = ledger_file(folder)
    try:
        private_folder(file.parent)
    except OSError as error:
        raise ConfigError(f"--ledger {folder}: cannot be written: {error.strerror}.") from None
    if not os.access(file.parent, os.W_OK | os.X_OK):
        raise ConfigError(f"--ledger {folder}: cannot be written; name another folder.")
    if file.exists():
        try:
            Ledger.open_existing(file).close()
        except LedgerError as error:
            raise ConfigError(f"--ledger {folder}: {error}") from error


def split(config: RunConfig) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Load the training data, downloading them once for all clients, and split them: declared sizes, notes.

    Raises DataError, and ConfigError if the clients, whose settings come from the run, would decline.
    """
    if config.site_metrics and not config.test:
        raise ConfigError(
            "site-metrics = true: no client here has test records; set test to a share of the records, such "
            'as 0.2, or "own".'
        )
    train, parts = load_parts(config)
    unit_of = train.groups if config.unit != RECORD else range(len(train))

    if config.unit != RECORD:
        _check_sites_of_a_person(config, [{unit_of[row] for row in part.tolist()} for part in parts])
    check_copies(config)
    kept = 1 - config.test_share  # about: a secret hash decides
    units = [max(1, round(kept * len({unit_of[row] for row in part.tolist()}))) for part in parts]
    sizes = tuple(auto_size(number, config) for number in units)
    return sizes, (*_notes(config, train, min(sizes)), *_of_settings(config))


def check_budget(config: RunConfig, largest: int) -> None:
    """Raise ConfigError if no client could take one step of the run, however little its data have spent.

    largest: declared number of records, or persons, of the largest client, whose steps cost least.
    """
    if not config.private or config.epsilon >= _ALWAYS_MET:
        return

    delta = auto_delta(largest) if config.delta == AUTO else float(config.delta)
    fresh = ClientProfile("preflight", largest, config.epsilon, delta, (), config.accountant)
    try:
        one = round_mechanism(fresh, config)
        budget = Budget(config.epsilon, delta, config.accountant)
        fits = budget.steps_that_fit(one.once, ())
    except AccountingError as error:
        raise ConfigError(
            f"epsilon = {config.epsilon:g}: no amount of noise meets this budget. {error}"
        ) from None
    if not fits:
        raise ConfigError(
            f"epsilon = {config.epsilon:g}: the budget has no room for a step with noise-multiplier = "
            f"{one.noise_multiplier:g}; choose a larger epsilon, more noise or a smaller "
            "expected-batch-size."
        )


def _check_sites_of_a_person(config: RunConfig, persons: Sequence[Collection[str | int]]) -> None:
    """Raise DataError if somebody has records at several clients: no epsilon here counts them together."""
    most = max(Counter(person for one in persons for person in one).values())
    if most > 1:
        raise DataError(
            f"partition = {config.partition!r}: a person has records, and spends a budget, at up to {most} "
            "clients, whose epsilons would add up. Use a partition that keeps persons together."
        )


def _of_settings(config: RunConfig) -> Iterator[str]:
    if config.secure and config.rounds < _FEW_STEPS:
        yield (
            f'with aggregation = "secure" a round is one step, so rounds = {config.rounds} trains only that '
            "many steps: a model needs tens or hundreds, at the same epsilon"
        )
    if config.personal and not config.test:
        yield (
            f"personal = {config.personal!r}: no site sends these parameters, so the server measures "
            "nothing; in a simulation test = 0.2 lets each client's own model be measured"
        )
    if not config.private:
        yield (
            f'privacy = "off" clips nothing: gradients longer than max-grad-norm = {config.max_grad_norm:g} '
            f"make longer steps than with privacy at the same learning-rate = {config.learning_rate:g}. For "
            "a fair comparison try a smaller rate, too"
        )


def _notes(config: RunConfig, train: TensorData, smallest: int) -> Iterator[str]:
    """Notes about the training data, and about the smallest declared client."""
    units, column = f"{config.unit_name}s", train.grouped_by
    if smallest < config.expected_batch_size:
        yield (
            f"the smallest client declares {smallest} {units}; a client with fewer than "
            f"expected-batch-size = {config.expected_batch_size} uses all its {units} in every step"
        )
    if column and config.unit == RECORD and config.partition != f"by:{column}":
        yield (
            f"epsilon protects one record, but the records are grouped by {column!r}; if these are "
            f"persons, set unit = person:{column} and records-per-person = N to protect a person with all "
            "records"
        )
    if train.features is not None:  # a cache beside the records; it is computed when training starts
        size = len(train) * math.prod(train.form.input_shape) * 4 / 2**20  # float32
        yield (
            f"features {train.features.name} of all records take {size:.0f} MiB and are computed before "
            "the first step"
        )
