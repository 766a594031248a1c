"""The end of a run, however it ended: its files here, and the model at its sites.

The summary is written last; when it is there, all files are complete.
"""

import logging
from collections.abc import Mapping
from typing import Any

from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict

from fl_dp.config.run_settings import BEST, LAST
from fl_dp.errors import ConfigError
from fl_dp.federation.server.prepare import PreparedRun
from fl_dp.federation.server.report import measured, scalar
from fl_dp.federation.server.run_record import RunRecord
from fl_dp.federation.wire.arrays import NDArray, decode, encode, load_arrays, specs
from fl_dp.federation.wire.messages import ABOUT, ARRAYS, FINAL_MODEL, STATEMENT, config_record
from fl_dp.federation.wire.send_receive import BaseGrid, ask
from fl_dp.records import LEAST_CELL
from fl_dp.reporting.provenance import code_digest, file_digest, utc_now, versions
from fl_dp.reporting.reports import RunStatus, Summary
from fl_dp.reporting.run_results import RunResults
from fl_dp.statements import MOST_CHARACTERS, Stated, Statement
from fl_dp.tasks.description import describe
from fl_dp.weights_digest import weights_digest

logger = logging.getLogger("fl_dp")


def leave(
    out: RunResults,
    prepared: PreparedRun | None,
    record: RunRecord,
    private: bool,
    status: RunStatus,
    reason: str,
) -> None:
    """Write the results, and the summary last: it marks the rest as complete.

    The models are those of the state on the disk. A round that is not in the state may be repeated, and its
    model would then be released twice. The summary says what was spent; it is written even if the model
    cannot be.
    """
    end: dict[str, Any] = {"status": status, "private": private, "reason": reason}
    values, constant, weights, write = MetricRecord(), MetricRecord(), "", record.disk_room.write
    outcomes: Mapping[str, object] = {}
    try:
        if prepared:
            write(lambda: record.agree_with_disk(prepared.strategy), "rounds.jsonl")
        if prepared and record.state is not None and prepared.strategy.reports:
            weights = write(lambda: _save_models(out, prepared, record, private), "the run's model")
            flat = prepared.strategy.resolved().to_flat()
            write(lambda: out.write_resolved(flat), "the run's model")
            if status != "failed":
                if record.kept:
                    values = prepared.evaluate_at_the_end(record.kept.arrays)  # once: the run is over
                constant = prepared.evaluate_constant()
                outcomes = prepared.outcomes()  # of the model that was just saved
    finally:
        end["digests"] = {"model": weights, "config": file_digest(out.config), "code": code_digest()}
        kept = record.kept
        reached = _what_was_reached(prepared, record, values) if prepared else _NOTHING
        summary = Summary(
            **end,
            **reached,
            constant={name: scalar(constant, name) for name in constant},
            model=kept.which if kept else LAST,
            model_round=kept.server_round if kept and kept.which == BEST else reached["rounds"],
            seconds=record.seconds,
            started=record.started,
            ended=utc_now(),
            versions=versions(),
            suppressed_below=LEAST_CELL,
            outcomes=outcomes,
        )
        write(lambda: out.write_summary(summary), "summary.json")
        record.disk_room.release()


def _save_models(out: RunResults, prepared: PreparedRun, record: RunRecord, private: bool) -> str:
    """Save the models; returns the digest of the run's model."""
    assert record.state is not None
    arrays = record.state.arrays
    model, kept = prepared.model, record.kept
    load_arrays(model, arrays)
    if kept:
        out.save_last_model(model.state_dict(), private=private)
        best = f"model of round {kept.server_round}, the best"
        which = best if kept.which == BEST else "average of the rounds' models"
        logger.info("model.pt is the %s; last.pt that of the last round", which)
        load_arrays(model, decode(kept.arrays, specs(arrays)))
    out.save_model(model.state_dict(), describe(prepared.task).to_dict(), private=private)
    return weights_digest(model.state_dict())


_NOTHING: dict[str, Any] = {
    "rounds": 0,
    "epsilon": None,
    "delta": None,
    "federation": None,
    "accuracy": None,
    "loss": None,
    "clients": {},
}


def _what_was_reached(prepared: PreparedRun, record: RunRecord, values: MetricRecord) -> dict[str, Any]:
    """Fields of the summary. values: metrics of the best model, if that is kept."""
    reporting = prepared.strategy.reporting
    last = reporting.reports[-1] if reporting.reports else None
    cost, planned = reporting.guarantee(), reporting.planned()
    is_best = record.kept is not None and record.kept.which == BEST
    return {
        "rounds": last.round if last else 0,
        "epsilon": cost.epsilon if cost else None,
        "delta": cost.delta if cost else None,
        "federation": reporting.federation(),
        "accuracy": scalar(values, "accuracy") if is_best else last.accuracy if last else None,
        "loss": scalar(values, "loss") if is_best else last.loss if last else None,
        "clients": reporting.budgets(),
        "metrics": measured(values) if is_best else last.metrics if last else {},
        "lost_rounds": last.lost_rounds if last else 0,
        "planned_epsilon": planned.epsilon if planned else None,
        "run": prepared.strategy.run,
        "max_grad_norm": prepared.max_grad_norm,
        "task": prepared.task_identity,
        "masked": reporting.masked,
        "test_accounts": prepared.strategy.test_accounts(),
    }


def send_final_model(
    grid: BaseGrid, arrays: Mapping[str, NDArray], seconds: float, *, run: str, private: bool
) -> list[Stated]:
    """Send the model to each site that is there, and wait at most `seconds`. Costs no budget.

    Returns the statements of the sites that answered about what their data have spent, with the sites' keys.
    """
    content = RecordDict({ARRAYS: encode(arrays), ABOUT: ConfigRecord({"run": run, "private": private})})
    sites = {node: grid.site_of(node) for node in grid.get_node_ids()}
    keys = {node: site.key if site else "" for node, site in sites.items()}  # later the node may be gone
    messages = {node: Message(content, node, FINAL_MODEL, ttl=seconds) for node in keys}
    heard = {node: one.content for node, one in ask(grid, messages, seconds) if one.has_content()}
    logger.info("the final model was sent to %d sites, and %d received it", len(messages), len(heard))
    return _statements(heard, keys)


def _statements(heard: Mapping[int, RecordDict], keys: Mapping[int, str]) -> list[Stated]:
    """The readable statements. Other code checks who signed them, and whether they agree with the run."""
    found = []
    for node, content in sorted(heard.items()):
        record = config_record(content, STATEMENT)
        if record is None:
            continue
        text, signature = record.get("text"), record.get("signature")
        try:
            if not isinstance(text, str) or not isinstance(signature, bytes) or len(text) > MOST_CHARACTERS:
                raise ConfigError("not a readable statement.")
            Statement.from_text(text)
        except ConfigError as error:
            logger.warning("node %d: %s", node, error)
        else:
            found.append(Stated(text, keys[node], signature.hex()[:256]))
    return found
