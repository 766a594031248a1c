"""What the runs of a sweep have reached, from their folders alone: a row for each, whatever became of it.

The rows are shown as a table over seeds with what choosing from them costs, results.csv and report.html.
"""

import csv
import io
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fl_dp.accounting.budget import federation_budget
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.config.run import RunConfig
from fl_dp.durable_files import write_whole
from fl_dp.errors import FlDpError
from fl_dp.federation.client.registration import dataset_name
from fl_dp.launch.clients import client_config
from fl_dp.launch.ledger_place import NOWHERE
from fl_dp.launch.spending import ForeseenAccounts
from fl_dp.launch.sweep.plan import PlannedRun, SweepFolder, SweepPlan
from fl_dp.launch.sweep.words import beside_unprotected
from fl_dp.records import Entry
from fl_dp.reporting.console import rounded_up
from fl_dp.reporting.page.client_facts import own_charges
from fl_dp.reporting.page.round_facts import metrics_of
from fl_dp.reporting.page.write import drawn
from fl_dp.reporting.reports import OVER, counts_this_run, epsilon_from_json, of_this_run
from fl_dp.reporting.run_files import Run
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.reporting.spreadsheet import disarmed
from fl_dp.reporting.table import print_table

WAITING, UNFINISHED, REFUSED = "waiting", "unfinished", "refused"


@dataclass(frozen=True, slots=True)
class Row:
    """One run. status: of its summary, or WAITING, UNFINISHED (it has begun), REFUSED (it could not begin).

    epsilon: of its clients' accounts when it ended, so on a shared ledger earlier runs count; alone: of its
    own steps. Both are None if unknown, infinite without privacy. own: its own steps by client; None if the
    reports do not say. seconds: of its rounds.
    """

    run: PlannedRun
    status: str
    rounds: int = 0
    epsilon: float | None = None
    alone: float | None = None
    delta: float | None = None
    loss: float | None = None
    accuracy: float | None = None
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    seconds: float | None = None
    reason: str = ""
    own: Mapping[str, tuple[Entry, ...] | None] = field(default_factory=dict)

    @property
    def shown(self) -> dict[str, float | None]:
        """The metrics of all test records that were asked for, in that order."""
        return metrics_of({"metrics": self.metrics, "accuracy": self.accuracy})

    @property
    def score(self) -> tuple[str, float | None]:
        """What runs are compared by: the first metric, else the loss."""
        return next(iter(self.shown.items()), ("loss", self.loss))


def rows_of(plan: SweepPlan, folder: SweepFolder) -> list[Row]:
    """The rows, in the plan's order. A run that cannot be read is UNFINISHED, with the reason."""
    return [_row(run, folder) for run in plan.runs]


def _row(run: PlannedRun, folder: SweepFolder) -> Row:
    place = folder.run(run.name)
    if not place.launch.exists():
        why = _refusal(folder.log(run.name))
        return Row(run, REFUSED if why else WAITING, reason=why)
    try:
        if summary := Run(place).summary():
            return _of(run, summary, str(summary["status"]))
        rounds = list(Run(place).rounds())
    except FlDpError as error:
        return Row(run, UNFINISHED, reason=str(error))
    seconds = sum(one.get("seconds") or 0.0 for one in rounds)
    last = rounds[-1] if rounds else {}
    return _of(run, {**last, "rounds": len(rounds), "seconds": seconds}, UNFINISHED)


def _refusal(log: Path) -> str:
    """The line in which a command says why it could not begin; empty if it was stopped, or never started."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return next((line for line in text.splitlines() if line.startswith("error: ")), "")


def _of(run: PlannedRun, found: Mapping[str, Any], status: str) -> Row:
    private, clients = found.get("private", True), found.get("clients", {})
    own = {name: _own(client) for name, client in clients.items()}
    return Row(
        run,
        status,
        found.get("rounds", 0),
        _total(found) if clients else None,
        _alone(clients, own, run) if private else math.inf,
        found.get("delta"),
        found.get("loss"),
        found.get("accuracy"),
        found.get("metrics", {}),
        found.get("seconds"),
        found.get("reason", ""),
        own,
    )


def _total(found: Mapping[str, Any]) -> float:
    """Total of its clients' accounts at its end, earlier runs included, for a person at that many of them."""
    if not counts_this_run(found) or not found["private"]:  # an older fl_dp reported exactly that
        return epsilon_from_json(found.get("epsilon"))
    spent = (epsilon_from_json(one["epsilon"]) for one in found["clients"].values())
    return max(spent, default=0.0)


