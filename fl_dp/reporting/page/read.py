"""From a run's folder to what a report says of it. No code is run, no model is loaded."""

from collections.abc import Mapping
from typing import Any

from fl_dp.clean_text import clean
from fl_dp.config.files import read_toml
from fl_dp.errors import ConfigError
from fl_dp.records import REFUTED, Entry
from fl_dp.reporting.page.approval import read_approval
from fl_dp.reporting.page.client_facts import clients_of
from fl_dp.reporting.page.data_facts import data_facts, described, read_description
from fl_dp.reporting.page.digest import page_digest
from fl_dp.reporting.page.facts import Named, Run, Setting
from fl_dp.reporting.page.round_facts import (
    History,
    by_part,
    metrics_of,
    natural,
    of_one_class,
    read_history,
)
from fl_dp.reporting.page.setting_facts import name_of_run, read_settings
from fl_dp.reporting.page.site_facts import read_sites
from fl_dp.reporting.read_results import read_summary
from fl_dp.reporting.reports import (
    INTERRUPTED,
    THIS_RUN,
    counted_clients,
    epsilon_from_json,
    of_this_run,
)
from fl_dp.reporting.run_folder import RunFolder

NOT_FINISHED = "not finished"
_OF_A_KILLED_RUN: dict[str, Any] = {
    "status": NOT_FINISHED,
    "reason": "",
    "planned_epsilon": None,
    "model": "last",
    "run": "",
    "started": "",
    "ended": "",
    "max_grad_norm": None,
    "versions": {},
    "digests": {},
    "task": "",
    "suppressed_below": 0,
}


def read_run(folder: RunFolder) -> Run:
    """The facts of the run in the folder; ConfigError where there is none, or where a file is damaged."""
    if not folder.summary.exists() and not folder.rounds.exists():
        raise ConfigError(f"{folder.shown}: holds no run: neither summary.json nor rounds.jsonl is there.")
    summary = read_summary(folder.summary, whole=True) if folder.summary.exists() else None
    history = read_history(folder, sorted(summary["clients"], key=natural) if summary else None)
    return _run(folder, summary or _so_far(history), history, over=summary is not None)


def _so_far(history: History) -> dict[str, Any]:
    """What a summary would say of a run that has none."""
    if history.last is None:
        raise ConfigError("rounds.jsonl: holds no round yet; ask again after the first one.")
    last = history.last
    return {
        **{key: last[key] for key in ("private", "epsilon", "delta", "federation", "loss", "accuracy")},
        **{key: last[key] for key in ("clients", "metrics", "lost_rounds")},
        **_OF_A_KILLED_RUN,
        "rounds": last["round"],
        "model_round": last["round"],
        "seconds": None,
    }


def _run(folder: RunFolder, said: Mapping[str, Any], history: History, *, over: bool) -> Run:
    settings = read_settings(folder)
    federation = said["federation"] or {}
    this_run = federation.get("scope") == THIS_RUN
    description = read_description(folder)
    parts = by_part(said)
    privacy = next((one.became for one in settings if one.key == "privacy"), "on")
    interrupted = (said["status"], said["reason"]) == ("failed", INTERRUPTED)
    return Run(
        name=clean(folder.path.name),
        called=name_of_run(folder) or clean(said["run"]) or "of no name",
        digest=page_digest(folder),
        over=over,
        private=bool(said["private"]) and history.private and privacy != "off",
        status=INTERRUPTED if interrupted else said["status"],
        reason="" if interrupted else clean(said["reason"]),
        rounds=said["rounds"],
        planned_rounds=_planned(settings),
        lost_rounds=said["lost_rounds"],
        epsilon=epsilon_from_json(said["epsilon"]),
        delta=said["delta"],
        planned_epsilon=said["planned_epsilon"],
        unit=clean(federation.get("unit", "record")),
        clients_per_person=federation.get("clients_per_person", 1),
        accountants=tuple(clean(one) for one in federation.get("accountants", ())),
        arithmetic=clean(federation.get("arithmetic", REFUTED)),
        kept=clean(said["model"]),
        kept_round=said["model_round"],
        loss=said["loss"],
        metrics=metrics_of(said),
        hidden_metrics=sum(map(of_one_class, said["metrics"])) - sum(len(values) for _, values in parts),
        by_part=parts,
        epsilon_alone=_alone(said),
        masked=history.masked,
        seconds=said["seconds"],
        identity=clean(said["run"]),
        started=clean(said["started"]),
        ended=clean(said["ended"]),
        max_grad_norm=said["max_grad_norm"],
        versions=_named(said["versions"]),
        digests=_named(said["digests"]),
        task=clean(said["task"]),
        described=described(description),
        settings=settings,
        simulated=_simulated(folder),
        local=folder.launch.exists(),
        clients=clients_of(said["clients"], before_known=bool(said["run"]), counts_this_run=this_run),
        of_this_run=this_run,
        before_known=bool(said["run"]),
        history=history.rounds,
        reasons=history.reasons,
        sites=read_sites(folder, said if over else None),
        approval=read_approval(folder),
        data=data_facts(description),
    )


def _alone(said: Mapping[str, Any]) -> float | None:
    """What holds if the assumption behind secure sums fails; None where no client's data were in one."""
    clients = counted_clients(said).values()
    charges = [Entry.from_dict(one) for client in clients for one in of_this_run(client)["charges"]]
    if not any(one.shared for one in charges):
        return None
    return epsilon_from_json((said["federation"] or {}).get("epsilon_alone"))


def _named(found: Mapping[str, Any]) -> Named:
    return tuple((clean(key), clean(value)) for key, value in found.items())


def _planned(settings: tuple[Setting, ...]) -> int | None:
    asked = next((one.became for one in settings if one.key == "rounds"), "")
    return int(asked) if asked.isdecimal() and len(asked) < 10 else None


def _simulated(folder: RunFolder) -> bool:
    return folder.launch.exists() and bool(read_toml(folder.launch).get("engine"))
