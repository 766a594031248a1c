"""The server's end: a run configuration in, a trained model and the run's files out."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from fl_dp.config import RunConfig
from fl_dp.errors import FederationError, FlDpError
from fl_dp.federation.arrays import decode, encode, load_arrays, specs, state_arrays
from fl_dp.federation.devices import find_device
from fl_dp.reporting.console import round_line
from fl_dp.reporting.reports import RoundReport, RunStatus, Summary
from fl_dp.reporting.run_directory import RunDirectory

if TYPE_CHECKING:
    from torch import nn

    from fl_dp.federation.strategy import Evaluate, PrivateFedAvg

logger = logging.getLogger("fl_dp")
app = ServerApp()


@dataclass(frozen=True)
class Federation:
    """What one run needs. `evaluate` leaves the weights that it was given in `model`."""

    model: "nn.Module"
    strategy: "PrivateFedAvg"
    evaluate: "Evaluate"


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run one federation, as Flower asks for it."""
    _log_to_stderr()
    run = str(context.run_id)
    run_federation(grid, context.run_config, run, Path(str(context.run_config.get("out") or f"runs/{run}")))


def run_federation(
    grid: Grid,
    flat: Mapping[str, Any],
    run: str,
    folder: Path,
    on_round: Callable[[RoundReport], None] = lambda report: None,
) -> None:
    """Run the federation of the run config `flat`, its results below `folder`.

    run: its name in the clients' ledgers, new for every run. on_round: told of each round when it is over.
    However it ends, summary.json says so; a failure is then raised.
    """
    out = RunDirectory(folder)
    started = time.monotonic()
    federation: Federation | None = None
    status: RunStatus = "failed"
    reason = "interrupted"  # what stands if this process is ended
    try:
        federation = prepare(RunConfig.from_flat(flat), run, out, on_round)
        initial = encode(state_arrays(federation.model))
        federation.strategy.start(grid, initial, evaluate_fn=federation.evaluate)
        status, reason = federation.strategy.outcome()
    except Exception as error:
        reason = str(error) if isinstance(error, FlDpError) else f"{type(error).__name__}: {error}"
        raise
    finally:
        _leave(out, federation, status, reason, time.monotonic() - started)
    if status == "failed":
        raise FederationError(reason)


def prepare(
    config: RunConfig, run: str, out: RunDirectory, on_round: Callable[[RoundReport], None]
) -> Federation:
    """Build what `config` names; FlDpError if it cannot be had. `out` and `on_round` are told of each round.

    run: the run's name in the clients' ledgers, new for every run.
    """
    from fl_dp.data.sources import load_data
    from fl_dp.federation.evaluation import evaluate
    from fl_dp.federation.strategy import PrivateFedAvg
    from fl_dp.models.registry import build_model
    from fl_dp.training import trainable_arrays

    test = load_data(config.data, Path(config.data_root), "test")
    model = build_model(config.model, test.input_shape, test.num_classes, config.seed)
    device = find_device(config.device)
    expected = specs(state_arrays(model))

    def on_test_data(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        load_arrays(model, decode(arrays, expected))
        result = evaluate(model, test, device)
        return MetricRecord({"loss": result.loss, "accuracy": result.accuracy})

    def report_round(report: RoundReport) -> None:
        out.append_round(report)
        on_round(report)
        logger.info(round_line(report.to_dict(), rounds=config.rounds, budget=config.epsilon))

    strategy = PrivateFedAvg(config, run, specs(trainable_arrays(model)), report_round)
    return Federation(model, strategy, on_test_data)


def _leave(
    out: RunDirectory, federation: Federation | None, status: RunStatus, reason: str, seconds: float
) -> None:
    """Write what was reached, the summary last: whoever sees it finds the rest complete."""
    reports = federation.strategy.reports if federation else []
    if federation and reports:
        out.save_model(federation.model.state_dict())
    guarantee = federation.strategy.guarantee() if federation else None
    out.write_summary(
        Summary(
            status=status,
            rounds=len(reports),
            epsilon=guarantee.epsilon if guarantee else None,
            delta=guarantee.delta if guarantee else None,
            federation=federation.strategy.federation() if federation else None,
            accuracy=reports[-1].accuracy if reports else None,
            loss=reports[-1].loss if reports else None,
            seconds=seconds,
            clients=federation.strategy.budgets() if federation else {},
            reason=reason,
        )
    )


def _log_to_stderr() -> None:
    """Flower gives a handler only to its own logger."""
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
