"""The first day with a GPU: does it compute what the definition says, and what does it cost, beside others?

    python -m benchmarks.gpu                         all parts that have no result in runs/gpu yet
    python -m benchmarks.gpu --part noise            one of them
    python -m benchmarks.gpu --list                  the parts, and what each needs
    python -m benchmarks.gpu --device cpu --quick    a dry run: it shows that all works, and measures nothing

Each part runs in a process of its own, for nine minutes at most, and leaves OUT/PART.json. Parts that failed
or were left out are tried again by the next call: whoever is cut off keeps OUT, and calls again. At the end
OUT/table.md has all that is known, and says what is missing, with the reason.
"""

import argparse
import json
import multiprocessing
import os
import platform
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from benchmarks import gpu_parts
from benchmarks.circumstances import circumstances
from benchmarks.markdown import table

Record = Mapping[str, Any]

ENGINE = ("cryptography", "numpy")
TESTS = (*ENGINE, "pytest", "pytest_timeout", "hypothesis", "torchvision", "triton")
SIMULATION = (
    "flwr",
    "ray",
    "tomli_w",
    "Crypto",
    "iterators",
    "jsonschema",
    "rpds",
    "flwr_datasets",
    "dp_accounting",
)
PEERS = ("opacus", "fastDP", "private_vision", "jax_privacy")
PACKAGES = ("torch", "triton", "numpy", "cryptography", *PEERS, "jax", "flwr", "ray")


@dataclass(frozen=True, slots=True)
class Part:
    """needs: modules without which it is left out; uses: those without which some of its rows are.

    limit: seconds after which it is ended.
    """

    what: str
    run: Callable[[argparse.Namespace], gpu_parts.Found]
    needs: Sequence[str] = ENGINE
    uses: Sequence[str] = ()
    limit: float = 540.0


