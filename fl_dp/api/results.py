"""The runs of a study as tables, and the plot and the comparison that a paper has of them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fl_dp.accounting.accountant import DEFAULT_ACCOUNTANT
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.api.result import Result
from fl_dp.errors import ConfigError
from fl_dp.optional import require_package
from fl_dp.records import Entry
from fl_dp.reporting.console import rounded_up
from fl_dp.reporting.reports import NOT_PRIVATE, of_one_class
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.simulation.local_figures import LocalFigure

if TYPE_CHECKING:
    import pandas as pd

    from fl_dp.api.study import Point

SEED, BUDGET, EPSILON, TOGETHER, LOCAL = "seed", "budget", "epsilon", "together", "local"
_AXES = {"epsilon": BUDGET}  # a column that has another name than its setting: `epsilon` is what was spent


@dataclass(frozen=True, repr=False)
class Results:
    """What `fl_dp.study` returns.

    Attributes:
        runs: A data frame with a row a run: what was varied, `seed`, `status`, `rounds`, the final metrics
            (`local accuracy`: the mean of the clients' own figures), `epsilon` spent (NaN without privacy;
            `budget` is what was asked, if it was varied), `seconds`, `folder`, and `together`, the epsilon of
            this run and all before it on the same records.
        rounds: A data frame with a row a round: what was varied, `seed`, and the columns of `Result.rounds`.
        varied: Names of the columns that were varied.

    Example:
        >>> import fl_dp
        >>> found = fl_dp.study(
        ...     vary={"epsilon": [1, 8]}, seeds=[0, 1], out="runs/study", data="digits", rounds=1, quiet=True
        ... )
        >>> found.runs.shape[0], found.rounds.shape[0], found.varied
        (4, 4, ('budget',))
        >>> found.plot().axes[0].get_xlabel()
        'epsilon'
    """

    runs: "pd.DataFrame"
    rounds: "pd.DataFrame"
    varied: tuple[str, ...]

    def __repr__(self) -> str:
        """Means over seeds with their standard errors, and what choosing among the runs costs."""
        aside = (*self.varied, SEED, TOGETHER, "rounds", "seconds")
        shown = [
            one for one in self.runs.select_dtypes("number") if one not in aside and not of_one_class(one)
        ]
        table = self._over_seeds(shown)
        return f"{table.to_string() if len(table) else 'no run'}\n{self.cost}"

    @property
    def cost(self) -> str:
        """The epsilon of all runs. Whoever chooses one of them has seen all."""
        private = self.runs[EPSILON].notna()
        beside = "" if private.all() else f"; for runs that are {NOT_PRIVATE} no epsilon holds"
        if not private.any():
            return f"{NOT_PRIVATE}: no epsilon holds"
        spent = rounded_up(float(self.runs[TOGETHER].max()))
        return f"all runs together, and so the choice of one, cost the same records epsilon {spent}{beside}"

    def plot(self, x: str = EPSILON, y: str = "accuracy", by: str = "") -> Any:
        """Means of `y` over seeds against means of `x`, with standard errors as bars.

        Args:
            x: A column of `runs`: `epsilon` is what the runs spent.
            y: A column of `runs`.
            by: What was varied and gets a line of its own for each value; empty: the first such.

        Returns:
            A matplotlib Figure. Runs without privacy are dashed lines over all of `x` = epsilon.

        Raises:
            ConfigError: There is no such column, or matplotlib is not installed.
        """
        require_package("matplotlib", "plot()")
        from matplotlib.figure import Figure  # late: few programs draw

        by = by or next(iter(self.varied), SEED)
        self._check_columns(x, y, by)
        figure = Figure(layout="constrained")
        axes = figure.add_subplot(xlabel=x, ylabel=y)
        for name, rows in self.runs.dropna(subset=[y]).groupby(by, sort=False):
            others = [one for one in self.varied if one != by]
            points = rows.groupby(others, sort=False, dropna=False) if others else rows.groupby(by)
            line = points[[x, y]].agg(["mean", _standard_error]).sort_values((x, "mean"))
            without = line[line[(x, "mean")].isna()]
            for height in without[(y, "mean")]:
                axes.axhline(height, linestyle="--", color="grey", label=f"{name}, {NOT_PRIVATE}")
            line = line.drop(without.index)
            if len(line):
                error = line[(y, _standard_error.__name__)]
                axes.errorbar(line[(x, "mean")], line[(y, "mean")], error, marker="o", capsize=3, label=name)
        axes.legend(title=by)
        return figure

    def difference(self, of: Any, to: Any, y: str = "accuracy", by: str = "") -> "pd.DataFrame":
        """How much better `of` is than `to`, seed by seed: equal seeds have equal data, weights and cohorts.

        Args:
            of: A value of `by`.
            to: Another one.
            y: The column that is compared.
            by: What was varied; empty: the first such.

        Returns:
            For each value of what else was varied: the mean difference, its standard error, and the number of
            seeds that have both.

        Raises:
            ConfigError: There is no such column or value.
        """
        by = by or next(iter(self.varied), SEED)
        self._check_columns(y, by)
        others = [one for one in self.varied if one != by]
        sides = self.runs.pivot_table(index=[*others, SEED], columns=by, values=y, sort=False)
        for one in (of, to):
            if one not in sides:
                raise ConfigError(f"{by} = {one!r}: no run; there are {', '.join(map(str, sides))}.")
        pairs = (sides[of] - sides[to]).dropna()
        grouped = pairs.groupby(others, sort=False) if others else pairs.groupby(lambda _: f"{of} - {to}")
        found = grouped.agg(["mean", _standard_error, "count"])
        return found.rename(columns={_standard_error.__name__: "standard error", "count": "seeds"})

    def _over_seeds(self, columns: list[str]) -> "pd.DataFrame":
        """Means and standard errors of the columns, for each combination of what was varied."""
        by = list(self.varied) or [SEED]
        found = self.runs.groupby(by, sort=False, dropna=False)[columns].agg(["mean", _standard_error])
        names = [name if kind == "mean" else "+-" for name, kind in found.columns]
        return found.set_axis(names, axis=1).round(4)

    def _check_columns(self, *names: str) -> None:
        for name in names:
            if name not in self.runs:
                raise ConfigError(f"{name}: no column; there are {', '.join(self.runs.columns)}.")


def _standard_error(values: "pd.Series[float]") -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan


def results_of(order: Sequence[tuple["Point", int]], found: Sequence[Result], *, one_ledger: bool) -> Results:
    """The tables of the runs `found`, of each point and seed. one_ledger: all have paid from one."""
    import pandas as pd  # late: it takes half a second

    rows, rounds = [], []
    together = of_ledger(found) if one_ledger else composed(found)
    varied = [_AXES.get(name, name) for name in (order[0][0].labels if order else ())]
    for (point, seed), run, so_far in zip(order, found, together, strict=True):
        which = dict(zip(varied, point.labels.values(), strict=True)) | {SEED: seed}
        ended = {
            EPSILON: run.epsilon if run.private and run.epsilon is not None else math.nan,
            "status": run.status,
            "rounds": run.summary.get("rounds", 0),
            **run.summary.get("metrics", {}),
            **{f"{LOCAL} {name}": one.mean for name, one in local_figures(run).items()},
            "seconds": run.summary.get("seconds"),
            TOGETHER: so_far,
            "folder": str(run.folder),
        }
        rows.append(which | ended)
        rounds.append(pd.DataFrame(run.rounds).assign(**which))
    return Results(
        pd.DataFrame(rows), pd.concat(rounds, ignore_index=True) if rounds else pd.DataFrame(), tuple(varied)
    )


def local_figures(run: Result) -> Mapping[str, LocalFigure]:
    """By metric; none if the run has none."""
    return run.local_figures if RunFolder(run.folder).local.exists() else {}


def of_ledger(found: Sequence[Result]) -> Iterator[float]:
    """By the ledger that all runs have paid from: the most that a client had spent after each."""
    for run in found:
        clients = run.summary.get("clients", {}).values()
        yield max((one["epsilon"] for one in clients if one["epsilon"] is not None), default=math.nan)


def composed(found: Sequence[Result]) -> Iterator[float]:
    """After each run, at most the epsilon of all so far for one record.

    It may have been, in each of them, at the client that this run cost most.
    """
    charges: list[Entry] = []
    for run in found:
        if run.private and run.summary.get("clients"):
            delta = max(float(one.delta or 0) for one in found if one.private)
            charges += max(own_charges(run), key=lambda own: compute_epsilon(own, delta, DEFAULT_ACCOUNTANT))
        yield compute_epsilon(charges, delta, DEFAULT_ACCOUNTANT) if charges else math.nan


def own_charges(run: Result) -> set[tuple[Entry, ...]]:
    """What this run alone has charged a client; each once."""
    clients = [(one.get("this_run") or one)["charges"] for one in run.summary["clients"].values()]
    return {tuple(Entry.from_dict(charge) for charge in one) for one in clients}
