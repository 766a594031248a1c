"""Perplexity on the test speakers, over seeds, of federations whose unit is a speaker: a table.

    python examples/speakers/measure.py --out FILE [--models "bigram;context"] [--epsilons 3,8,off]
        [--seeds 2] [--data data/speakers]

Each run is a line of FILE. A run that stands there is not repeated: a measurement goes on where it was
stopped, and FILE alone gives the table. A seed decides who has which speakers, and the first weights; the
noise is new in each run. Weights to start from are trained once, and stand beside FILE.
"""

import argparse
import json
import statistics
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ray
import torch
from torch import Tensor

import fl_dp

HERE = Path(__file__).parent
EPSILONS = ("3", "8", "off")
EACH = "each"  # passage is a unit
EVERYBODY = {10: 32, 2: 128, 1: 256}  # by clients: a batch that has room for all speakers of one
PASSAGES = 2048  # the same for passages, of one client in ten


@dataclass(frozen=True)
class Cell:
    """model: one of `MODELS`. counted: passages of a speaker that count, `fresh N`, or `each` of them."""

    model: str
    clients: int
    counted: str
    epsilon: str


@dataclass(frozen=True)
class Model:
    """config: a file beside this one. rates: by epsilon, of ten clients; few: of one and of two; each: where
    a passage is the unit. off: settings without privacy. data: of the clients. start: the data that the first
    weights are trained on, without privacy; both are files of prepare.py. trainable: what is trained.
    """

    config: str
    off: Mapping[str, Any]
    rates: Mapping[str, float]
    few: Mapping[str, float] = field(default_factory=dict)
    each: Mapping[str, float] = field(default_factory=dict)
    data: str = "speakers"
    start: str = ""
    trainable: str = ""


def _without_privacy(rate: float) -> dict[str, Any]:
    return {"privacy": "off", "optimizer": "adam", "learning_rate": rate, "rounds": 8}


# Tuned on training speakers who were held out (prepare.py --tuning).
MODELS = {
    "bigram": Model(
        "bigram", _without_privacy(0.05), {"3": 75, "8": 120}, {"3": 105, "8": 105}, {"3": 170, "8": 170}
    ),
    "context, from the manuals": Model(
        "context",
        _without_privacy(0.01),
        {"3": 3.3, "8": 8.6},
        {"3": 8.5, "8": 9.5},
        {"3": 13, "8": 13},
        start="manuals",
    ),
    "frequencies alone": Model("bigram", _without_privacy(0.05), {"3": 80, "8": 80}, trainable="often"),
    "context, from the manuals, frequencies alone": Model(
        "context", _without_privacy(0.01), {"3": 21, "8": 21}, start="manuals", trainable="head.bias"
    ),
    "context, from who agreed": Model(
        "context", _without_privacy(0.003), {"3": 0.8, "8": 1.7}, data="others", start="agreed"
    ),
    "context": Model("context", _without_privacy(0.01), {"3": 13, "8": 16}),
    "transformer": Model("transformer", _without_privacy(0.003), {"3": 0.5, "8": 0.5}),
}
_BOTH = ("bigram", "context, from the manuals")
_COUNTED = ("1", "fresh 1", "8", "32", EACH)  # in the table
_PLAN = (  # for each seed in this order
    (_BOTH, (10,), ("8", "1", "32")),
    (_BOTH, (1, 2), ("8",)),
    (_BOTH, (10,), ("fresh 1",)),
    (tuple(name for name in MODELS if name not in _BOTH), (10,), ("8",)),
    (_BOTH, (10,), (EACH,)),
)


def cells() -> Iterator[Cell]:
    """All that is measured; without privacy only where ten clients hold the speakers."""
    for models, numbers, counted in _PLAN:
        for clients in numbers:
            for most in counted:
                for model in models:
                    for epsilon in EPSILONS:
                        if epsilon != "off" or clients == 10:
                            yield Cell(model, clients, most, epsilon)


def settings(cell: Cell) -> dict[str, Any]:
    """Of the run, beside data, start and seed."""
    model, clients = MODELS[cell.model], cell.clients
    found: dict[str, Any] = {"clients": clients, "min_clients": clients, "fit_clients": clients}
    found |= _unit(cell.counted) | {"trainable": model.trainable}
    if cell.epsilon == "off":
        small = {"expected_batch_size": 64} if cell.counted == EACH else {"expected_batch_size": 4}
        epochs = 1.0 if cell.counted == EACH else 4.0
        return found | dict(model.off) | small | {"local_epochs": epochs}
    rates = model.each if cell.counted == EACH else model.rates if clients == 10 else model.few
    batch = {"expected_batch_size": EVERYBODY[clients]}
    if cell.counted == EACH:
        batch = {"expected_batch_size": PASSAGES, "physical_batch_size": 128, "rounds": 40}
    found |= {"epsilon": float(cell.epsilon), "learning_rate": rates[cell.epsilon]}
    return found | batch


