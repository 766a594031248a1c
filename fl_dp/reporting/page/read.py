"""Reads a run's folder into the facts of a report. It runs no code and loads no model."""

from collections.abc import Mapping
from typing import Any

from fl_dp.clean_text import clean
from fl_dp.config.files import read_json, read_toml
from fl_dp.errors import ConfigError
from fl_dp.kits.signed import signature_of, speaks_of_another
from fl_dp.reporting.console import constant_words
from fl_dp.reporting.page.approval import read_approval
from fl_dp.reporting.page.client_facts import as_written, clients_of, entries
from fl_dp.reporting.page.described import (
    data_facts,
    described,
    name_of_run,
    read_description,
    read_settings,
)
from fl_dp.reporting.page.digest import page_digest
from fl_dp.reporting.page.facts import AccountOfTests, DataSet, Named, RunFacts, Setting, Site
from fl_dp.reporting.page.outcomes import read_outcomes
from fl_dp.reporting.page.round_facts import (
    History,
    by_part,
    metrics_of,
    natural,
    of_one_class,
    read_history,
)
from fl_dp.reporting.page.site_metrics import damaged, read_accounts
from fl_dp.reporting.reports import (
    INTERRUPTED,
    THIS_RUN,
    counted_clients,
    epsilon_from_json,
    of_this_run,
)
from fl_dp.reporting.run_files import Run
from fl_dp.reporting.run_folder import ONE_RUN_LEDGER, RunFolder
from fl_dp.statements import AccountStatement, Stated, Statement, stated_in

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
_AS_WRITTEN = dict.fromkeys(
    ("status", "reason", "rounds", "lost_rounds", "delta", "planned_epsilon", "loss", "seconds", "started",
     "ended", "max_grad_norm", "task")
)  # fmt: skip


def read_run(folder: RunFolder) -> RunFacts:
    """The facts of the run in the folder; ConfigError if there are none, or if a file is damaged."""
    run = Run(folder)
    summary = run.summary(whole=True)
    history = read_history(run, sorted(summary["clients"], key=natural) if summary else None)
    return _run(folder, summary or _so_far(run, history.last), history, over=summary is not None)


def _why_no_facts(run: Run) -> str:
    if not run.folder.config.exists() and not run.folder.rounds.exists():
        return "holds no run; it has neither summary.json nor rounds.jsonl."
    if run.at_work:
        return "has no round yet; try again after the first one."
    return (
        "no round of this run is over and nothing works on it, so there is nothing to report; why is said by "
        f"the logs in {run.folder.shown}/logs."
    )


def _so_far(run: Run, last: Mapping[str, Any] | None) -> dict[str, Any]:
    """The equivalent of a summary for a run that has none. last: the report of its last round."""
    if last is None:
        raise ConfigError(f"{run.folder.shown}: {_why_no_facts(run)}")
    return {
        **{key: last[key] for key in ("private", "epsilon", "delta", "federation", "loss", "accuracy")},
        **{key: last[key] for key in ("clients", "metrics", "lost_rounds")},
        **_OF_A_KILLED_RUN,
        "rounds": last["round"],
        "model_round": last["round"],
        "seconds": None,
    }


