"""Clients simulated on one machine: fl_dp, Flower's simulation and pfl-research, side by side.

python -m benchmarks.simulation --data-root DIR --pfl-python PYTHON --json runs/bench-simulation.json
"""

import argparse
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from benchmarks.circumstances import circumstances, in_words
from benchmarks.options import Report, publish, some_of
from benchmarks.simulation.contenders import DOING_NOTHING, TRAINING, Load, Place
from benchmarks.simulation.federation import FEDERATIONS
from benchmarks.simulation.outcomes import Case, Outcome, run_all
from benchmarks.simulation.tables import (
    reasons,
    table_of_growth,
    table_of_training,
    table_without_training,
)
from benchmarks.simulation.targets import table_of_targets
from benchmarks.simulation.watch import Command

NOTHING = "nothing"  # the task without training
_LONG_ROUND = 1_000_000_000  # bytes that the clients of a round send: from here on four rounds are enough
_QUICK = {"tasks": [NOTHING, "digits"], "clients": [10, 20], "megabytes": [0.1], "rounds": 3, "repeats": 1}
_PACKAGES = ("fl-dp", "torch", "flwr", "ray", "opacus")

Task = TypeVar("Task", Load, str)
Number = TypeVar("Number", int, float)


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    before = _circumstances(options.pfl_python)
    outcomes = run_all(_cases(options), options.repeats, options.limit)
    publish(_report(before, outcomes), options)


def _report(before: dict[str, object], outcomes: Sequence[Outcome]) -> Report:
    tables = (
        table_of_targets(outcomes),
        table_without_training(outcomes),
        table_of_growth(outcomes),
        table_of_training(outcomes),
        reasons(outcomes),
    )
    found = [
        {
            "contender": outcome.case.contender,
            "task": asdict(task) if isinstance(task := outcome.case.task, Load) else task,
            "runs": [asdict(run) for run in outcome.seen],
            "ended": outcome.ended and [outcome.ended.word, outcome.ended.reason],
        }
        for outcome in outcomes
    ]
    told = [part for part in (in_words(before), *tables) if part]
    return Report("\n\n".join(told), {**before, "outcomes": found})


def _cases(options: argparse.Namespace) -> list[Case]:
    """Contenders next to each other that are to be compared."""
    loads = [Load(clients, round(1e6 * size)) for size in options.megabytes for clients in options.clients]
    wanted = options.contenders
    nothing = [
        Case(name, load, _starting(command, load, options))
        for load in loads
        for name, command in DOING_NOTHING.items()
        if NOTHING in options.tasks and name in wanted
    ]
    training = [
        Case(name, federation, _starting(command, federation, options))
        for federation in FEDERATIONS
        for name, command in TRAINING.items()
        if federation in options.tasks and name in wanted
    ]
    return nothing + training


def _starting(
    command: Callable[[Task, Place], Command], task: Task, options: argparse.Namespace
) -> Callable[[Path], Command]:
    long = isinstance(task, Load) and task.clients * task.model_bytes >= _LONG_ROUND
    rounds = min(4, options.rounds) if long else options.rounds
    return lambda folder: command(task, Place(folder, rounds, options.data_root, options.pfl_python))


def _circumstances(pfl_python: Path | None) -> dict[str, object]:
    seen = circumstances("cpu")
    command = str(seen["command"]).replace(".__main__", "")
    return {**seen, "command": command, "versions": _versions(pfl_python)}


def _versions(pfl_python: Path | None) -> dict[str, str]:
    """Of our environment, and what stands in pfl-research's."""
    return {**{name: version(name) for name in _PACKAGES}, "pfl-research": _pfl_versions(pfl_python)}


def _pfl_versions(python: Path | None) -> str:
    if python is None:
        return "not installed"
    code = "from importlib.metadata import version as v; print(v('pfl'), 'with torch', v('torch'))"
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.quick:
        parser.set_defaults(**_QUICK)
        options = parser.parse_args(arguments)
    if options.rounds < 3:
        parser.error(
            f"--rounds {options.rounds}: expected at least 3, for the first and the last do not count."
        )
    return options


def _parser() -> argparse.ArgumentParser:
    tasks, contenders = (NOTHING, *FEDERATIONS), dict.fromkeys((*DOING_NOTHING, *TRAINING))
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation")
    parser.set_defaults(device="cpu")
    add = parser.add_argument
    add("--quick", action="store_true", help="a minute, to see that all of it works: no figures to quote")
    add("--tasks", type=some_of(tasks), default=[NOTHING, "fashion-mnist"], help=f"of {', '.join(tasks)}")
    add(
        "--contenders", type=some_of(contenders), default=list(contenders), help=f"of {', '.join(contenders)}"
    )
    add("--clients", type=_numbers(int), default=[100, 500, 1000, 5000], help="that do nothing, A,B,...")
    add("--megabytes", type=_numbers(float), default=[0.1, 10.0], help="of the model that they send, A,B,...")
    add("--rounds", type=int, default=6, help="of a run; the first and the last do not count")
    add("--repeats", type=int, default=2, help="runs of each contender, in turn")
    add("--limit", type=float, default=600.0, help="seconds that a run may take")
    add("--data-root", type=Path, default=Path("data"), help="where FashionMNIST lives")
    add("--pfl-python", type=Path, metavar="PYTHON", help="of an environment with `pfl[pytorch]`")
    add("--json", type=Path, metavar="FILE")
    return parser


def _numbers(kind: Callable[[str], Number]) -> Callable[[str], list[Number]]:
    """Parses `A,B`."""
    return lambda text: [kind(word) for word in text.split(",")]


if __name__ == "__main__":
    main()
