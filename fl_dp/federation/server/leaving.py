"""What a run leaves when it is over, however it ended: the model, and the summary last."""

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flwr.app import MetricRecord

from fl_dp.config.run import AVERAGE, BEST, LAST
from fl_dp.federation.server.federation import Federation
from fl_dp.federation.server.reporting import measured, scalar
from fl_dp.federation.server.run_record import RunRecord
from fl_dp.federation.wire.arrays import decode, load_arrays, specs
from fl_dp.records import LEAST_CELL
from fl_dp.reporting.provenance import code_digest, file_digest, utc_now, versions
from fl_dp.reporting.reports import RunStatus, Summary
from fl_dp.reporting.run_results import RunResults
from fl_dp.weights_digest import weights_digest

if TYPE_CHECKING:
    from torch import Tensor

logger = logging.getLogger("fl_dp")


def leave(
    out: RunResults,
    federation: Federation | None,
    record: RunRecord,
    private: bool,
    status: RunStatus,
    reason: str,
) -> None:
    """Write what was reached, the summary last: whoever sees it finds the rest complete.

    The models are those of the state on the disk: a round that is not in it may be repeated, and would then
    be released twice. The summary says what was spent, and is written even where the model cannot be.
    """
    end = _End(federation, record, private, status, reason)
    try:
        if federation:
            strategy = federation.strategy
            record.disk_room.write(lambda: record.agree_with_disk(strategy), "rounds.jsonl")
        if federation and record.arrays is not None and federation.strategy.reports:
            record.disk_room.write(lambda: _save_all(out, end), "the run's model")
            if status != "failed" and record.best and federation.evaluate_at_the_end:
                end.at_the_end = federation.evaluate_at_the_end(record.best[1])  # once: the run is over
    finally:
        summary = _summary(end, file_digest(out.config))
        record.disk_room.write(lambda: out.write_summary(summary), "summary.json")
        record.disk_room.release()


@dataclass
class _End:
    """How a run ended. weights: digest of the model, where it was saved. at_the_end: what was measured of the
    best model, where that is kept.
    """

    federation: Federation | None
    record: RunRecord
    private: bool
    status: RunStatus
    reason: str
    weights: str = ""
    at_the_end: MetricRecord | None = None


def _save_all(out: RunResults, end: _End) -> None:
    assert end.federation is not None
    end.weights = weights_digest(_save_models(out, end.federation, end.record, end.private))
    out.write_resolved(end.federation.strategy.resolved().to_flat())


def _save_models(
    out: RunResults, federation: Federation, record: RunRecord, private: bool
) -> "dict[str, Tensor]":
    """Returns the weights of the run's model."""
    from fl_dp.tasks.description import describe

    assert record.arrays is not None
    model = federation.model
    kept = record.best[1] if record.best else record.averaged
    if kept is not None:
        load_arrays(model, record.arrays)
        out.save_last_model(model.state_dict(), private=private)
        which = (
            f"model of round {record.best[0]}, the best" if record.best else "average of the rounds' models"
        )
        logger.info("model.pt is the %s; last.pt that of the last round", which)
    load_arrays(model, record.arrays if kept is None else decode(kept, specs(record.arrays)))
    out.save_model(model.state_dict(), describe(federation.task).to_dict(), private=private)
    return model.state_dict()


def _summary(end: _End, config_digest: str) -> Summary:
    strategy = end.federation.strategy if end.federation else None
    record = end.record
    last = strategy.reports[-1] if strategy and strategy.reports else None
    guarantee = strategy.guarantee() if strategy else None
    planned = strategy.planned() if strategy else None
    values = end.at_the_end or MetricRecord()
    is_best = record.best is not None
    return Summary(
        status=end.status,
        private=end.private,
        rounds=last.round if last else 0,
        epsilon=guarantee.epsilon if guarantee else None,
        delta=guarantee.delta if guarantee else None,
        federation=strategy.federation() if strategy else None,
        accuracy=scalar(values, "accuracy") if is_best else last.accuracy if last else None,
        loss=scalar(values, "loss") if is_best else last.loss if last else None,
        seconds=record.seconds,
        clients=strategy.budgets() if strategy else {},
        reason=end.reason,
        metrics=measured(values) if is_best else last.metrics if last else {},
        lost_rounds=last.lost_rounds if last else 0,
        model=BEST if is_best else LAST if record.averaged is None else AVERAGE,
        model_round=record.best[0] if record.best else last.round if last else 0,
        planned_epsilon=planned.epsilon if planned else None,
        run=strategy.run if strategy else "",
        started=record.started,
        ended=utc_now(),
        max_grad_norm=end.federation.max_grad_norm if end.federation and end.private else None,
        versions=versions(),
        digests={"model": end.weights, "config": config_digest, "code": code_digest()},
        task=end.federation.task_identity if end.federation else "",
        suppressed_below=LEAST_CELL,
        masked=strategy.masked if strategy else None,
    )