def _alone(
    clients: Mapping[str, Any], own: Mapping[str, tuple[Entry, ...] | None], run: PlannedRun
) -> float | None:
    """The largest epsilon that this run added to an account; None if the reports do not say."""
    found = []
    for name, client in clients.items():
        if (charges := own[name]) is None:
            return None
        if charges:
            accountant = client.get("accountant") or str(run.config["accountant"])
            found.append(compute_epsilon(charges, client["delta"], accountant))
    return max(found, default=None)


def _own(client: Mapping[str, Any]) -> tuple[Entry, ...] | None:
    """The charges of this run in a client's report; None if it does not say."""
    charges = _entries(client.get("charges"))
    if client.get("delta") is None or not charges:
        return ()
    if "this_run" in client:
        return _entries(of_this_run(client)["charges"])
    return own_charges(charges, _entries(client.get("before")))  # all of it, or an older fl_dp's


def _entries(found: Any) -> tuple[Entry, ...]:
    return tuple(map(Entry.from_dict, found or ()))


def costliest(place: RunFolder) -> tuple[Entry, ...]:
    """The charges of the client that has spent most in a run with its own ledger."""
    found = Run(place).summary() or (list(Run(place).rounds()) or [{}])[-1]
    clients = found.get("clients", {}).values()
    if not clients:
        return ()
    return _entries(max(clients, key=lambda one: epsilon_from_json(one.get("epsilon"))).get("charges"))


def total_epsilon(plan: SweepPlan, folder: SweepFolder) -> float:
    """The epsilon of all runs so far on the same data, at the plan's delta; runs without privacy left out.

    On a shared ledger it is what the accounts hold; otherwise it is computed as if the runs had shared one.
    """
    accountant, delta = str(plan.runs[0].config["accountant"]), plan.delta
    if plan.ledger:
        accounts = ForeseenAccounts(Path(plan.ledger))
        configs = [RunConfig.from_flat(run.config) for run in plan.runs]
        names = {
            dataset_name(client_config(config, client, NOWHERE))
            for config in configs
            for client in range(config.clients)
        }
        spent = [(compute_epsilon(accounts.spent(name), delta, accountant), delta) for name in names]
        return federation_budget(spent).epsilon
    begun = [place for run in plan.runs if (place := folder.run(run.name)).launch.exists()]
    charges = [entry for place in begun for entry in costliest(place) if entry.private]
    return compute_epsilon(charges, delta, accountant)


def own_epsilon(plan: SweepPlan, rows: Sequence[Row]) -> float | None:
    """The epsilon of the rows' own steps together, at the plan's delta; None if not known.

    On a shared ledger a client has the same data in all runs; otherwise as `total_epsilon`.
    """
    accountant, delta = str(plan.runs[0].config["accountant"]), plan.delta
    by_client = dict[str, list[Entry]]()
    for row in rows:
        for name, charges in row.own.items():
            if charges is None:
                return None
            by_client.setdefault(name, []).extend(charges)
    spent = [(compute_epsilon(charges, delta, accountant), delta) for charges in by_client.values()]
    return federation_budget(spent).epsilon if spent else 0.0


def print_results(plan: SweepPlan, rows: Sequence[Row]) -> None:
    """Print a line for each combination: medians over its seeds, and the spread of the first metric.

    On a shared ledger, where epsilon grows from run to run, also what a run's own steps cost.
    """
    points = list(dict.fromkeys(run.point for run in plan.runs))
    seeds = max(sum(run.point == point for run in plan.runs) for point in points)
    names = list(dict.fromkeys(name for row in rows for name in row.shown)) or ["accuracy"]
    title = f"medians over {seeds} seeds" if seeds > 1 else "results"
    own = ("own epsilon",) if plan.ledger else ()
    columns = ("run", names[0], "min to max", *names[1:], "loss", "epsilon", *own, "seconds", "runs")
    lines = [
        _line(point, names, [row for row in rows if row.run.point == point], own=bool(own))
        for point in points
    ]
    print_table(title, columns, lines, left=("run",))


