"""Private training beside plain training: time and memory of one step, for every engine and model.

    python -m benchmarks.engine --models tanh-cnn,vgg11 --engines sgd,fl-dp-mixed --repeats 3

Each measurement is a process of its own, on one thread; in each repeat all engines take their turn,
and each is compared with plain SGD of the same repeat. Prints tables, writes JSON.
"""

import argparse
import json
import platform
import shlex
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.console import Console

from benchmarks.models import MODELS
from benchmarks.steps import ENGINES
from benchmarks.summary import BASELINE, Measurement, Row, row_of, table_of_means, table_of_rows

ROOT = Path(__file__).parents[1]


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    console = Console(width=160)
    rows: list[Row] = []
    measurements: dict[str, dict[str, list[Measurement]]] = {}
    for model in options.models:
        batch = options.batch or MODELS[model].batch
        seen = _measure_model(model, batch, options, console)
        measurements[model] = seen
        rows += [row_of(model, e, batch, seen[e], seen.get(BASELINE, [])) for e in options.engines]
    console.print(table_of_rows(rows), table_of_means(rows))
    for row in rows:
        if row.status != "ok":
            console.print(f"{row.model}, {row.engine}: {row.status}: {row.reason}", markup=False)
    if options.json:
        report = {**_circumstances(), "rows": [asdict(r) for r in rows], "measurements": measurements}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine", description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=_some_of(MODELS), default=list(MODELS), metavar="A,B")
    parser.add_argument("--engines", type=_some_of(ENGINES), default=list(ENGINES), metavar="A,B")
    parser.add_argument("--batch", type=int, help="default: 256 for tanh-cnn, 64 for all others")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds that one process may take")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args(arguments)


def _some_of(known: Collection[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        names = text.split(",")
        unknown = [name for name in names if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: expected some of {', '.join(known)}.")
        return names

    return parse


def _measure_model(
    model: str, batch: int, options: argparse.Namespace, console: Console
) -> dict[str, list[Measurement]]:
    """For each engine, a measurement for each repeat; an engine that fails is not asked again."""
    seen: dict[str, list[Measurement]] = {engine: [] for engine in options.engines}
    for repeat in range(options.repeats):
        for engine in options.engines:
            if seen[engine] and seen[engine][-1]["status"] != "ok":
                continue
            measurement = _measure(model, engine, batch, options.device, options.limit)
            seen[engine].append(measurement)
            seconds = measurement.get("step_seconds")
            found = measurement["status"] if seconds is None else f"{1e3 * seconds:.0f} ms"
            console.print(f"{model}, repeat {repeat + 1}: {engine} {found}", highlight=False)
    return seen


def _measure(model: str, engine: str, batch: int, device: str, limit: float) -> Measurement:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.measure", model, engine, str(batch), device]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {"status": "slow", "reason": f"not done after {limit:g} s"}
    if done.returncode < 0:
        return {"status": "killed", "reason": f"ended by signal {-done.returncode}, perhaps for its memory"}
    if done.returncode:
        raise RuntimeError(f"{shlex.join(command)} ended with {done.returncode}:\n{done.stderr}")
    measurement: Measurement = json.loads(done.stdout)
    return measurement


def _circumstances() -> dict[str, object]:
    return {
        "date": date.today().isoformat(),
        "command": shlex.join(["python", "-m", "benchmarks.engine", *sys.argv[1:]]),
        "machine": _processor(),
        "versions": {name: _version(name) for name in ("fl-dp", "torch", "torchvision", "opacus")},
        "python": platform.python_version(),
    }


def _processor() -> str:
    """The processor's name, from /proc/cpuinfo where there is one."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


if __name__ == "__main__":
    main()
