"""Compares settings over seeds, as simulated federations: README.md beside this file."""

import argparse
import itertools
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

import fl_dp
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.config.run import PATHS
from fl_dp.config.values import key_of
from fl_dp.federation.client.registration import is_public
from fl_dp.launch.request import read_config, request_of
from fl_dp.launch.resumption import Launch
from fl_dp.records import Entry
from fl_dp.reporting.console import rounded_up
from fl_dp.reporting.run_folder import RunFolder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, default=Path("configs/digits.toml"))
    parser.add_argument("--vary", action="append", default=[], metavar="KEY=[VALUES]", help="repeatable")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--out", type=Path, default=Path("sweep"), help="a folder for each run is made in it")
    parser.add_argument("--ledger", type=Path, help="one lasting ledger for all runs, on private data")
    options = parser.parse_args()
    grid = {key.replace("-", "_"): values for key, values in tomllib.loads("\n".join(options.vary)).items()}
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    check(options.config, points, options.seeds, options.ledger)
    results, rows = [], []
    for point, seed in itertools.product(points, options.seeds):
        result = trained(options.config, {**point, "seed": seed}, options.out, options.ledger)
        results.append(result)
        spent = result.epsilon if result.private else None
        rows.append({**point, "seed": seed, "epsilon spent": spent, **result.summary["metrics"]})
    table = pd.DataFrame(rows)
    table.to_csv(options.out / "results.csv", index=False)
    medians = table.drop(columns="seed")
    print(medians.groupby(list(grid), sort=False).median() if grid else medians.median())
    draw(table, options.out / "results.png")
    print(together(results, options.ledger))


def check(config: Path, points: list[dict[str, Any]], seeds: list[int], ledger: Path | None) -> None:
    """End the program, before the first run, for what would leave private records without protection."""
    for point in points:
        run = asked(config, point)
        private = not (run.public_data or is_public(run))
        if private and (ledger is None or not run.private):
            sys.exit(f"{run.data} is private: all runs need privacy, and one lasting ledger, --ledger DIR.")
        if ledger is not None and len(seeds) > 1 and not run.by_client:
            sys.exit("--ledger: it refuses records that another seed splits anew; give one seed.")


def asked(config: Path, settings: Mapping[str, Any]) -> fl_dp.RunConfig:
    return request_of(read_config(config), {key_of(key): value for key, value in settings.items()}).config


def trained(config: Path, settings: Mapping[str, Any], out: Path, ledger: Path | None) -> fl_dp.Result:
    """The run with these settings. A finished one is read, and one that was stopped goes on where it was."""
    folder = out / ",".join(f"{key}={value}" for key, value in settings.items()).replace("/", "-")
    if not (folder / "launch.toml").exists():
        return fl_dp.simulate(config, out=folder, ledger=ledger, **settings)
    paid_from = Launch.read(RunFolder(folder.absolute())).ledgers
    if ledger is not None and paid_from != ledger.absolute():
        sys.exit(
            f"{folder}: was paid for from {paid_from}; all runs pay from one ledger. Name another --out."
        )
    if fl_dp.load_run(folder).status in ("", "failed"):
        subprocess.run([sys.executable, "-m", "fl_dp.cli.main", "run", "--resume", folder], check=True)
    result = fl_dp.load_run(folder)
    now, then = asked(config, settings).to_flat(), result.settings.to_flat()
    if changed := [key for key in now if now[key] != then[key] and key not in {*PATHS, "out"}]:
        sys.exit(f"{folder}: was trained with another {', '.join(changed)}; name another --out.")
    return result


def own_charges(result: fl_dp.Result) -> list[list[Entry]]:
    """What this run alone has charged each client."""
    found = [(one.get("this_run") or one)["charges"] for one in result.summary["clients"].values()]
    return [[Entry.from_dict(charge) for charge in charges] for charges in found]


def together(results: list[fl_dp.Result], ledger: Path | None) -> str:
    """The epsilon of all runs. Whoever chooses the best of them has seen all: it is the choice's epsilon."""
    private = [one for one in results if one.private]
    beside = "" if len(private) == len(results) else "; for the runs without privacy no epsilon holds"
    if ledger is not None:
        most = max(one["epsilon"] for run in private for one in run.summary["clients"].values())
        return f"all runs together, by the ledger in {ledger}: epsilon {rounded_up(most)}{beside}"
    delta = max((one.delta for one in private), default=0.0)
    each = [max(own_charges(one), key=lambda own: compute_epsilon(own, delta, "pld")) for one in private]
    epsilon = compute_epsilon([charge for one in each for charge in one], delta, "pld") if private else 0.0
    cost = f"at most epsilon {rounded_up(epsilon)} at delta {delta:g}"
    return f"all runs together would cost private data {cost}{beside}"


def draw(table: pd.DataFrame, file: Path) -> None:
    """The first metric against epsilon, a point for each setting: the median over seeds."""
    from matplotlib.figure import Figure

    spent = list(table.columns).index("epsilon spent")
    if spent + 1 == len(table.columns):
        return  # no run was evaluated
    keys, metric = list(table.columns[: spent - 1]), table.columns[spent + 1]
    figure = Figure(layout="constrained")
    axes = figure.add_subplot(xlabel="epsilon", ylabel=metric)
    for point, rows in table.groupby(keys, sort=False) if keys else [((), table)]:
        name = ", ".join(f"{key} = {value}" for key, value in zip(keys, point, strict=True))
        high = statistics.median(rows[metric])
        if rows["epsilon spent"].isna().all():
            axes.axhline(high, linestyle="--", color="black", label=f"{name}, NOT PRIVATE")
        else:
            axes.plot(rows["epsilon spent"].median(), high, "o", label=name)
    axes.legend()
    figure.savefig(file)


if __name__ == "__main__":
    main()