def _line(point: str, metrics: Sequence[str], rows: Sequence[Row], *, own: bool) -> tuple[str, ...]:
    first, *others = ([row.shown.get(name) for row in rows] for name in metrics)
    scores = [score for score in first if score is not None]
    states = [
        f"{UNFINISHED} (round {row.rounds} of {row.run.config['rounds']})"
        if row.status == UNFINISHED
        else row.status
        for row in rows
    ]
    return (
        point,
        _median(scores, "{:.3f}"),
        f"{min(scores):.3f} to {max(scores):.3f}" if len(scores) > 1 else "",
        *(_median(values, "{:.3f}") for values in others),
        _median([row.loss for row in rows], "{:.2f}"),
        _largest([row.epsilon for row in rows]),
        *((_largest([row.alone for row in rows]),) if own else ()),
        _median([row.seconds for row in rows], "{:.1f}"),
        ", ".join(f"{states.count(one)} {one}" for one in dict.fromkeys(states)),
    )


def _median(values: Sequence[float | None], form: str) -> str:
    there = [value for value in values if value is not None]
    return form.format(statistics.median(there)) if there else ""


def _largest(epsilons: Sequence[float | None]) -> str:
    there = [epsilon for epsilon in epsilons if epsilon is not None]
    return rounded_up(max(there)) if there else ""


def write_csv(plan: SweepPlan, rows: Sequence[Row], folder: SweepFolder) -> None:
    """Write results.csv atomically: a row for each run, with formulas disarmed."""
    metrics = list(dict.fromkeys(name for row in rows for name in row.metrics if name != "accuracy"))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        [
            *("run", "point", "seed", *(f"set:{key}" for key in plan.keys), "status", "rounds"),
            *("epsilon", "epsilon_alone", "delta", "loss", "accuracy"),
            *(f"metric:{name}" for name in metrics),
            *("seconds", "reason"),
        ]
    )
    for row in rows:
        run = row.run
        cells: list[object] = [
            *(run.name, run.point, run.seed, *(run.config[key] for key in plan.keys)),
            *(row.status, row.rounds, row.epsilon, row.alone, row.delta, row.loss, row.accuracy),
            *(row.metrics.get(name) for name in metrics),
            *(row.seconds, row.reason),
        ]
        writer.writerow(list(map(disarmed, cells)))
    write_whole(folder.csv, lambda file: file.write(text.getvalue().encode()))


_RULE = (
    "Whoever chooses the best of these runs has seen all of them: the epsilon of a chosen model is that of "
)


def footer(plan: SweepPlan, rows: Sequence[Row], spent: float) -> str:
    """What must be said of a model that is chosen from these results. spent: `total_epsilon`."""
    now = f"{rounded_up(spent)} at delta {plan.delta:g}"
    if plan.public:
        would = f"On private data it would be {now}{beside_unprotected(plan)}; these are public."
        return f"{_RULE}the whole sweep. {would}"
    own = own_epsilon(plan, rows)
    alone = "" if own is None else f" The steps of these runs alone cost {rounded_up(own)}."
    if all(row.status in OVER for row in rows):
        return f"{_RULE}all of them on these data, {now}.{alone}"
    whole = max(epsilon_from_json(plan.epsilon), spent)
    return (
        f"{_RULE}the whole sweep as it was fixed, {rounded_up(whole)} at delta {plan.delta:g}; "
        f"{now} is spent so far.{alone}"
    )


def cost_on_page(plan: SweepPlan, rows: Sequence[Row], folder: SweepFolder) -> str:
    """The same for the page, from the runs' files alone: no ledger, which goes on after the sweep."""
    if plan.public:
        return footer(plan, rows, total_epsilon(plan, folder))
    own = own_epsilon(plan, rows)
    cost = "not known from their files" if own is None else f"{rounded_up(own)} at delta {plan.delta:g}"
    return (
        f"{_RULE}all of them together. Their own steps cost the data {cost}; what the ledger of these data "
        "holds besides is said by fl-dp sweep --show."
    )


def result_line(row: Row) -> str:
    """ "completed: accuracy 0.873, epsilon 1.00"."""
    name, score = row.score
    reached = "" if score is None else f"{name} {score:.3f}, "
    spent = "" if row.epsilon is None else f"epsilon {rounded_up(row.epsilon)}"
    return f"{row.status}: {reached}{spent}".rstrip(", :")


def write_page(runs: Sequence[RunFolder], folder: SweepFolder, cost: str) -> str:
    """Write report.html with all runs side by side; returns a line for the user, also if it failed. Never
    raises. cost: `cost_on_page`.
    """
    if problem := drawn(runs, folder.report, together=cost):
        return f"no report.html: {problem}"
    return f"report in {folder.shown / folder.report.name}"
