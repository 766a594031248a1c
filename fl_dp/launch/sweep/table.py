"""A sweep's results for people and for spreadsheets: a table over seeds, and results.csv."""

import csv
import io
import statistics
from collections.abc import Sequence

from fl_dp.durable_files import write_whole
from fl_dp.launch.sweep.plan import SweepFolder, SweepPlan
from fl_dp.launch.sweep.results import UNFINISHED, Row
from fl_dp.reporting.console import rounded_up
from fl_dp.reporting.reports import OVER
from fl_dp.reporting.spreadsheet import disarmed
from fl_dp.reporting.table import print_table


def print_results(plan: SweepPlan, rows: Sequence[Row]) -> None:
    """Print a line for each combination: medians over its seeds, of what they are compared by the spread."""
    points = list(dict.fromkeys(run.point for run in plan.runs))
    seeds = max(sum(run.point == point for run in plan.runs) for point in points)
    names = [row.score[0] for row in rows if row.score[1] is not None]
    score = names[0] if names else "accuracy"
    title = f"medians over {seeds} seeds" if seeds > 1 else "results"
    columns = ("run", score, "least to most", "loss", "epsilon", "seconds", "runs")
    lines = [_line(point, [row for row in rows if row.run.point == point]) for point in points]
    print_table(title, columns, lines, left=("run",))


def _line(point: str, rows: Sequence[Row]) -> tuple[str, ...]:
    epsilons = [row.epsilon for row in rows if row.epsilon is not None]
    return (
        point,
        _median([row.score[1] for row in rows], "{:.3f}"),
        _spread([row.score[1] for row in rows]),
        _median([row.loss for row in rows], "{:.2f}"),
        rounded_up(max(epsilons)) if epsilons else "",
        _median([row.seconds for row in rows], "{:.1f}"),
        _statuses(rows),
    )


def _median(values: Sequence[float | None], form: str) -> str:
    there = [value for value in values if value is not None]
    return form.format(statistics.median(there)) if there else ""


def _spread(values: Sequence[float | None]) -> str:
    there = [value for value in values if value is not None]
    return f"{min(there):.3f} to {max(there):.3f}" if len(there) > 1 else ""


def _statuses(rows: Sequence[Row]) -> str:
    """ "3 completed", "2 completed, 1 waiting"."""
    found = [row.status if row.status != UNFINISHED else _begun(row) for row in rows]
    return ", ".join(f"{found.count(one)} {one}" for one in dict.fromkeys(found))


def _begun(row: Row) -> str:
    return f"{UNFINISHED} (round {row.rounds} of {row.run.config['rounds']})"


def write_csv(plan: SweepPlan, rows: Sequence[Row], folder: SweepFolder) -> None:
    """Write results.csv, whole or not at all: a row for each run, formulas disarmed."""
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
        writer.writerow([disarmed(cell) for cell in _cells(plan, row, metrics)])
    write_whole(folder.csv, lambda file: file.write(text.getvalue().encode()))


def _cells(plan: SweepPlan, row: Row, metrics: Sequence[str]) -> list[object]:
    run = row.run
    return [
        *(run.name, run.point, run.seed, *(run.config[key] for key in plan.keys)),
        *(row.status, row.rounds, row.epsilon, row.alone, row.delta, row.loss, row.accuracy),
        *(row.metrics.get(name) for name in metrics),
        *(row.seconds, row.reason),
    ]


def is_over(rows: Sequence[Row]) -> bool:
    return all(row.status in OVER for row in rows)
