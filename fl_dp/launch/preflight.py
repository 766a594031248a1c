"""Checks before a process is started: names, paths, data, parts, model."""

import dataclasses
import glob
import math
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fl_dp.accounting.accountant import check_holds_budgets
from fl_dp.accounting.ledger.files import ledger_file
from fl_dp.choices import FEATURES, SOURCES
from fl_dp.config.data import CLIENT, RECORD
from fl_dp.config.flat import AUTO
from fl_dp.config.run import RunConfig
from fl_dp.config.task import TaskSettings
from fl_dp.durable_files import private_folder
from fl_dp.errors import AccountingError, ConfigError, DataError, LedgerError, ModelError
from fl_dp.launch.ledger_place import check_copies
from fl_dp.launch.processes import cores
from fl_dp.models.names import absolute_model, check_name, is_own_code
from fl_dp.records import ClientProfile
from fl_dp.reporting.wording import some

if TYPE_CHECKING:
    from fl_dp.data.tensor_data import TensorData

_FEW_STEPS = 30  # no model was seen to learn well in fewer
_ALWAYS_MET = 1.0  # an epsilon that some noise meets for any plan; to compute it takes a while
_RAISING = nullcontext()
SERVER = "server"  # stands for the client in the name of the server's file; as in tasks/records.py


def check_files(settings: TaskSettings, clients: Sequence[str] = ()) -> None:
    """Raise DataError if the data, or a named schema, do not exist. A task of the user's own is not checked.

    clients: the names to put in place of `{client}`.
    """
    kind, _, path = settings.data.partition(":")
    if settings.task or not path or not takes_path(kind):
        return
    names = clients if settings.by_client else ("",)
    for name in names:
        file = Path(path.replace(CLIENT, name)).expanduser().absolute()
        if not file.exists():
            whose = f"client {name}: " if settings.by_client else ""
            rename = _rename(path) if name.isdecimal() else ""
            raise DataError(f"{whose}{file}: no such file, named by data = {settings.data!r}.{rename}")
    if settings.schema and not (schema := Path(settings.schema).expanduser().absolute()).exists():
        raise DataError(f"{schema}: no such schema file; `fl-dp schema FILE` drafts one.")


def clients_there(path: str) -> list[str]:
    """The names in place of `{client}` in the files that match `path`, sorted; the server's may be one."""
    before, _, after = str(Path(path).expanduser().absolute()).partition(CLIENT)
    found = glob.glob(f"{glob.escape(before)}*{glob.escape(after)}")
    return sorted(file[len(before) : len(file) - len(after)] for file in found)


def _rename(path: str) -> str:
    """What to do if all clients' files are called by names; empty if there are none, or some by numbers."""
    named = [name for name in clients_there(path) if name != SERVER]
    if not named or any(map(str.isdecimal, named)):
        return ""
    before, _, after = path.partition(CLIENT)
    part = before.rpartition("/")[2] + CLIENT + after.partition("/")[0]  # a file or folder
    return (
        f" Clients of a run on one machine are called 0, 1, ...; found were {some(named)}: rename the files "
        f"or link them, such as ln -s {part.replace(CLIENT, named[0])} {part.replace(CLIENT, '0')}."
    )


def takes_path(source: str) -> bool:
    """Whether the file of a built-in source says `is_path=True`; it is not imported, as it needs PyTorch."""
    spec = find_spec(SOURCES.module(source)) if source in SOURCES.built_in() else None
    return bool(spec and spec.origin and "is_path=True" in Path(spec.origin).read_text(encoding="utf-8"))


