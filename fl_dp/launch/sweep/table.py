"""A sweep's results: a table over seeds, what choosing from them costs, results.csv and report.html."""

import csv
import io
import statistics
from collections.abc import Sequence

from fl_dp.durable_files import write_whole
from fl_dp.launch.sweep.plan import SweepFolder, SweepPlan
from fl_dp.launch.sweep.results import UNFINISHED, Row
from fl_dp.launch.sweep.words import beside_unprotected
from fl_dp.reporting.console import rounded_up
from fl_dp.reporting.page.write import drawn
from fl_dp.reporting.reports import OVER, epsilon_from_json
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.reporting.spreadsheet import disarmed
from fl_dp.reporting.table import print_table


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
    rule = (
        "Whoever chooses the best of these runs has looked at all of them: the epsilon of a chosen model is "
    )
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
