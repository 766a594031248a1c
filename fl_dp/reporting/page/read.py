"""Reads a run's folder into what its page says. It runs no code and loads no model.

Texts come from strangers; they are cleaned where they are shown.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from fl_dp.clean_text import clean
from fl_dp.config.files import read_json, read_toml
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.kits.signed import Signature, signature_of, speaks_of_another
from fl_dp.records import CLIENT_STATUSES, LEAST_CELL
from fl_dp.reporting.budget_table import natural
from fl_dp.reporting.page.approval import Approval, read_approval
from fl_dp.reporting.page.outcomes import Outcomes, outcomes_of
from fl_dp.reporting.provenance import page_digest
from fl_dp.reporting.reports import (
    INTERRUPTED,
    OVER,
    ClientReport,
    RoundReport,
    SiteMetrics,
    Summary,
    TestAccount,
    of_one_class,
)
from fl_dp.reporting.run_files import Run
from fl_dp.reporting.run_folder import ONE_RUN_LEDGER, RunFolder
from fl_dp.reporting.wording import some
from fl_dp.statements import AccountStatement, Stated, Statement, stated_in

SAME = 1e-6  # epsilons of two machines that differ by less count as equal
Named = tuple[tuple[str, str], ...]

_PLACES = ("out", "data-root", "engine", "ledgers", "ray-address")  # of the machine, not of the model
_UNITS = {"round-timeout": "s", "memory-mib": "MiB"}
_CLASSES = 40  # that are named in one line
# Metrics reported by classes or subgroups: they are told if small ones are known to be withheld.
_BY_PART = (
    "accuracy-per-class",
    "accuracy-per-subgroup",
    "recall-per-subgroup",
    "auroc-per-subgroup",
    "selection-rate-per-subgroup",
    "label-accuracy-per-subgroup",
    "mae-per-subgroup",
)


@dataclass(frozen=True, slots=True)
class Round:
    """One round, without its clients. counts: clients by status, in the order of CLIENT_STATUSES."""

    report: RoundReport
    counts: tuple[int, ...]

    def measured(self, name: str) -> float | None:
        """The loss, or a metric, by name."""
        return self.report.loss if name == "loss" else metrics_of(self.report).get(name)


@dataclass(frozen=True, slots=True)
class Site:
    """One statement, said; None: not readable. signed: by the key beside it.

    problem: why it does not belong to this run's model, else empty.
    """

    stated: Stated
    said: Statement | None
    signed: Signature
    problem: str = ""

    @property
    def data(self) -> tuple[AccountStatement, ...]:
        found = self.said.accounts if self.said else ()
        return tuple(sorted(found, key=lambda one: natural(one.client)))


@dataclass(frozen=True)
class RunFacts:
    """One run. said: its summary; without one (not `over`) what its last round says.

    private: whether all of its files say that it is. rounds: those that were run, of the planned ones. sites:
    the statements. of_setting: what each key was in the run; settings: of those that are no default, what was
    asked for and what ran. launch: launch.toml; empty if the clients were started by others. described, data:
    the model and the form of the data, by model.json. site_metrics: the last ones. called: the run's name by
    its files. masked: whether masks hid the parts of its secure sums; None if it opened none.
    """

    called: str
    digest: str
    over: bool
    said: Summary
    private: bool
    history: tuple[Round, ...]
    sites: tuple[Site, ...]
    approval: Approval
    of_setting: Mapping[str, str]
    settings: tuple[tuple[str, str, str], ...]
    launch: Mapping[str, Any]
    described: Mapping[str, str]
    data: Named
    site_metrics: SiteMetrics | None
    tests: Mapping[str, TestAccount]
    outcomes: Outcomes
    masked: bool | None

    @cached_property
    def clients(self) -> dict[str, ClientReport]:
        return {name: self.said.clients[name] for name in sorted(self.said.clients, key=natural)}

    @cached_property
    def counted(self) -> dict[str, ClientReport]:
        """The clients that the federation's figures cover."""
        return {name: one for name, one in self.clients.items() if one.cost.charges}

    @property
    def epsilon(self) -> float:
        return math.inf if self.said.epsilon is None else self.said.epsilon

    @property
    def unit(self) -> str:
        return self.said.federation.unit if self.said.federation else "record"

    @property
    def epsilon_alone(self) -> float | None:
        """As epsilon, if the assumption behind secure sums fails; None if no client's data were in any."""
        in_sums = any(entry.shared for one in self.counted.values() for entry in one.cost.charges)
        return self.said.federation.epsilon_alone if in_sums and self.said.federation else None

    @property
    def planned_rounds(self) -> int | None:
        planned = self.of_setting.get("rounds", "")
        return int(planned) if planned.isdecimal() and len(planned) < 10 else None

    @property
    def simulated(self) -> bool:
        """Whether no client had a process of its own."""
        return bool(self.launch.get("engine"))

    @property
    def local(self) -> bool:
        """Whether the launch that wrote the folder started all clients, on its own machine."""
        return bool(self.launch)

    @property
    def interrupted(self) -> bool:
        return self.over and self.said.status == "failed" and self.said.reason == INTERRUPTED

    @property
    def stating(self) -> tuple[Site, ...]:
        """The sites whose statements are about this run."""
        return tuple(one for one in self.sites if not one.problem)

    @property
    def signed(self) -> int:
        """For how many clients a valid signature stands under what their data have spent."""
        signed = [site for site in self.stating if site.signed is Signature.HOLDS]
        return len({data.client for site in signed for data in site.data} & self.clients.keys())

    @property
    def unreliable(self) -> int:
        """Number of statements with a wrong signature, or about another run."""
        return sum(site.signed is Signature.WRONG or bool(site.problem) for site in self.sites)

    @property
    def stated_more(self) -> list[float]:
        """Epsilons that sites of this run have stated and that are above those in the run's own files."""
        stated = [
            (math.inf if data.epsilon is None else data.epsilon, self.clients.get(data.client))
            for site in self.stating
            for data in site.data
        ]
        return [epsilon for epsilon, known in stated if known and epsilon > known.epsilon + SAME]

    @property
    def above(self) -> int:
        """How many clients have spent more than their budget."""
        return sum(one.epsilon > one.budget + SAME for one in self.clients.values())

    @property
    def mixed(self) -> int:
        """How many clients have paid this run for more than one rate or noise."""
        kinds = [
            {(e.sample_rate, e.noise_multiplier) for e in one.cost.charges} for one in self.clients.values()
        ]
        return sum(len(one) > 1 for one in kinds)

    @property
    def stopped(self) -> bool:
        """Whether it ended before its plan, perhaps because of its results."""
        return self.over and self.said.status not in OVER

    @property
    def begun(self) -> bool:
        """Whether it has paid for a round that was begun and not finished."""
        last = self.history[-1].report.epsilon if self.history else 0.0
        return self.stopped and self.private and last < self.epsilon < math.inf

    @property
    def maybe_paid(self) -> bool:
        """Whether clients may have paid for one round more than were finished."""
        return self.stopped and not self.released_nothing and self.said.rounds != self.planned_rounds

    @property
    def released_nothing(self) -> bool:
        """Whether, by its files, it trained nobody: no round, and no account that has paid for it."""
        return self.over and not self.said.rounds and not self.counted

    @property
    def spent_nothing(self) -> bool:
        """Whether rounds were run but no client has paid for one."""
        return self.private and bool(self.said.rounds) and not self.counted

    @property
    def has_model(self) -> bool:
        return self.over and bool(self.said.digests.get("model"))

    @property
    def metrics(self) -> dict[str, float | None]:
        return metrics_of(self.said)

    @property
    def by_part(self) -> dict[str, float | None]:
        """The metrics reported for each class or subgroup, None if withheld."""
        if self.said.suppressed_below < LEAST_CELL:
            return {}
        parts = tuple(f"{metric}[" for metric in _BY_PART)
        told = self.said.metrics.items()
        return {name: value for name, value in told if name.startswith(parts) and of_one_class(name)}

    @property
    def hidden_metrics(self) -> int:
        """Number of class or subgroup metrics that are not shown."""
        return sum(map(of_one_class, self.said.metrics)) - len(self.by_part)

    @property
    def measured(self) -> bool:
        """Whether anything was measured on the server's test data."""
        reports: list[RoundReport | Summary] = [self.said, *(one.report for one in self.history)]
        return any(one is not None for report in reports for one in (report.loss, *report.metrics.values()))

    @property
    def first(self) -> str:
        """The metric that stands first, or else the loss."""
        return next(iter(metrics_of(self.history[0].report) if self.history else self.metrics), "loss")

    @property
    def parts_hidden(self) -> bool:
        """Whether masks hid each client's part from the server. A launch that plays all of them sees it."""
        return self.masked is not False and not self.simulated

    def knowing(self) -> list[bool | None]:
        """Of each client in the federation's figures, whether its ledger knows of other runs, or was made for
        this run alone.

        Taken from the client's own statement, or without one from how the run was launched. None if the files
        do not say.
        """
        launched = self.launch.get(ONE_RUN_LEDGER) is not True if self.local else None
        stated = {
            one.client: not site.said.one_run_ledger
            for site in self.stating
            if site.said
            for one in site.data
        }
        return [stated.get(name, launched) for name in self.counted or self.clients]

    @property
    def all_steps_own(self) -> bool:
        """Whether the ledgers of those who trained show no steps of other runs."""
        return all(one.cost.taken == one.taken for one in self.counted.values())

    @property
    def together(self) -> list[ClientReport]:
        """Who has spent most in this run and others; nobody if none is counted."""
        return sorted(self.counted.values(), key=lambda one: -one.epsilon)[:1]


