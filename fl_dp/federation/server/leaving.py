"""What a run leaves when it is over, however it ended: the model, and the summary last."""

import logging
from typing import TYPE_CHECKING

from flwr.app import MetricRecord

from fl_dp.federation.server.reporting import measured, scalar
from fl_dp.federation.server.run_record import RunRecord
from fl_dp.federation.wire.arrays import decode, load_arrays, specs
from fl_dp.reporting.reports import RunStatus, Summary
from fl_dp.reporting.run_results import RunResults

if TYPE_CHECKING:
    from fl_dp.federation.server.app import Federation

logger = logging.getLogger("fl_dp")


def leave(
    out: RunResults,
    federation: "Federation | None",
    record: RunRecord,
    private: bool,
    status: RunStatus,
    reason: str,
) -> None:
    """Write what was reached, the summary last: whoever sees it finds the rest complete.

    The models are those of the state on the disk: a round that is not in it may be repeated, and would then
    be released twice. The summary says what was spent, and is written even where the model cannot be.
    """
    metrics = None
    try:
        if federation and record.arrays is not None and federation.strategy.reports:
            _save_models(out, federation, record, private)
            if status != "failed" and record.best and federation.evaluate_at_the_end:
                metrics = federation.evaluate_at_the_end(record.best[1])  # once: the run is over
    finally:
        out.write_summary(_summary(federation, record, private, status, reason, metrics))


def _save_models(out: RunResults, federation: "Federation", record: RunRecord, private: bool) -> None:
    from fl_dp.tasks.description import describe

    assert record.arrays is not None
    model = federation.model
    if record.best:
        load_arrays(model, record.arrays)
        out.save_last_model(model.state_dict(), private=private)
    best = decode(record.best[1], specs(record.arrays)) if record.best else record.arrays
    load_arrays(model, best)
    out.save_model(model.state_dict(), describe(federation.task).to_dict(), private=private)
    if record.best:
        logger.info("model.pt is of round %d, the best one; last.pt is the last one's", record.best[0])


def _summary(
    federation: "Federation | None",
    record: RunRecord,
    private: bool,
    status: RunStatus,
    reason: str,
    at_the_end: MetricRecord | None,
) -> Summary:
    """at_the_end: what was measured of the best model, where that is kept."""
    strategy = federation.strategy if federation else None
    last = strategy.reports[-1] if strategy and strategy.reports else None
    guarantee = strategy.guarantee() if strategy else None
    values = at_the_end or MetricRecord()
    is_best = record.best is not None
    return Summary(
        status=status,
        private=private,
        rounds=last.round if last else 0,
        epsilon=guarantee.epsilon if guarantee else None,
        delta=guarantee.delta if guarantee else None,
        federation=strategy.federation() if strategy else None,
        accuracy=scalar(values, "accuracy") if is_best else last.accuracy if last else None,
        loss=scalar(values, "loss") if is_best else last.loss if last else None,
        seconds=record.seconds,
        clients=strategy.budgets() if strategy else {},
        reason=reason,
        metrics=measured(values) if is_best else last.metrics if last else {},
        lost_rounds=last.lost_rounds if last else 0,
        model="best" if is_best else "last",
        model_round=record.best[0] if record.best else last.round if last else 0,
    )
