"""Methods beside one another, at equal budgets and by equal rules: accuracy of all and of each client's own.

    python -m benchmarks.methods --data fashion_mnist --data-root DIR --clients 100 --fit-clients 10
    python -m benchmarks.methods --config examples/hospitals/run.toml

Settings are those of `fl-dp plan`, for each method and epsilon: nothing was tried. Within a seed all methods
have the same split, first weights and cohorts. "alone": each client trains by itself (mr-mtl:0), so that only
its own figure means anything. "central": one client holds all records.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import fl_dp
from benchmarks.markdown import table
from benchmarks.options import say
from fl_dp.launch.defaults import CHOSEN

Settings = Mapping[str, Any]
METHODS: Mapping[str, Settings] = {
    "FedAvg": {},
    "FedProx": {"local_algorithm": "fedprox:0.1"},
    "MR-MTL": {"local_algorithm": "mr-mtl:0.1"},
    "personal": {},  # with --personal
    "secure sums": {"aggregation": "secure"},
    "alone": {"local_algorithm": "mr-mtl:0"},
    "central": {"clients": 1, "min_clients": 1, "fit_clients": 1, "partition": "iid"},
}
OWN = ("MR-MTL", "personal", "alone")  # a client's own model counts


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    wanted = {name: METHODS[name] for name in options.methods}
    if "personal" in wanted:
        wanted["personal"] = {"personal": options.personal}
    found = [studied(wanted, epsilon, options) for epsilon in options.epsilon]
    runs = pd.concat(found, ignore_index=True)
    runs.to_csv(options.out / "runs.csv", index=False)
    say(summary(runs))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks.methods")
    made.add_argument("--config", type=Path, help="a run config; the other options change it")
    made.add_argument("--data")
    made.add_argument("--data-root")
    made.add_argument("--model")
    made.add_argument("--personal", default="*bias", help="the parameters that stay at the clients")
    made.add_argument("--clients", type=int)
    made.add_argument("--fit-clients", type=int)
    made.add_argument("--alpha", type=float, help="of the Dirichlet split")
    made.add_argument("--passes", type=int, help="most passes over each client's records")
    made.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 3.0, 8.0])
    made.add_argument("--seeds", type=int, nargs="+", default=list(range(5)))
    made.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    made.add_argument("--out", type=Path, default=Path("runs/methods"))
    return made


def studied(methods: Mapping[str, Settings], epsilon: float, options: argparse.Namespace) -> pd.DataFrame:
    """A row for each run at this epsilon; what is done already is read."""
    settings = {
        name: getattr(options, name)
        for name in ("data", "data_root", "model", "clients", "fit_clients")
        if getattr(options, name) is not None
    }
    if options.alpha is not None:
        settings["partition"] = f"dirichlet:{options.alpha:g}"
    settings |= {"epsilon": epsilon, "test": 0.2, "public_data": True}
    planned = {
        name: {**method, **by_rule({**settings, **method}, options)} for name, method in methods.items()
    }
    found = fl_dp.study(
        options.config,
        vary={"method": planned},
        seeds=options.seeds,
        out=options.out / f"epsilon={epsilon:g}",
        **settings,
    )
    return found.runs.assign(budget=epsilon)


def by_rule(settings: Settings, options: argparse.Namespace) -> dict[str, Any]:
    """What the rule chooses for FedAvg of this size; the other methods take it over."""
    own = {key: value for key, value in settings.items() if key not in ("local_algorithm", "personal")}
    flat = fl_dp.plan(options.config, most_passes=options.passes, **own).config
    return {key: getattr(flat, key) for key in CHOSEN}


def summary(runs: pd.DataFrame) -> str:
    """Mean and standard error over seeds, in percent: of all test records, and of the clients' own."""
    rows = []
    for method, of_method in runs.groupby("method", sort=False):
        row = [str(method)]
        for _, at in of_method.groupby("budget", sort=False):
            common = "" if method in OWN or "accuracy" not in at else _percent(at["accuracy"])
            row += [common, _percent(at["local accuracy"])]
        rows.append(row)
    budgets = [f"{one:g}" for one in runs["budget"].unique()]
    head = [f"{what} {one}" for one in budgets for what in ("common, epsilon", "own,")]
    return table(("method", *head), rows, left=1)


def _percent(values: "pd.Series[float]") -> str:
    if values.isna().all():
        return ""
    error = f" ± {100 * values.sem():.1f}" if len(values) > 1 else ""
    return f"{100 * values.mean():.1f}{error}"


if __name__ == "__main__":
    main()