def check_first(config: RunConfig, *, clients: bool) -> None:
    """The quick checks, before PyTorch is imported: files and names. Raises DataError and ConfigError.

    clients: whether they are on this machine, too.
    """
    if clients:
        check_files(config, [str(client) for client in range(config.clients)])
    if config.evaluate == "server":
        check_files(config, [SERVER])
    check_holds_budgets(config.accountant)
    SOURCES.check(config.data)
    if config.features:
        FEATURES.check(config.features)
    check_name(config.model)
    from fl_dp.reporting.tracking import check_trackers  # late: a client's checks need no tracker

    check_trackers(config.track_names)


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

    clients: whether they are on this machine, too; their records are then read and split. each: the context
    of each step that others do not need; one that swallows errors lets all steps be tried. check_task: also
    checks task and model; false if it has found what the server's checks would find again. budget: whether
    some client must be able to take a step. doing: told what takes a while. Raises FlDpError.
    """
    check_choices(config)
    config = with_absolute_paths(config)
    sizes, notes = tuple[int, ...](), tuple(_of_settings(config))
    from fl_dp.federation.devices import find_device  # late: imports torch

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
    from fl_dp.data.fixed_features import features_of
    from fl_dp.data.partition_scheme import PartitionSettings, choose_partition
    from fl_dp.data.source import choose_source
    from fl_dp.federation.server.aggregation import check_aggregation
    from fl_dp.federation.server.optimizer import server_optimizer_of
    from fl_dp.models.build import choose_model
    from fl_dp.tasks.own_code import own_function, own_parts
    from fl_dp.training.local_algorithm import check_algorithm
    from fl_dp.training.losses import loss_of
    from fl_dp.training.optimizers import settings_of

    if config.task:
        from fl_dp.tasks.load import task_class

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
    from fl_dp.data.source import absolute_name, absolute_schema
    from fl_dp.data.tokens import absolute_tokenizer

    data_root = Path(config.data_root).expanduser().absolute()
    task = config.task
    if task:
        from fl_dp.tasks.load import absolute_task

        task = absolute_task(task)
    return dataclasses.replace(
        config,
        data=absolute_name(config.data),
        data_root=str(data_root),
        model=absolute_model(config.model),
        start=config.start and str(Path(config.start).expanduser().absolute()),
        schema=absolute_schema(config.schema),
        tokenizer=absolute_tokenizer(config.tokenizer),
        task=task,
    )


def check_server(config: RunConfig) -> None:
    """Find the device, load the test data, build the model, and check that the engine can protect it. Try the
    metrics of the user's own.

    This needs the form of the data; if there are none here, the clients check it.

    Raises DataError, TaskError, and ConfigError if a setting is at fault: an unknown name, a model that does
    not fit the data, or one that cannot be trained privately.
    """
    import torch

    from fl_dp.federation.devices import find_device
    from fl_dp.federation.server.evaluation import try_own_metrics
    from fl_dp.models.start import load_start
    from fl_dp.tasks.load import new_model, task_of
    from fl_dp.tasks.metric import check_metrics
    from fl_dp.tasks.records import evaluation_records
    from fl_dp.tasks.task import Task
    from fl_dp.tasks.validation import check_losses
    from fl_dp.training.examples import axes_of
    from fl_dp.training.local_algorithm import personal_names
    from fl_dp.training.optimizers import check_optimizer
    from fl_dp.training.trainer import trainable

    device = find_device(config.device)  # otherwise the run would end as soon as it has begun
    task = task_of(config)
    test = evaluation_records(config, task)
    if task.known_form is not None:
        task.check_loss()
    if config.evaluate == "server":
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


def check_room(config: RunConfig) -> None:
    """Raise ConfigError if this machine simulates alone and has no room for one client."""
    import torch

    from fl_dp.simulation.cluster.resources import Node, share

    share(config, [Node(cores(), torch.cuda.device_count(), 0)])


def check_ledgers(folder: Path | None) -> None:
    """Raise ConfigError unless the folder, which is made, can hold the clients' ledger; None: a new one."""
    if folder is None:
        return
    from fl_dp.accounting.ledger.ledger import Ledger

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
    from fl_dp.federation.client.registration import auto_size
    from fl_dp.tasks.records import load_parts

    if config.site_metrics and not config.test:
        raise ConfigError(
            "site-metrics = true: no client here has test records; set test to a share of the records, such "
            'as 0.2, or "own".'
        )
    train, parts = load_parts(config)
    whose = train.groups if config.unit != RECORD else range(len(train))

    if config.unit != RECORD:
        _check_sites_of_a_person(config, [{whose[row] for row in part.tolist()} for part in parts])
    check_copies(config)
    kept = 1 - config.test_share  # about: a secret hash decides
    units = [max(1, round(kept * len({whose[row] for row in part.tolist()}))) for part in parts]
    sizes = tuple(auto_size(number, config) for number in units)
    return sizes, (*_notes(config, train, min(sizes)), *_of_settings(config))


def check_budget(config: RunConfig, largest: int) -> None:
    """Raise ConfigError if no client could take one step of the run, however little its data have spent.

    largest: declared number of records, or persons, of the largest client, whose steps cost least.
    """
    if not config.private or config.epsilon >= _ALWAYS_MET:
        return
    from fl_dp.accounting.budget import Budget, auto_delta
    from fl_dp.federation.server.planning import round_mechanism

    delta = auto_delta(largest) if config.delta == AUTO else float(config.delta)
    fresh = ClientProfile("preflight", largest, config.epsilon, delta, (), config.accountant)
    try:
        one = round_mechanism(fresh, config)
        budget = Budget(config.epsilon, delta, config.accountant)
        fits = budget.steps_that_fit(one.once, ())
    except AccountingError as error:
        raise ConfigError(
            f"epsilon = {config.epsilon:g}: no noise is enough for this budget. {error}"
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
            "clients, whose epsilons would add up. Take a partition that keeps persons together."
        )


def _of_settings(config: RunConfig) -> Iterator[str]:
    if config.secure and config.rounds < _FEW_STEPS:
        yield (
            f'with aggregation = "secure" a round is one step, so rounds = {config.rounds} trains only that '
            "many steps: a model needs tens or hundreds, at the same epsilon"
        )
    if not config.private:
        yield (
            f'privacy = "off" clips nothing: gradients longer than max-grad-norm = {config.max_grad_norm:g} '
            f"take longer steps than with privacy at learning-rate = {config.learning_rate:g}, and may "
            "compare badly; compare with a smaller rate, too"
        )


def _notes(config: RunConfig, train: "TensorData", smallest: int) -> Iterator[str]:
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
