"""A study's runs as tables, with the plot and the comparison that a paper needs."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fl_dp.accounting.events import merge
from fl_dp.accounting.largest import largest_epsilon
from fl_dp.api.result import Result
from fl_dp.config.data import DataSettings
from fl_dp.config.run import RunConfig
from fl_dp.config.setting import abouts_of
from fl_dp.errors import ConfigError
from fl_dp.optional import require_package
from fl_dp.records import Entry
from fl_dp.reporting.console import rounded_up
from fl_dp.reporting.reports import NOT_PRIVATE, of_one_class
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.simulation.local_figures import LocalFigure

if TYPE_CHECKING:
    import pandas as pd

SEED, BUDGET, EPSILON, TOGETHER, LOCAL = "seed", "budget", "epsilon", "together", "local"
# Columns that have another name than their setting: `epsilon` is what was spent, `loss` what was measured.
_AXES = {"epsilon": BUDGET, "loss": "trained loss"}
TAKEN = (SEED, TOGETHER, "status", "seconds", "folder", "round")


@dataclass(frozen=True, slots=True)
class Point:
    """labels: what was varied, by name. settings: what that means for a run."""

    labels: Mapping[str, Any]
    settings: Mapping[str, Any]

    def __str__(self) -> str:
        return ", ".join(f"{name} = {value}" for name, value in self.labels.items()) or "one setting"


@dataclass(frozen=True, repr=False)
class Results:
    """What `fl_dp.study` returns.

    Attributes:
        runs: A data frame with a row a run: what was varied, `seed`, `status`, `rounds`, the final metrics
            (`local accuracy`: the mean of the clients' own figures), `epsilon` spent (NaN without privacy;
            `budget` is the epsilon asked for, if it was varied), `seconds`, `folder`, and `together`, the
            epsilon of this run and all before it on the same records.
        rounds: A data frame with a row a round: what was varied, `seed`, and the columns of `Result.rounds`.
        varied: Names of the columns that were varied.
        delta: The largest delta of any run, at which `together` holds.

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
    delta: float = math.nan

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
        """The epsilon of all runs: to choose one of them, one has to see all."""
        private = self.runs[EPSILON].notna()
        beside = "" if private.all() else f"; for runs that are {NOT_PRIVATE} no epsilon holds"
        if not private.any():
            return f"{NOT_PRIVATE}: no epsilon holds"
        spent = rounded_up(float(self.runs[TOGETHER].max()))
        return (
            f"all runs together, and so the choice of one, cost the same records epsilon {spent} at delta "
            f"{self.delta:g}{beside}"
        )

    def plot(self, x: str = EPSILON, y: str = "accuracy", by: str = "") -> Any:
        """Means of `y` over seeds against means of `x`, with standard errors as bars.

        Args:
            x: A column of `runs`: `epsilon` is what the runs spent.
            y: A column of `runs`.
            by: What was varied and gets a line of its own for each value; empty: the first such.

        Returns:
            A matplotlib Figure. Runs without privacy are dashed lines over all of `x` = epsilon. The legend
            names the values of `by` whose runs have no `y`.

        Raises:
            ConfigError: There is no such column, or matplotlib is not installed.
        """
        require_package("matplotlib", "plot()")
        import pandas as pd  # late: few programs draw
        from matplotlib.figure import Figure

        by = by or next(iter(self.varied), SEED)
        self._check_columns(x, y, by)
        figure = Figure(layout="constrained")
        axes = figure.add_subplot(xlabel=x, ylabel=y)
        for name, every in self.runs.groupby(by, sort=False, dropna=False):
            words, rows = "" if pd.isna(name) else f"{name}, ", every.dropna(subset=[y])
            others = [one for one in self.varied if one != by]
            points = rows.groupby(others or by, sort=False, dropna=False)
            line = points[[x, y]].agg(["mean", _standard_error]).sort_values((x, "mean"))
            without = line[line[(x, "mean")].isna()]
            for height in without[(y, "mean")]:
                axes.axhline(height, linestyle="--", color="grey", label=f"{words}{NOT_PRIVATE}")
            line = line.drop(without.index)
            if len(line):
                error = line[(y, _standard_error.__name__)]
                axes.errorbar(line[(x, "mean")], line[(y, "mean")], error, marker="o", capsize=3, label=name)
            if rows.empty:
                axes.plot([], [], linestyle="none", label=f"{words}no {y}")
        axes.legend(title=by)
        return figure

    def difference(self, of: Any, to: Any, y: str = "accuracy", by: str = "") -> "pd.DataFrame":
        """How much better `of` is than `to`, seed by seed: equal seeds mean equal data, weights and cohorts.

        Args:
            of: A value of `by`.
            to: Another value.
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
        runs = self._at_each_budget() if BUDGET in others else self.runs
        sides = runs.pivot_table(index=[*others, SEED], columns=by, values=y, sort=False)
        for one in (of, to):
            if one not in sides:
                raise ConfigError(f"{by} = {one!r}: no run has it; there are {', '.join(map(str, sides))}.")
        pairs = (sides[of] - sides[to]).dropna()
        grouped = pairs.groupby(others, sort=False) if others else pairs.groupby(lambda _: f"{of} - {to}")
        found = grouped.agg(["mean", _standard_error, "count"])
        return found.rename(columns={_standard_error.__name__: "standard error", "count": "seeds"})

    def _at_each_budget(self) -> "pd.DataFrame":
        """`runs`, those without privacy once for each budget: they are compared with each."""
        import pandas as pd  # late: as above

        without = self.runs[BUDGET].isna()
        budgets = self.runs[[BUDGET]].dropna().drop_duplicates()
        if budgets.empty:
            budgets = pd.DataFrame({BUDGET: [math.inf]})
        repeated = self.runs[without].drop(columns=BUDGET).merge(budgets, how="cross")
        return pd.concat([self.runs[~without], repeated])

    def _over_seeds(self, columns: list[str]) -> "pd.DataFrame":
        """Means and standard errors of the columns, for each combination of what was varied."""
        by = list(self.varied) or [SEED]
        found = self.runs.groupby(by, sort=False, dropna=False)[columns].agg(["mean", _standard_error])
        names = [name if kind == "mean" else "+-" for name, kind in found.columns]
        return found.set_axis(names, axis=1).round(4)

    def _check_columns(self, *names: str) -> None:
        for name in names:
            if name not in self.runs:
                raise ConfigError(f"{name}: no such column; there are {', '.join(self.runs.columns)}.")


def _standard_error(values: "pd.Series[float]") -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan


def results_of(order: Sequence[tuple[Point, int]], found: Sequence[Result]) -> Results:
    """The tables of the runs `found`, of each point and seed."""
    import pandas as pd  # late: it takes half a second

    rows, rounds = [], []
    varied = [_AXES.get(name, name) for name in (order[0][0].labels if order else ())]
    for (point, seed), run, so_far in zip(order, found, together_of(found), strict=True):
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
        rows.append(which | ended | which)  # rounds may have been varied
        rounds.append(pd.DataFrame(run.rounds).assign(**which))
    of_rounds = pd.concat(rounds, ignore_index=True) if rounds else pd.DataFrame()
    return Results(pd.DataFrame(rows), of_rounds, tuple(varied), largest_delta(found))


def local_figures(run: Result) -> Mapping[str, LocalFigure]:
    """By metric; none if the run has none."""
    return run.local_figures if RunFolder(run.folder).local.exists() else {}


def together_of(found: Sequence[Result]) -> Iterator[float]:
    """After each run, an upper bound of the epsilon of all so far for one record; NaN if none is private.

    At least what the run's ledger shows, which may have other runs, and lacks accounts that were retired.
    """
    for run, of_all in zip(found, composed(found), strict=True):
        clients = run.summary.get("clients", {}).values() if run.private else ()
        shown = [math.inf if one["epsilon"] is None else one["epsilon"] for one in clients]
        yield max([*shown, of_all], key=lambda one: -1.0 if math.isnan(one) else one)


def composed(found: Sequence[Result]) -> Iterator[float]:
    """The same, from what each run alone has charged.

    With equal splits a record was at one client in all runs; with others it may have been at any.
    """
    delta = largest_delta(found)
    charges: dict[str, dict[str, list[Entry]]] = {}
    for run in found:
        clients = run.summary.get("clients", {}) if run.private else {}
        of_split = charges.setdefault(_split(run.settings), {}) if clients else {}
        for name, one in clients.items():
            own = (one.get("this_run") or one)["charges"]
            of_split.setdefault(name, []).extend(map(Entry.from_dict, own))
        choices = [set(map(merge, each.values())) for each in charges.values()]
        yield largest_epsilon(choices, delta) if choices else math.nan


def largest_delta(found: Sequence[Result]) -> float:
    """Of the private runs; NaN without any."""
    return max((float(run.delta or 0) for run in found if run.private), default=math.nan)


def _split(settings: RunConfig) -> str:
    """All that decides which client has a record."""
    return repr([getattr(settings, name) for name in (*abouts_of(DataSettings), "task", "clients")])
