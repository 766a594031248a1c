"""The server's end: a run configuration in, a trained model and the run's files out."""

import logging
import math
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from fl_dp.config.run import BEST, RunConfig
from fl_dp.durable_files import exclusive
from fl_dp.errors import ConfigError, FederationError, FlDpError
from fl_dp.federation.devices import find_device
from fl_dp.federation.server.federation import Federation
from fl_dp.federation.server.leaving import leave
from fl_dp.federation.server.run_record import RunRecord
from fl_dp.federation.wire.arrays import ArraySpec, NDArray, decode, encode, load_arrays, specs, state_arrays
from fl_dp.reporting.console import RoundLines
from fl_dp.reporting.reports import INTERRUPTED, RoundReport, RunStatus
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.reporting.run_results import RunResults

if TYPE_CHECKING:
    from torch import nn

    from fl_dp.data.tensor_data import TensorData
    from fl_dp.federation.server.strategy import PrivateStrategy
    from fl_dp.tasks.task import Task

logger = logging.getLogger("fl_dp")
app = ServerApp()

RESUMED_VARIABLE = "FL_DP_RESUMED"  # set: the run's folder holds one that is to go on


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run one federation, as Flower asks for it."""
    _log_to_stderr()
    run = str(context.run_id)
    folder = Path(str(context.run_config.get("out") or f"runs/{run}"))
    run_federation(grid, context.run_config, run, folder, resumed=RESUMED_VARIABLE in os.environ)


def run_federation(
    grid: Grid,
    flat: Mapping[str, Any],
    run: str,
    folder: Path,
    on_round: Callable[[RoundReport], None] = lambda report: None,
    *,
    resumed: bool = False,
    on_kept: Callable[[int], None] = lambda server_round: None,
    on_model: Callable[[Mapping[str, NDArray]], None] = lambda arrays: None,
    say: Callable[[str], None] = lambda words: None,
) -> None:
    """Run the federation of the run config `flat`, its results below `folder`.

    run: its name in the clients' ledgers, see `PrivateStrategy`. on_round: called with each round's report.
    on_kept: see `RunRecord`. on_model: called with the model of a run that has not failed. resumed: `folder`
    holds a run that was ended, which goes on from its last round. say: tells the operator what is waited for.
    However it ends, summary.json says so; a failure is then raised.
    """
    out = RunResults(folder, resumed=resumed)
    with exclusive(RunFolder(folder).server_lock):
        record = RunRecord(out, resumed=resumed, on_kept=on_kept, say=say)
        federation = _run(grid, flat, run, out, record, on_round)
        if federation.strategy.reports:
            on_model(state_arrays(federation.model))


def _run(
    grid: Grid,
    flat: Mapping[str, Any],
    run: str,
    out: RunResults,
    record: RunRecord,
    on_round: Callable[[RoundReport], None],
) -> Federation:
    """The federation, when the run is over; its model is the one that was saved."""
    federation: Federation | None = None
    status: RunStatus = "failed"
    reason = INTERRUPTED  # what stands if this process is ended
    private = flat.get("privacy", "on") == "on"  # known even where the rest of the config is at fault
    try:
        federation = prepare(RunConfig.from_flat(flat), run, record, on_round)
        federation.strategy.start(grid, federation.arrays, evaluate_fn=federation.evaluate)
        status, reason = federation.strategy.outcome()
    except Exception as error:
        reason = str(error) if isinstance(error, FlDpError) else f"{type(error).__name__}: {error}"
        raise
    finally:
        leave(out, federation, record, private, status, reason)
    if status == "failed":
        raise FederationError(reason)
    record.forget()
    assert federation is not None
    return federation


def prepare(
    config: RunConfig, run: str, record: RunRecord, on_round: Callable[[RoundReport], None]
) -> Federation:
    """Build what `config` names, as `record` has it if it is resumed; FlDpError if it cannot be had.

    run: its name in the clients' ledgers. `record` and `on_round` are told of each round.
    """
    from fl_dp.federation.server.evaluation import halves
    from fl_dp.models.start import load_start
    from fl_dp.tasks.identity import code_identity
    from fl_dp.tasks.load import new_model, task_of
    from fl_dp.tasks.records import evaluation_records

    task = task_of(config)
    test, at_the_end = evaluation_records(config, task), None
    model = new_model(task)
    load_start(model, config.start)
    arrays = state_arrays(model)
    expected = specs(arrays)
    measured = _measuring(model, task, config, expected)
    if config.keep_model == BEST and test is not None:
        test, at_the_end = halves(test)
    strategy = _strategy(model, config, run, record, on_round)
    if record.state:
        arrays = _resumed(strategy, record, config, expected)
    return Federation(
        task,
        model,
        strategy,
        lambda server_round, arrays: measured(test, arrays),
        encode(arrays),
        None if at_the_end is None else partial(measured, at_the_end),
        config.max_grad_norm,
        code_identity(task),
    )


def _measuring(
    model: "nn.Module", task: "Task", config: RunConfig, expected: Mapping[str, ArraySpec]
) -> "Callable[[TensorData | None, ArrayRecord], MetricRecord]":
    """Loss and metrics of weights, which are put into `model`, on records; nothing where there are none."""
    from fl_dp.federation.server.evaluation import evaluate

    device = find_device(config.device)

    def measured(data: "TensorData | None", arrays: ArrayRecord) -> MetricRecord:
        if data is None:
            return MetricRecord()
        load_arrays(model, decode(arrays, expected))
        result = evaluate(model, data, task, device, config.metric_names)
        # a MetricRecord holds numbers alone; reports write null for NaN
        metrics = {name: math.nan if value is None else value for name, value in result.metrics.items()}
        return MetricRecord({"loss": result.loss, **metrics})

    return measured


def _strategy(
    model: "nn.Module",
    config: RunConfig,
    run: str,
    record: RunRecord,
    on_round: Callable[[RoundReport], None],
) -> "PrivateStrategy":
    from fl_dp.federation.server.strategy import PrivateStrategy, usual_parts
    from fl_dp.federation.wire.round_arrays import shared_specs
    from fl_dp.tasks.own_code import own_parts

    lines = RoundLines()

    def report_round(report: RoundReport) -> None:
        record.round_over(strategy, report)
        on_round(report)
        logger.info(lines.of(report.to_dict(), config.rounds, config.epsilon))

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
    strategy: "PrivateStrategy", record: RunRecord, config: RunConfig, expected: Mapping[str, ArraySpec]
) -> dict[str, NDArray]:
    """Set the strategy to where the run stood; the weights of then. ConfigError for another run's state."""
    assert record.state is not None
    record.state.check_same(config)
    if specs(record.state.arrays) != expected:
        raise ConfigError(f"the run's state holds weights of another model than {config.model}.")
    strategy.resume(record.state)
    record.best, record.averaged = strategy.best, strategy.averaged
    record.make_room()
    return dict(record.state.arrays)


def _log_to_stderr() -> None:
    """Flower gives a handler only to its own logger."""
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
