"""Reads a run's folder into the facts of a report. It runs no code and loads no model."""

from collections.abc import Iterable, Mapping
from typing import Any

from fl_dp.clean_text import clean
from fl_dp.config.files import read_json, read_toml
from fl_dp.errors import ConfigError
from fl_dp.kits.signed import signature_of, speaks_of_another
from fl_dp.records import Entry
from fl_dp.reporting.console import constant_words
from fl_dp.reporting.page.approval import read_approval
from fl_dp.reporting.page.described import data_facts, described, name_of_run, read_description, read_settings
from fl_dp.reporting.page.digest import page_digest
from fl_dp.reporting.page.facts import AccountOfTests, Client, DataSet, Named, RunFacts, Site
from fl_dp.reporting.page.outcomes import read_outcomes
from fl_dp.reporting.page.rounds import (
    History,
    by_part,
    damaged,
    metrics_of,
    natural,
    of_one_class,
    read_accounts,
    read_history,
)
from fl_dp.reporting.reports import (
    INTERRUPTED,
    counted_clients,
    counts_this_run,
    epsilon_from_json,
    of_this_run,
)
from fl_dp.reporting.run_files import Run
from fl_dp.reporting.run_folder import ONE_RUN_LEDGER, RunFolder
from fl_dp.statements import AccountStatement, Stated, Statement, stated_in

NOT_FINISHED = "not finished"
_OF_A_KILLED_RUN: dict[str, Any] = {
    "status": NOT_FINISHED, "reason": "", "planned_epsilon": None, "model": "last", "run": "", "started": "",
    "ended": "", "max_grad_norm": None, "versions": {}, "digests": {}, "task": "", "suppressed_below": 0,
    "seconds": None,
}  # fmt: skip
_OF_A_RUN = (
    "status", "reason", "rounds", "lost_rounds", "delta", "planned_epsilon", "loss", "seconds", "started",
    "ended", "max_grad_norm", "task",
)  # fmt: skip
_OF_A_CLIENT = {
    "status": "", "reason": "", "budget": None, "delta": None, "accountant": "", "arithmetic": "", "steps": 0,
    "sample_rate": None, "noise_multiplier": None, "rounds": None, "public_size": 0, "planned_epsilon": None,
    "retired": 0,
}  # fmt: skip
# with defaults, for keys that a round does not write


def read_run(folder: RunFolder) -> RunFacts:
    """The facts of the run in the folder; ConfigError if there are none, or if a file is damaged."""
    run = Run(folder)
    summary = run.summary(whole=True)
    history = read_history(run)
    said = summary or _so_far(run, history.last)
    if said["federation"] and not counts_this_run(said):
        raise ConfigError(
            f"{folder.shown}: its epsilons count other runs, as an older fl_dp's do: draw it with that."
        )
    return _run(folder, said, history, over=summary is not None)


def _so_far(run: Run, last: Mapping[str, Any] | None) -> dict[str, Any]:
    """The equivalent of a summary for a run that has none. last: the report of its last round."""
    if last is None:
        raise ConfigError(f"{run.folder.shown}: {_why_no_facts(run)}")
    kept = (
        "private",
        "epsilon",
        "delta",
        "federation",
        "loss",
        "accuracy",
        "clients",
        "metrics",
        "lost_rounds",
    )
    numbers = {"rounds": last["round"], "model_round": last["round"]}
    return {**{key: last[key] for key in kept}, **_OF_A_KILLED_RUN, **numbers}


def _why_no_facts(run: Run) -> str:
    if not run.folder.config.exists() and not run.folder.rounds.exists():
        return "holds no run; it has neither summary.json nor rounds.jsonl."
    if run.at_work:
        return "has no round yet; try again after the first one."
    return (
        "no round of this run is over and nothing works on it, so there is nothing to report; why is said by "
        f"the logs in {run.folder.shown}/logs."
    )


