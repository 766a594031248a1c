"""One run at the server: takes a run configuration, writes a trained model and the run's files."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flwr.serverapp import Grid

from fl_dp.config.run import RunConfig
from fl_dp.durable_files import exclusive
from fl_dp.errors import FederationError, FlDpError
from fl_dp.federation.server.prepare import PreparedRun
from fl_dp.federation.server.run_end import leave
from fl_dp.federation.server.run_record import RunRecord
from fl_dp.federation.wire.arrays import NDArray, state_arrays
from fl_dp.reporting.reports import INTERRUPTED, RoundReport, RunStatus
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.reporting.run_results import RunResults


def run_federation(
    grid: Grid,
    flat: Mapping[str, Any],
    run: str,
    folder: Path,
    on_round: Callable[[RoundReport], None] = lambda report: None,
    *,
    resumed: bool = False,
    by_seed: bool = False,
    on_kept: Callable[[int], None] = lambda server_round: None,
    on_model: Callable[[Mapping[str, NDArray]], None] = lambda arrays: None,
    say: Callable[[str], None] = lambda words: None,
) -> None:
    """Run the federation of the run config `flat`, with results in `folder`.

    run: its name in the clients' ledgers, see `PrivateStrategy`. on_round: called with each round's report.
    on_kept: see `RunRecord`. on_model: called with the model of a run that has not failed. resumed: `folder`
    holds a run, which continues from its last round. by_seed: the run's seed decides who trains. say: tells
    the operator what the run waits for.
    summary.json is written however the run ends; a failure is then raised.
    """
    out = RunResults(folder, resumed=resumed)
    prepared: PreparedRun | None = None
    status: RunStatus = "failed"
    reason = INTERRUPTED  # stays if this process is ended
    private = flat.get("privacy", "on") == "on"  # known even if the rest of the config is wrong
    with exclusive(RunFolder(folder).server_lock):
        record = RunRecord(out, resumed=resumed, on_kept=on_kept, say=say)
        try:
            prepared = PreparedRun(RunConfig.from_flat(flat), run, record, on_round)
            if by_seed:
                prepared.strategy.choose_by_seed()
            prepared.strategy.start(grid, prepared.arrays, evaluate_fn=prepared.evaluate)
            status, reason = prepared.strategy.outcome()
        except Exception as error:
            reason = str(error) if isinstance(error, FlDpError) else f"{type(error).__name__}: {error}"
            raise
        finally:
            leave(out, prepared, record, private, status, reason)
        if status == "failed":
            raise FederationError(reason)
        record.forget()
        assert prepared is not None
        if prepared.strategy.reports:
            on_model(state_arrays(prepared.model))  # the one that was saved