PARTS: Mapping[str, Part] = {
    "tests": Part(
        "tests that take a GPU where there is one", partial(gpu_parts.run_tests, gpu_parts.TESTS), TESTS
    ),
    "tests-actor": Part(
        "the same, of a simulation's actor",
        partial(gpu_parts.run_tests, gpu_parts.ACTOR_TESTS),
        (*TESTS, *SIMULATION),
        limit=200.0,
    ),
    "equal": Part(
        "a private step beside one backward pass per example, its noise beside the host's",
        gpu_parts.equal,
        limit=150.0,
    ),
    "steady": Part(
        "whether a row's bits depend on its place, at 64 to 1024 rows", gpu_parts.steady, limit=240.0
    ),
    "replayed": Part("small steps, queued by Python or replayed", gpu_parts.replayed, limit=150.0),
    "noise": Part("noise, ms a million numbers", gpu_parts.noise, limit=150.0),
    **{
        f"engines-{rows}": Part(
            f"steps beside other engines', {rows} rows",
            partial(gpu_parts.engines, rows),
            uses=PEERS,
            limit=450.0,
        )
        for rows in (64, 128, 512, 1024)
    },
    "sharing": Part("1 to 64 processes on one card", gpu_parts.sharing, limit=300.0),
    "simulation": Part(
        "rounds of 200 simulated clients, 1 to 64 at a time", gpu_parts.simulation, (*ENGINE, *SIMULATION)
    ),
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = _parser()
    options = parser.parse_args(arguments)
    dry = options.quick or not options.device.startswith("cuda")
    options.out = options.out or Path("runs/gpu-dry-run" if dry else "runs/gpu")
    if options.list:
        _say(listing(PARTS))
        return
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        parser.error("PyTorch sees no GPU here. A dry run: --device cpu --quick")
    signal.signal(signal.SIGTERM, _end)
    try:
        records = run(PARTS, options.part or list(PARTS), options)
    except ValueError as error:
        parser.error(str(error))
    text = report(PARTS, records)
    (options.out / "table.md").write_text(text + "\n", encoding="utf-8")
    _say("\n" + text)
    if any("failed" in record or "WRONG" in str(record.get("rows")) for record in records.values()):
        raise SystemExit(1)


def _end(number: int, _: object) -> None:
    """So that the part that runs is ended, too: else it would go on beside the next call."""
    raise SystemExit(128 + number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument(
        "--quick", action="store_true", help="as little as shows that it works: nothing to quote"
    )
    parser.add_argument("--part", action="append", choices=PARTS, help="this one alone, or these")
    parser.add_argument("--out", type=Path, help="folder of results; default: runs/gpu, runs/gpu-dry-run")
    parser.add_argument(
        "--within",
        type=float,
        default=float("inf"),
        metavar="SECONDS",
        help="start no part that might end later",
    )
    parser.add_argument(
        "--list", action="store_true", help="show the parts and what each needs, and run nothing"
    )
    return parser


def run(parts: Mapping[str, Part], wanted: Iterable[str], options: argparse.Namespace) -> dict[str, Record]:
    """All records that there are, after the wanted parts have run that had none.

    ValueError where the folder holds those of another device, or of a dry run.
    """
    options.out.mkdir(parents=True, exist_ok=True)
    records = {name: record for name in parts if (record := _read(options.out / f"{name}.json"))}
    for name, record in records.items():
        if (record["device"], record["quick"]) != (options.device, options.quick):
            raise ValueError(
                f"{options.out}/{name}.json is of --device {record['device']}"
                f"{' --quick' * record['quick']}: name another folder by --out"
            )
    end = time.monotonic() + options.within
    for name in wanted:
        part = parts[name]
        if "rows" in records.get(name, {}):
            _say(f"{name}: done before")
        elif time.monotonic() + part.limit > end:
            _say(f"{name}: not started, for it may take {part.limit:.0f} s")
        else:
            _say(f"{name}: {part.what} ...")
            started = time.monotonic()
            records[name] = _record(part, name, options)
            _say(f"{name}: {_word(records[name])}, {time.monotonic() - started:.0f} s")
    return records


def _record(part: Part, name: str, options: argparse.Namespace) -> Record:
    """Run it in a process that leaves the file; the record of one that could not."""
    file = options.out / f"{name}.json"
    if missing := [module for module in part.needs if not find_spec(module)]:
        _write(file, {**_where(options), "left out": f"no package {', '.join(missing)}"})
        return _read(file)
    file.unlink(missing_ok=True)
    process = multiprocessing.get_context("spawn").Process(target=_measure, args=(part, file, options))
    process.start()
    assert process.pid
    try:
        process.join(part.limit)
        ended = process.exitcode
    finally:
        with suppress(ProcessLookupError):  # all that it started, too
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.join()
    if not file.exists():
        words = f"not done after {part.limit:.0f} s" if ended is None else f"its process ended with {ended}"
        _write(file, {**_where(options), "failed": words})
    return _read(file)


def _measure(part: Part, file: Path, options: argparse.Namespace) -> None:
    """In the part's process, which leads a group of its own."""
    os.setsid()
    where, started = _where(options), time.monotonic()
    try:
        rows, data = part.run(options)
        found = {"rows": rows, "seconds": round(time.monotonic() - started), "data": data}
    except Exception as error:  # whatever it is: the others still run
        found = {"failed": f"{type(error).__name__}: {error}"}
    _write(file, {**where, **found})


def _write(file: Path, record: Record) -> None:
    partial = file.with_suffix(".writing")
    partial.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    partial.replace(file)


def _read(file: Path) -> Record:
    """Nothing where there is no such file."""
    found: Record = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return found


def _where(options: argparse.Namespace) -> dict[str, object]:
    gpu = "none"
    if options.device.startswith("cuda"):
        query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
        with suppress(OSError):
            gpu = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    seen = {key: value for key, value in circumstances("cpu").items() if key in ("date", "machine", "python")}
    return {
        **seen,
        "device": options.device,
        "quick": options.quick,
        "gpu and driver": gpu,
        "system": f"{platform.system()} {platform.release()}",
        "cuda": torch.version.cuda,
        "versions": {name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "of no known version" if find_spec(package) else "not installed"


def _word(record: Record) -> str:
    for word in ("failed", "left out"):
        if word in record:
            return f"{word}: {record[word]}"
    return "done" if record else "not run yet"


def listing(parts: Mapping[str, Part]) -> str:
    """What is missing on this machine stands in brackets."""

    def modules(names: Sequence[str]) -> str:
        return ", ".join(name if find_spec(name) else f"[{name}]" for name in names)

    rows = [(name, part.what, modules(part.needs), modules(part.uses)) for name, part in parts.items()]
    return table(("part", "", "needs PyTorch and", "leaves out rows without"), rows, left=4)


def report(parts: Mapping[str, Part], records: Mapping[str, Record]) -> str:
    """Markdown to paste: where it was measured, then a row for each figure, and for each part without any."""
    places: dict[str, list[str]] = {}
    for name, record in records.items():
        places.setdefault(_place(record), []).append(name)
    heads = [
        f"{place} ({'all parts' if len(places) == 1 else ', '.join(names)})"
        for place, names in places.items()
    ]
    rows: list[tuple[str, str, str]] = []
    for name, part in parts.items():
        record = records.get(name, {})
        told = record.get("rows") or [(part.what, f"MISSING: {_word(record)}")]
        rows += [(name, *(text.replace("|", "/").replace("\n", " ") for text in row)) for row in told]
    return "\n\n".join([*heads, table(("part", "what", "seen"), rows, left=3)])


def _place(record: Record) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in record["versions"].items())
    on = record["gpu and driver"] if record["device"].startswith("cuda") else "NO GPU"
    dry = " **A dry run: no figures to quote.**" if record["quick"] or on == "NO GPU" else ""
    return (
        f"{record['date']}: {on}, on {record['machine']}, {record['system']}, CUDA {record['cuda']}, "
        f"Python {record['python']}, {versions}.{dry}"
    )


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