def _run(folder: RunFolder, said: Mapping[str, Any], history: History, *, over: bool) -> RunFacts:
    of_setting, settings = read_settings(folder)
    launch = read_toml(folder.launch) if folder.launch.exists() else {}
    federation = said["federation"] or {}
    description = read_description(folder)
    parts, privacy = by_part(said), of_setting.get("privacy", "on")
    if (said["status"], said["reason"]) == ("failed", INTERRUPTED):
        said = {**said, "status": INTERRUPTED, "reason": ""}
    planned = of_setting.get("rounds", "")
    return RunFacts(
        **_as_written(said, dict.fromkeys(_OF_A_RUN)),
        called=name_of_run(folder) or clean(said["run"]) or "of no name",
        digest=page_digest(folder),
        over=over,
        private=bool(said["private"]) and history.private and privacy != "off",
        planned_rounds=int(planned) if planned.isdecimal() and len(planned) < 10 else None,
        epsilon=epsilon_from_json(said["epsilon"]),
        unit=clean(federation.get("unit", "record")),
        accountants=tuple(clean(one) for one in federation.get("accountants", ())),
        arithmetic=clean(federation.get("arithmetic", "")),
        kept=clean(said["model"]),
        kept_round=said["model_round"],
        metrics=metrics_of(said),
        hidden_metrics=sum(map(of_one_class, said["metrics"])) - len(parts),
        by_part=parts,
        epsilon_alone=_alone(said),
        masked=history.masked,
        site_metrics=history.site_metrics,
        tests=_test_accounts(said, history),
        outcomes=read_outcomes(said.get("outcomes", {}), "summary.json"),
        versions=_named(said["versions"]),
        digests=_named(said["digests"]),
        described=described(description),
        data=data_facts(description),
        settings=settings,
        of_setting=of_setting,
        simulated=bool(launch.get("engine")),
        one_run_ledger=launch.get(ONE_RUN_LEDGER) is True,
        local=folder.launch.exists(),
        clients=tuple(_client(name, said["clients"][name]) for name in sorted(said["clients"], key=natural)),
        history=history.rounds,
        sites=_sites(folder, said if over else None),
        approval=read_approval(folder),
        constant=constant_words(said),
    )


def _as_written(found: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """These keys of a report, with cleaned texts. usual: keys and their defaults."""
    told = {key: found.get(key, value) for key, value in usual.items()}
    return {key: clean(value) if isinstance(value, str) else value for key, value in told.items()}


def _client(name: str, found: Mapping[str, Any]) -> Client:
    """A cost of this run that is not apart is all that its ledger shows."""
    charges, cost = _entries(found["charges"]), of_this_run(found)
    return Client(
        **_as_written(found, _OF_A_CLIENT),
        name=clean(name),
        epsilon=epsilon_from_json(found["epsilon"]),
        rounds_left=found["rounds_left"] + found.get("rounds_beyond", 0),
        charges=charges,
        own=_entries(cost["charges"]),
        own_epsilon=epsilon_from_json(cost["epsilon"]),
        claimed_epsilon=epsilon_from_json(cost["claimed_epsilon"]) if "claimed_epsilon" in cost else None,
        epsilon_alone=_if_shared(charges, found.get("epsilon_alone")),
    )


def _entries(found: Iterable[Mapping[str, Any]]) -> tuple[Entry, ...]:
    return tuple(map(Entry.from_dict, found))


def _if_shared(charges: tuple[Entry, ...], alone: float | None) -> float | None:
    return epsilon_from_json(alone) if any(entry.shared for entry in charges) else None


def _alone(said: Mapping[str, Any]) -> float | None:
    """What holds if the assumption behind secure sums fails; None if no client's data were in one."""
    clients = counted_clients(said).values()
    charges = tuple(entry for one in clients for entry in _entries(of_this_run(one)["charges"]))
    return _if_shared(charges, (said["federation"] or {}).get("epsilon_alone"))


def _test_accounts(said: Mapping[str, Any], history: History) -> tuple[AccountOfTests, ...]:
    if found := said.get("test_accounts"):  # a run that goes on has none
        with damaged("summary.json: its test_accounts"):
            return read_accounts(found)
    return history.site_metrics.accounts if history.site_metrics else ()


def _named(found: Mapping[str, Any]) -> Named:
    return tuple((clean(key), clean(value)) for key, value in found.items())


def _sites(folder: RunFolder, summary: Mapping[str, Any] | None) -> tuple[Site, ...]:
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
        return Site((), "", clean(found.key), signed, clean(error))
    others = " and ".join(speaks_of_another(said, summary))
    return Site(
        data=tuple(_data(one) for one in sorted(said.accounts, key=lambda one: natural(one.client))),
        commitment=said.commitment,
        key=clean(found.key),
        signed=signed,
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
        delta=account.delta,
        budget=account.budget,
    )
