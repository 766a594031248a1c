"""Reads a run's folder into the facts of its page. It runs no code and loads no model."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from fl_dp.clean_text import clean
from fl_dp.config.files import read_json, read_toml
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.kits.signed import signature_of, speaks_of_another
from fl_dp.records import CLIENT_STATUSES
from fl_dp.reporting.budget_table import natural
from fl_dp.reporting.page.approval import read_approval
from fl_dp.reporting.page.facts import Named, Round, RunFacts, Site
from fl_dp.reporting.page.outcomes import outcomes_of
from fl_dp.reporting.provenance import page_digest
from fl_dp.reporting.reports import RoundReport, SiteMetrics, Summary
from fl_dp.reporting.run_files import Run
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.reporting.wording import some
from fl_dp.statements import Stated, Statement, stated_in

_PLACES = ("out", "data-root", "engine", "ledgers", "ray-address")  # of the machine, not of the model
_UNITS = {"round-timeout": "s", "memory-mib": "MiB"}
_CLASSES = 40  # that are named in one line


def read_run(folder: RunFolder) -> RunFacts:
    """The facts of the run in the folder; ConfigError if it has none, or if a file is damaged."""
    run, rounds, last = Run(folder), [], None
    of_sites: SiteMetrics | None = None
    masked, private = set[bool](), True
    for last in run.rounds():
        private = private and last.private
        masked |= {last.secure_sum.masked} if last.secure_sum else set()
        of_sites = last.site_metrics or of_sites
        counts = Counter(one.status for one in last.clients.values())
        rounds.append(Round(replace(last, clients={}), tuple(counts[name] for name in CLIENT_STATUSES)))
    summary = run.summary()
    said = summary or _so_far(run, last)
    said = replace(said, clients={name: said.clients[name] for name in sorted(said.clients, key=natural)})
    asked = read_toml(folder.config) if folder.config.exists() else {}
    settings, shown = _settings(folder, asked)
    described = _description(folder)
    accounts = said.test_accounts or of_sites
    outcomes = outcomes_of(said.outcomes, "summary.json")
    return RunFacts(
        called=PurePosixPath(str(asked.get("out", ""))).name or said.run or "of no name",
        digest=page_digest(folder),
        over=summary is not None,
        said=said,
        private=said.private and private and settings.get("privacy", "on") != "off",
        history=tuple(rounds),
        sites=_sites(folder, summary),
        approval=read_approval(folder),
        of_setting=settings,
        settings=shown,
        launch=read_toml(folder.launch) if folder.launch.exists() else {},
        described={key: without_place(one) for key, one in described.items() if isinstance(one, str)},
        data=data_facts(described),
        site_metrics=of_sites,
        tests=accounts.sites if accounts else {},
        outcomes=outcomes,
        masked=all(masked) if masked else None,
    )


def _so_far(run: Run, last: RoundReport | None) -> Summary:
    """What a summary would say so far. last: the report of the last round."""
    if last is None:
        raise ConfigError(f"{run.folder.shown}: {_why_no_facts(run)}")
    return Summary(
        status="failed",
        private=last.private,
        rounds=last.round,
        epsilon=last.epsilon,
        delta=last.delta,
        federation=last.federation,
        accuracy=last.accuracy,
        loss=last.loss,
        seconds=math.nan,
        clients=last.clients,
        metrics=last.metrics,
        lost_rounds=last.lost_rounds,
        model_round=last.round,
    )


def _why_no_facts(run: Run) -> str:
    if not run.folder.config.exists() and not run.folder.rounds.exists():
        return "holds no run; it has neither summary.json nor rounds.jsonl."
    if run.at_work:
        return "has no round yet; try again after the first one."
    return (
        "no round of this run is over and nothing works on it, so there is nothing to report; the logs in "
        f"{run.folder.shown}/logs say why."
    )


def _sites(folder: RunFolder, summary: Summary | None) -> tuple[Site, ...]:
    """The statements in statements.json, if it exists. summary: they must name its run and model.

    ConfigError if the file has another form. A single statement that cannot be read is shown as such.
    """
    if not folder.statements.exists():
        return ()
    found = stated_in(read_json(folder.statements), str(folder.statements))
    return tuple(sorted((_site(one, summary) for one in found), key=_order))


def _order(site: Site) -> tuple[Any, ...]:
    return natural(site.data[0].client) if site.data else (0, ""), site.said.commitment if site.said else ""


def _site(found: Stated, summary: Summary | None) -> Site:
    signed = signature_of(found)
    try:
        said = Statement.from_text(found.text)
    except ConfigError as error:
        return Site(found, None, signed, f"is {error}".rstrip("."))
    others = (
        " and ".join(speaks_of_another(said, summary.run, summary.digests.get("model"))) if summary else ""
    )
    return Site(found, said, signed, f"speaks of another {others}" if others else "")


def _settings(
    folder: RunFolder, asked: Mapping[str, Any]
) -> tuple[dict[str, str], tuple[tuple[str, str, str], ...]]:
    """What each key was in the run; and for keys that are no default here, what was asked and what ran."""
    became = read_toml(folder.resolved) if folder.resolved.exists() else asked
    usual = RunConfig().to_flat()
    keys = [key for key in dict.fromkeys((*asked, *became)) if key not in _PLACES]
    told = [key for key in keys if not asked.get(key) == became.get(key) == usual.get(key)]
    return (
        {key: _shown(became, key) for key in keys},
        tuple((key, _shown(asked, key), _shown(became, key)) for key in told),
    )


def _shown(found: Mapping[str, Any], key: str) -> str:
    value = found.get(key, "")
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{without_place(str(value))}{f' {_UNITS[key]}' if key in _UNITS and value else ''}"


def without_place(value: str) -> str:
    """'npz:/data/a.npz' becomes 'npz:a.npz': the folder of a file is removed."""
    kind, colon, place = value.partition(":")
    if not colon or "/" in kind or len(kind) < 2:  # a drive is one letter
        kind, colon, place = "", "", value
    if place.startswith(("/", "./", "../", "~")):
        place = PurePosixPath(place).name
    return f"{kind}{colon}{PureWindowsPath(place).name if chr(92) in place else place}"


def _description(folder: RunFolder) -> Mapping[str, Any]:
    """model.json; empty if there is none. ConfigError if it is damaged."""
    if not folder.description.exists():
        return {}
    found = read_json(folder.description)
    if not isinstance(found, dict):
        raise ConfigError(f"{folder.description}: is damaged: it is not a JSON object.")
    return found


def data_facts(found: Mapping[str, Any]) -> Named:
    """What model.json says of the data. Values of an unexpected type are left out."""
    form, classes = found.get("form"), found.get("classes")
    shape, outputs, vocabulary = (
        (form.get(key) for key in ("input_shape", "outputs", "vocabulary"))
        if isinstance(form, dict)
        else [0] * 3
    )
    told = []
    if isinstance(shape, list) and all(type(one) is int for one in (*shape, outputs, vocabulary)):
        kind = f"tokens of {vocabulary:,}" if vocabulary else "numbers"
        told = [("One record", f"{' x '.join(map(str, shape[:9]))} {kind}"), ("Outputs", f"{outputs:,}")]
    if isinstance(classes, list) and classes:
        told.append(("Names of what is predicted", some([clean(one) for one in classes], _CLASSES)))
    return tuple(told)
