"""What a server prepares before its first round: the task, its test data, the model and the strategy."""

import logging
import math
from collections.abc import Callable, Mapping

from flwr.app import ArrayRecord, MetricRecord
from torch import nn

from fl_dp.config.run import RunConfig
from fl_dp.config.run_settings import BEST
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError
from fl_dp.federation.devices import find_device
from fl_dp.federation.server import evaluation
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

logger = logging.getLogger("fl_dp")


class PreparedRun:
    """What one run needs; it starts from `arrays`.

    If the best model is kept, rounds measure it on one half of the test data (`evaluate`), and the end of the
    run on the other half, which no round has seen (`evaluate_at_the_end`).
    """

    def __init__(
        self, config: RunConfig, run: str, record: RunRecord, on_round: Callable[[RoundReport], None]
    ) -> None:
        """Build what `config` names, from the state of `record` if resumed; FlDpError if that is impossible.

        run: its name in the clients' ledgers. `record` and `on_round` are told of each round.
        """
        self._config, self._device = config, find_device(config.device)
        self.task = task = task_of(config)
        self._test, self._unseen = evaluation_records(config, task), None
        if config.site_metrics:
            Layout.of(task.form, cap_of(config))  # ConfigError for a task that has no classes
        self.model = new_model(task)
        load_start(self.model, config.start)
        arrays = state_arrays(self.model)
        self._expected = specs(arrays)
        if config.keep_model == BEST and self._test is not None:
            self._test, self._unseen = evaluation.halves(self._test)
        self.strategy = _strategy(self.model, config, run, record, on_round)
        if self._test is not None:
            evaluation.try_own_metrics(self.model, self._test, task, self._device, config.metric_names)
        if record.state:
            arrays = _resumed(self.strategy, record, config, self._expected)
        self.arrays = encode(arrays)

    @property
    def max_grad_norm(self) -> float | None:
        """None without privacy."""
        return self._config.max_grad_norm if self._config.private else None

    @property
    def task_identity(self) -> str:
        return code_identity(self.task)

    @property
    def _of_metrics(self) -> TensorData | None:
        """The data of the run's metrics."""
        return self._test if self._unseen is None else self._unseen

    def evaluate(self, server_round: int, arrays: ArrayRecord) -> MetricRecord:
        return self._measured(self._test, arrays)

    def evaluate_at_the_end(self, arrays: ArrayRecord) -> MetricRecord:
        """Empty unless the best model is kept: `evaluate` has then measured the last one."""
        return self._measured(self._unseen, arrays)

    def _measured(self, data: TensorData | None, arrays: ArrayRecord) -> MetricRecord:
        """Loss and metrics of the weights on `data`; empty without data. Loads the weights into `model`."""
        if data is None:
            return MetricRecord()
        load_arrays(self.model, decode(arrays, self._expected))
        names = self._config.metric_names
        return _record(evaluation.evaluate(self.model, data, self.task, self._device, names))

    def evaluate_constant(self) -> MetricRecord:
        """Loss and metrics of the best constant prediction, without the user's own, which may fail on it.

        Empty if it is not known.
        """
        data = self._of_metrics
        model = constant_prediction(self.task, data) if data is not None else None
        if model is None or data is None:
            return MetricRecord()
        own = tuple(one for one in self.task.metrics if isinstance(one, str))
        names = self._config.metric_names or own
        return _record(evaluation.evaluate(model, data, self.task, find_device("cpu"), names))

    def outcomes(self) -> Mapping[str, object]:
        """What the model, as it is now, answers on the data of the metrics."""
        return evaluation.outcomes(self.model, self._of_metrics, self.task, self._device)


def _record(result: evaluation.Evaluation) -> MetricRecord:
    # a MetricRecord holds numbers alone; reports write null for NaN
    metrics = {name: math.nan if value is None else value for name, value in result.metrics.items()}
    return MetricRecord({"loss": result.loss, **metrics})


def _strategy(
    model: nn.Module, config: RunConfig, run: str, record: RunRecord, on_round: Callable[[RoundReport], None]
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