def _run(folder: RunFolder, said: Mapping[str, Any], history: History, *, over: bool) -> RunFacts:
    settings = read_settings(folder)
    launch = read_toml(folder.launch) if folder.launch.exists() else {}
    federation = said["federation"] or {}
    this_run = federation.get("scope") == THIS_RUN
    description = read_description(folder)
    parts = by_part(said)
    privacy = next((one.became for one in settings if one.key == "privacy"), "on")
    if (said["status"], said["reason"]) == ("failed", INTERRUPTED):
        said = {**said, "status": INTERRUPTED, "reason": ""}
    return RunFacts(
        **as_written(said, _AS_WRITTEN),
        name=clean(folder.path.name),
        called=name_of_run(folder) or clean(said["run"]) or "of no name",
        digest=page_digest(folder),
        over=over,
        private=bool(said["private"]) and history.private and privacy != "off",
        planned_rounds=_planned(settings),
        epsilon=epsilon_from_json(said["epsilon"]),
        unit=clean(federation.get("unit", "record")),
        accountants=tuple(clean(one) for one in federation.get("accountants", ())),
        arithmetic=clean(federation.get("arithmetic", "")),
        kept=clean(said["model"]),
        kept_round=said["model_round"],
        metrics=metrics_of(said),
        hidden_metrics=sum(map(of_one_class, said["metrics"])) - sum(map(len, parts.values())),
        by_part=parts,
        epsilon_alone=_alone(said),
        masked=history.masked,
        site_metrics=history.site_metrics,
        test_accounts=_test_accounts(said, history),
        outcomes=read_outcomes(said.get("outcomes", {}), "summary.json"),
        identity=clean(said["run"]),
        versions=_named(said["versions"]),
        digests=_named(said["digests"]),
        described=described(description),
        settings=settings,
        simulated=bool(launch.get("engine")),
        one_run_ledger=launch.get(ONE_RUN_LEDGER) is True,
        local=folder.launch.exists(),
        clients=clients_of(said["clients"], before_known=bool(said["run"]), counts_this_run=this_run),
        of_this_run=this_run,
        before_known=bool(said["run"]),
        history=history.rounds,
        reasons=history.reasons,
        sites=read_sites(folder, said if over else None),
        approval=read_approval(folder),
        data=data_facts(description),
        constant=constant_words(said),
    )


def _test_accounts(said: Mapping[str, Any], history: History) -> tuple[AccountOfTests, ...]:
    if found := said.get("test_accounts"):  # a run that goes on, or of an older fl_dp, has none
        with damaged("summary.json: its test_accounts"):
            return read_accounts(found)
    return history.site_metrics.accounts if history.site_metrics else ()


def _alone(said: Mapping[str, Any]) -> float | None:
    """What holds if the assumption behind secure sums fails; None if no client's data were in one."""
    clients = counted_clients(said).values()
    if not any(one.shared for client in clients for one in entries(of_this_run(client)["charges"])):
        return None
    return epsilon_from_json((said["federation"] or {}).get("epsilon_alone"))


def _named(found: Mapping[str, Any]) -> Named:
    return tuple((clean(key), clean(value)) for key, value in found.items())


def _planned(settings: tuple[Setting, ...]) -> int | None:
    asked = next((one.became for one in settings if one.key == "rounds"), "")
    return int(asked) if asked.isdecimal() and len(asked) < 10 else None


def read_sites(folder: RunFolder, summary: Mapping[str, Any] | None) -> tuple[Site, ...]:
    """The statements in statements.json, if there. summary: whose run and model they must name.

    ConfigError if the file has another form. A statement that cannot be read is shown as such.
    """
    if not folder.statements.exists():
        return ()
    found = stated_in(read_json(folder.statements), str(folder.statements))
    return tuple(sorted((_site(one, summary) for one in found), key=_order))


def _order(site: Site) -> tuple[Any, ...]:
    return (natural(site.data[0].client) if site.data else (0.0, ""), site.commitment)


def _site(found: Stated, summary: Mapping[str, Any] | None) -> Site:
    signed = signature_of(found)
    try:
        said = Statement.from_text(found.text)
    except ConfigError as error:
        return Site((), "", clean(found.key), signed, 0, "", clean(error))
    others = " and ".join(speaks_of_another(said, summary))
    return Site(
        data=tuple(_data(one) for one in sorted(said.accounts, key=lambda one: natural(one.client))),
        commitment=said.commitment,
        key=clean(found.key),
        signed=signed,
        retired=said.retired,
        date=clean(said.date),
        problem=f"speaks of another {others}" if others else "",
        one_run_ledger=said.one_run_ledger,
    )


def _data(account: AccountStatement) -> DataSet:
    return DataSet(
        client=clean(account.client),
        name=clean(account.data),
        kind=clean(account.kind),
        unit=clean(account.unit),
        public_size=account.public_size,
        epsilon=epsilon_from_json(account.epsilon),
        arithmetic=account.arithmetic,
        delta=account.delta,
        budget=account.budget,
    )