def _unit(counted: str) -> dict[str, Any]:
    if counted == EACH:  # speakers stay together, so that who has what is alike
        return {"unit": "record", "records_per_person": 0, "partition": "by:speaker"}
    fresh = counted.startswith("fresh ")
    return {
        "unit": "person:speaker",
        "records_per_person": int(counted.removeprefix("fresh ")),
        "records_chosen": "fresh" if fresh else "first",
    }


def measured(cell: Cell, seed: int, data: Path, start: Path | None) -> float:
    """Perplexity after the last round of one simulated federation."""
    model = MODELS[cell.model]
    begin = {"start": str(start)} if start else {}
    return _run(model.config, data / f"{model.data}.npz", seed, settings(cell) | begin)[0]


def trained_start(name: str, data: Path, out: Path) -> Path:
    """The first weights, beside `out`; trained on the data of that name if they are not there."""
    file = out.with_suffix(f".{name}.pt")
    if not file.exists():
        alone, weights = _run("start", data / f"{name}.npz", 0, {})
        torch.save(weights, file)
        print(f"the weights from {name} alone: {alone:.2f}", flush=True)
    return file


def _run(config: str, data: Path, seed: int, given: Mapping[str, Any]) -> tuple[float, Mapping[str, Tensor]]:
    """Perplexity, and the weights."""
    with TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        toml = HERE / f"{config}.toml"
        result = fl_dp.simulate(toml, data=f"npz:{data}", seed=seed, out=out, quiet=True, **given)
        return float(result.summary["metrics"]["perplexity"]), result.model.state_dict()


Scores = dict[Cell, dict[int, float]]  # by seed


def read(file: Path) -> Scores:
    scores: Scores = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else []:
        one = json.loads(line)
        cell = Cell(one["model"], one["clients"], one["counted"], one["epsilon"])
        scores.setdefault(cell, {})[one["seed"]] = one["perplexity"]
    return scores


def table(scores: Scores) -> str:
    """Means with standard errors over seeds; a row for each model, number of clients, and what counts."""
    lines = [
        "| model | clients | passages | epsilon 3 | epsilon 8 | no privacy |",
        "|---|---|---|---|---|---|",
    ]
    rows = dict.fromkeys((one.model, one.clients, one.counted) for one in cells())
    for model, clients, counted in sorted(rows, key=_place):
        found = [scores.get(Cell(model, clients, counted, epsilon), {}) for epsilon in EPSILONS]
        if any(found):
            values = " | ".join(mean(list(one.values())) for one in found)
            lines.append(f"| {model} | {clients} | {counted} | {values} |")
    return "\n".join(lines)


def _place(row: tuple[str, int, str]) -> tuple[int, int, int]:
    return list(MODELS).index(row[0]), -row[1], _COUNTED.index(row[2])


def mean(values: Sequence[float]) -> str:
    """With its standard error, and how many there are."""
    if len(values) < 2:
        return f"{values[0]:.2f} (1)" if values else ""
    error = statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.mean(values):.2f} ± {error:.2f} ({len(values)})"


def run_all(out: Path, models: Collection[str], epsilons: Collection[str], seeds: int, data: Path) -> None:
    wanted = [cell for cell in cells() if cell.model in models and cell.epsilon in epsilons]
    names = dict.fromkeys(MODELS[cell.model].start for cell in wanted)
    starts = {name: trained_start(name, data, out) if name else None for name in names}
    for seed in range(seeds):
        for cell in wanted:
            if seed in read(out).get(cell, {}):
                continue
            begin = time.monotonic()
            found = measured(cell, seed, data, starts[MODELS[cell.model].start])
            line = asdict(cell) | {"seed": seed, "perplexity": found, "seconds": time.monotonic() - begin}
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Perplexity over seeds, of some models at some epsilons.")
    parser.add_argument("--out", type=Path, required=True, help="file of results; what it has is kept")
    parser.add_argument("--models", default=";".join(MODELS), help="separated by ;")
    parser.add_argument("--epsilons", default=",".join(EPSILONS))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--data", type=Path, default=Path("data/speakers"))
    given = parser.parse_args()
    ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")  # one for all runs
    run_all(given.out, given.models.split(";"), given.epsilons.split(","), given.seeds, given.data)
    print(table(read(given.out)))


if __name__ == "__main__":
    main()
