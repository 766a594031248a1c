"""What a server prepares before its first round: the task, its test data, the model and the strategy."""

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from flwr.app import ArrayRecord, MetricRecord
from torch import nn

from fl_dp.config.run import RunConfig
from fl_dp.config.run_settings import BEST
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError
from fl_dp.federation.devices import find_device
from fl_dp.federation.server import evaluation
from fl_dp.federation.server.keep import Evaluate
from fl_dp.federation.server.run_record import RunRecord
from fl_dp.federation.server.strategy import PrivateStrategy, usual_parts
from fl_dp.federation.wire.arrays import (
    ArraySpec,
    NDArray,
    decode,
    encode,
    load_arrays,
    shared_specs,
    specs,
    state_arrays,
)
from fl_dp.models.start import load_start
from fl_dp.reporting.console import RoundLines
from fl_dp.reporting.reports import RoundReport
from fl_dp.tasks.constant import constant_prediction
from fl_dp.tasks.held_out import cap_of
from fl_dp.tasks.identity import code_identity
from fl_dp.tasks.load import new_model, task_of
from fl_dp.tasks.own_code import own_parts
from fl_dp.tasks.records import evaluation_records
from fl_dp.tasks.score_histogram import Layout
from fl_dp.tasks.task import Task

logger = logging.getLogger("fl_dp")


@dataclass(frozen=True)
class PreparedRun:
    """What one run needs; it starts from `arrays`.

    evaluate: on test data that rounds may use. evaluate_at_the_end: on test data that no round has seen, if
    the best model is kept; None if the last one is, which `evaluate` has measured. max_grad_norm: None
    without privacy. evaluate_constant: the best constant prediction, on the data of the run's metrics.
    outcomes: what `model`, as it is by then, answers to them.
    """

    task: Task
    model: "nn.Module"
    strategy: PrivateStrategy
    evaluate: Evaluate
    arrays: ArrayRecord
    evaluate_at_the_end: Callable[[ArrayRecord], MetricRecord] | None
    max_grad_norm: float | None
    task_identity: str
    evaluate_constant: Callable[[], MetricRecord]
    outcomes: Callable[[], Mapping[str, object]]


def prepare(
    config: RunConfig, run: str, record: RunRecord, on_round: Callable[[RoundReport], None]
) -> PreparedRun:
    """Build what `config` names, from the state of `record` if resumed; FlDpError if that is impossible.

    run: its name in the clients' ledgers. `record` and `on_round` are told of each round.
    """
    task = task_of(config)
    test, at_the_end = evaluation_records(config, task), None
    if config.site_metrics:
        Layout.of(task.form, cap_of(config))  # ConfigError for a task that has no classes
    model = new_model(task)
    load_start(model, config.start)
    arrays = state_arrays(model)
    expected = specs(arrays)
    device = find_device(config.device)
    measured = partial(_measured, model, task, config, expected, device)
    if config.keep_model == BEST and test is not None:
        test, at_the_end = evaluation.halves(test)
    strategy = _strategy(model, config, run, record, on_round)
    if test is not None:
        evaluation.try_own_metrics(model, test, task, device, config.metric_names)
    if record.state:
        arrays = _resumed(strategy, record, config, expected)
    of_metrics = test if at_the_end is None else at_the_end
    return PreparedRun(
        task,
        model,
        strategy,
        lambda server_round, arrays: measured(test, arrays),
        encode(arrays),
        None if at_the_end is None else partial(measured, at_the_end),
        config.max_grad_norm if config.private else None,
        code_identity(task),
        partial(_of_constant, task, config, of_metrics),
        partial(evaluation.outcomes, model, of_metrics, task, device),
    )


def _measured(
    model: "nn.Module",
    task: Task,
    config: RunConfig,
    expected: Mapping[str, ArraySpec],
    device: "torch.device",
    data: "TensorData | None",
    arrays: ArrayRecord,
) -> MetricRecord:
    """Loss and metrics of the weights on `data`; empty without data. Loads the weights into `model`."""
    if data is None:
        return MetricRecord()
    load_arrays(model, decode(arrays, expected))
    return _record(evaluation.evaluate(model, data, task, device, config.metric_names))


def _of_constant(task: Task, config: RunConfig, data: "TensorData | None") -> MetricRecord:
    """Loss and metrics of the best constant prediction, but for the user's own, which may fail on it.

    Empty if it is not known.
    """
    model = constant_prediction(task, data) if data is not None else None
    if model is None or data is None:
        return MetricRecord()
    names = config.metric_names or tuple(one for one in task.metrics if isinstance(one, str))
    return _record(evaluation.evaluate(model, data, task, find_device("cpu"), names))


def _record(result: evaluation.Evaluation) -> MetricRecord:
    # a MetricRecord holds numbers alone; reports write null for NaN
    metrics = {name: math.nan if value is None else value for name, value in result.metrics.items()}
    return MetricRecord({"loss": result.loss, **metrics})


def _strategy(
    model: "nn.Module",
    config: RunConfig,
    run: str,
    record: RunRecord,
    on_round: Callable[[RoundReport], None],
) -> PrivateStrategy:
    lines = RoundLines()

    def report_round(report: RoundReport) -> None:
        record.round_over(strategy, report)
        on_round(report)
        logger.info(lines.of(report, config.rounds))

    strategy = PrivateStrategy(
        config,
        run,
        shared_specs(model, config.personal),
        on_round=report_round,
        on_registered=lambda: record.keep(strategy),
        make_parts=own_parts(config.strategy) if config.strategy else usual_parts,
    )
    return strategy


def _resumed(
    strategy: PrivateStrategy, record: RunRecord, config: RunConfig, expected: Mapping[str, ArraySpec]
) -> dict[str, NDArray]:
    """Restore the strategy; returns the weights of the saved state. ConfigError for another run's state."""
    assert record.state is not None
    record.state.check_same(config)
    if specs(record.state.arrays) != expected:
        raise ConfigError(f"the run's state holds weights of another model than {config.model}.")
    strategy.resume(record.state)
    record.kept = strategy.kept
    record.make_room()
    return dict(record.state.arrays)