def read_run(folder: RunFolder) -> RunFacts:
    """The facts of the run in the folder; ConfigError if there are none, or if a file is damaged."""
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
    settings, shown = _settings(folder)
    described = _description(folder)
    accounts = said.test_accounts or of_sites
    outcomes = outcomes_of(said.outcomes, "summary.json")
    return RunFacts(
        called=_name(folder) or said.run or "of no name",
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
    """The equivalent of a summary for a run that has none. last: the report of its last round."""
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
        "no round of this run is over and nothing works on it, so there is nothing to report; why is said by "
        f"the logs in {run.folder.shown}/logs."
    )


def metrics_of(report: RoundReport | Summary) -> dict[str, float | None]:
    """The metrics of all test data, by name; without any, accuracy if it is there."""
    found = report.metrics or ({} if report.accuracy is None else {"accuracy": report.accuracy})
    return {name: value for name, value in found.items() if not of_one_class(name)}


def _sites(folder: RunFolder, summary: Summary | None) -> tuple[Site, ...]:
    """The statements in statements.json, if there. summary: whose run and model they must name.

    ConfigError if the file has another form. A statement that cannot be read is shown as such.
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
        return Site(found, None, signed, str(error))
    others = (
        " and ".join(speaks_of_another(said, summary.run, summary.digests.get("model"))) if summary else ""
    )
    return Site(found, said, signed, f"speaks of another {others}" if others else "")


def _settings(folder: RunFolder) -> tuple[dict[str, str], tuple[tuple[str, str, str], ...]]:
    """What each key was in the run; of those that are not a default here, what was asked for and what ran."""
    asked = read_toml(folder.config) if folder.config.exists() else {}
    became = read_toml(folder.resolved) if folder.resolved.exists() else asked
    usual = RunConfig().to_flat()
    keys = [key for key in dict.fromkeys((*asked, *became)) if key not in _PLACES]
    told = [key for key in keys if not asked.get(key) == became.get(key) == usual.get(key)]
    return (
        {key: _shown(became, key) for key in keys},
        tuple((key, _shown(asked, key), _shown(became, key)) for key in told),
    )


def _name(folder: RunFolder) -> str:
    """Name of the folder that the run was written to; empty if its files name none."""
    out = read_toml(folder.config).get("out", "") if folder.config.exists() else ""
    return PurePosixPath(str(out)).name


def _shown(found: Mapping[str, Any], key: str) -> str:
    value = found.get(key, "")
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{without_place(str(value))}{f' {_UNITS[key]}' if key in _UNITS and value else ''}"


def without_place(value: str) -> str:
    """'npz:/data/a.npz' as 'npz:a.npz': removes the folder of a file that a text names."""
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
    """What model.json says of the data. Values of another type are left out: nobody vouches for them."""
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
