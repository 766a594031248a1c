"""What the runs of a sweep have reached, from their folders alone: a row for each, whatever became of it.

The rows are shown as a table over seeds with what choosing from them costs, results.csv and report.html.
"""

import csv
import heapq
import io
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
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
    own steps. Both are None if unknown, infinite without privacy. seconds: of its rounds.
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

    @property
    def score(self) -> tuple[str, float | None]:
        """What runs are compared by: accuracy, else the first metric, else the loss."""
        if self.accuracy is not None:
            return "accuracy", self.accuracy
        name = next(iter(self.metrics), "")
        return (name, self.metrics[name]) if name else ("loss", self.loss)


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
    return Row(
        run,
        status,
        found.get("rounds", 0),
        _total(found) if clients else None,
        _alone(clients.values(), run) if private else math.inf,
        found.get("delta"),
        found.get("loss"),
        found.get("accuracy"),
        found.get("metrics", {}),
        found.get("seconds"),
        found.get("reason", ""),
    )


def _total(found: Mapping[str, Any]) -> float:
    """Total of its clients' accounts at its end, earlier runs included, for a person at that many of them."""
    if not counts_this_run(found) or not found["private"]:  # an older fl_dp reported exactly that
        return epsilon_from_json(found.get("epsilon"))
    spent = (epsilon_from_json(one["epsilon"]) for one in found["clients"].values())
    return sum(heapq.nlargest(found["federation"]["clients_per_person"], spent))


def _alone(clients: Iterable[Mapping[str, Any]], run: PlannedRun) -> float | None:
    """The largest epsilon that this run added to an account; None if the reports do not say."""
    found = []
    for client in clients:
        charges, delta = _entries(client.get("charges")), client.get("delta")
        if delta is not None and charges:
            own: tuple[Entry, ...] | None = _entries(of_this_run(client)["charges"])
            if "this_run" not in client:  # all of it is this run's, or an older fl_dp did not separate it
                own = own_charges(charges, _entries(client.get("before")))
            if own is None:
                return None
            found.append(
                compute_epsilon(own, delta, client.get("accountant") or str(run.config["accountant"]))
            )
    return max(found, default=None)


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
    accountant = str(plan.runs[0].config["accountant"])
    persons = max(int(run.config.get("clients-per-person", 1)) for run in plan.runs)
    delta = plan.delta / persons  # for each of a person's accounts; together they have the plan's delta
    if plan.ledger:
        accounts = ForeseenAccounts(Path(plan.ledger))
        configs = [RunConfig.from_flat(run.config) for run in plan.runs]
        names = {
            dataset_name(client_config(config, client, NOWHERE))
            for config in configs
            for client in range(config.clients)
        }
        spent = [(compute_epsilon(accounts.spent(name), delta, accountant), delta) for name in names]
        return federation_budget(spent, persons).epsilon
    begun = [place for run in plan.runs if (place := folder.run(run.name)).launch.exists()]
    charges = [entry for place in begun for entry in costliest(place) if entry.private]
    return persons * compute_epsilon(charges, delta, accountant)


def print_results(plan: SweepPlan, rows: Sequence[Row]) -> None:
    """Print a line for each combination: medians over its seeds, and the spread of the score."""
    points = list(dict.fromkeys(run.point for run in plan.runs))
    seeds = max(sum(run.point == point for run in plan.runs) for point in points)
    names = [row.score[0] for row in rows if row.score[1] is not None]
    score = names[0] if names else "accuracy"
    title = f"medians over {seeds} seeds" if seeds > 1 else "results"
    columns = ("run", score, "least to most", "loss", "epsilon", "seconds", "runs")
    lines = [_line(point, [row for row in rows if row.run.point == point]) for point in points]
    print_table(title, columns, lines, left=("run",))


def _line(point: str, rows: Sequence[Row]) -> tuple[str, ...]:
    scores = [row.score[1] for row in rows if row.score[1] is not None]
    epsilons = [row.epsilon for row in rows if row.epsilon is not None]
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
        _median([row.loss for row in rows], "{:.2f}"),
        rounded_up(max(epsilons)) if epsilons else "",
        _median([row.seconds for row in rows], "{:.1f}"),
        ", ".join(f"{states.count(one)} {one}" for one in dict.fromkeys(states)),
    )


def _median(values: Sequence[float | None], form: str) -> str:
    there = [value for value in values if value is not None]
    return form.format(statistics.median(there)) if there else ""


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


def footer(plan: SweepPlan, rows: Sequence[Row], spent: float) -> str:
    """What must be said of a model that is chosen from these results."""
    rule = "Whoever chooses the best of these runs has seen all of them: the epsilon of a chosen model is "
    now = f"{rounded_up(spent)} at delta {plan.delta:g}"
    if plan.public:
        would = f"On private data it would be {now}{beside_unprotected(plan)}; these are public."
        return f"{rule}that of the whole sweep. {would}"
    if all(row.status in OVER for row in rows):
        return f"{rule}that of all of them on these data, {now}."
    whole = max(epsilon_from_json(plan.epsilon), spent)
    return (
        f"{rule}that of the whole sweep as it was fixed, {rounded_up(whole)} at delta {plan.delta:g}; "
        f"{now} is spent so far."
    )


def result_line(row: Row) -> str:
    """ "completed: accuracy 0.873, epsilon 1.00"."""
    name, score = row.score
    reached = "" if score is None else f"{name} {score:.3f}, "
    spent = "" if row.epsilon is None else f"epsilon {rounded_up(row.epsilon)}"
    return f"{row.status}: {reached}{spent}".rstrip(", :")


def write_page(runs: Sequence[RunFolder], folder: SweepFolder) -> str:
    """Write report.html with all runs side by side; returns a line for the user, also if it failed. Never
    raises.
    """
    if problem := drawn(runs, folder.report):
        return f"no report.html: {problem}"
    return f"report in {folder.shown / folder.report.name}"
