"""What each model reaches on the test reviews, over seeds, as federations of ten clients: a table.

    python examples/reviews/measure.py --out FILE [--models bag,counts] [--epsilons 1,3,8,off] [--seeds 5]

Each run is a line of FILE. A run that stands there is not repeated: a measurement goes on where it was
stopped, and FILE alone gives the table. A seed decides who has which reviews, and the first weights; the
noise is new in each run.
"""

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ray

import fl_dp

HERE = Path(__file__).parent
BASELINE = "counts"
EPSILONS = ("1", "3", "8", "off")

# What was tuned on reviews of the training part (prepare.py --tuning), for each model at each epsilon.
_COUNTS = {"max-grad-norm": 0.6}
_BAG = {"max-grad-norm": 1.2}
_STEPS = {"expected-batch-size": 64, "physical-batch-size": 64, "rounds": 15}  # without privacy: many steps
MODELS: Mapping[str, tuple[str, str, Mapping[str, Mapping[str, Any]]]] = {
    "counts": (
        "counts",
        "counts.py:Counts",
        {
            "1": {"learning-rate": 27} | _COUNTS,
            "3": {"learning-rate": 90} | _COUNTS,
            "8": {"learning-rate": 150} | _COUNTS,
            "off": {"learning-rate": 4.0} | _STEPS,
        },
    ),
    "bag": (
        "bag",
        "bag.py:BagFromLexicon",
        {
            "1": {"learning-rate": 5} | _BAG,
            "3": {"learning-rate": 13} | _BAG,
            "8": {"learning-rate": 37} | _BAG,
            "off": {"learning-rate": 1.0} | _STEPS,
        },
    ),
    "counts-from-lexicon": (
        "counts",
        "counts.py:CountsFromLexicon",
        {
            "1": {"learning-rate": 13} | _COUNTS,
            "3": {"learning-rate": 53} | _COUNTS,
            "8": {"learning-rate": 107} | _COUNTS,
            "off": {"learning-rate": 2.0} | _STEPS,
        },
    ),
    "bag-of-words": (
        "bag",
        "bag.py:BagOfWords",
        {
            "1": {"learning-rate": 7} | _BAG,
            "3": {"learning-rate": 27} | _BAG,
            "8": {"learning-rate": 37} | _BAG,
            "off": {"learning-rate": 1.0} | _STEPS,
        },
    ),
    "transformer": (
        "transformer",
        "words.py:Reviews",
        {
            "1": {"learning-rate": 2},
            "3": {"learning-rate": 2},
            "8": {"learning-rate": 2},
            "off": {"learning-rate": 0.001, "optimizer": "adam"} | _STEPS | {"rounds": 8},
        },
    ),
}


def measured(name: str, epsilon: str, seed: int, data: str) -> float:
    """Accuracy after the last round of one simulated federation."""
    config, task, tuned = MODELS[name]
    settings = {key.replace("-", "_"): value for key, value in tuned[epsilon].items()}
    budget = {"privacy": "off"} if epsilon == "off" else {"epsilon": float(epsilon)}
    with TemporaryDirectory() as folder:
        result = fl_dp.simulate(
            HERE / f"{config}.toml",
            task=str(HERE / task),
            data=data,
            seed=seed,
            out=Path(folder) / "run",
            quiet=True,
            **settings,
            **budget,
        )
        return float(result.summary["metrics"]["accuracy"])


Scores = dict[tuple[str, str], dict[int, float]]  # of a model at an epsilon, by seed


def read(file: Path) -> Scores:
    scores: Scores = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else []:
        one = json.loads(line)
        scores.setdefault((one["model"], one["epsilon"]), {})[one["seed"]] = one["accuracy"]
    return scores


def table(scores: Scores) -> str:
    """Means with standard errors over seeds, and below each what it is above the baseline, seed by seed."""
    lines = ["| | " + " | ".join(EPSILONS) + " |", "|---|---|---|---|---|"]
    for name in dict.fromkeys(name for name, _ in scores):
        of_name = [scores.get((name, epsilon), {}) for epsilon in EPSILONS]
        lines.append(f"| {name} | {' | '.join(mean(list(one.values())) for one in of_name)} |")
        if name != BASELINE:
            base = [scores.get((BASELINE, epsilon), {}) for epsilon in EPSILONS]
            cells = (mean(differences(*both), "+.3f") for both in zip(of_name, base, strict=True))
            lines.append(f"| above {BASELINE} | {' | '.join(cells)} |")
    return "\n".join(lines)


def differences(ours: Mapping[int, float], base: Mapping[int, float]) -> list[float]:
    return [ours[seed] - base[seed] for seed in sorted(ours.keys() & base.keys())]


def mean(values: Sequence[float], form: str = ".3f") -> str:
    """With its standard error, and how many there are."""
    if len(values) < 2:
        return f"{values[0]:{form}} (1)" if values else "not measured"
    error = statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.mean(values):{form}} ± {error:.3f} ({len(values)})"


def main() -> None:
    parser = argparse.ArgumentParser(description="Accuracy over seeds, of some models at some epsilons.")
    parser.add_argument("--out", type=Path, required=True, help="file of results; what it has is kept")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--epsilons", default=",".join(EPSILONS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data", default="text:data/reviews")
    given = parser.parse_args()
    ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")  # one for all runs
    for seed in range(given.seeds):
        for epsilon in given.epsilons.split(","):
            for name in given.models.split(","):
                if seed in read(given.out).get((name, epsilon), {}):
                    continue
                line = {"model": name, "epsilon": epsilon, "seed": seed}
                accuracy = measured(name, epsilon, seed, given.data)
                with given.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line | {"accuracy": accuracy}) + "\n")
    print(table(read(given.out)))


if __name__ == "__main__":
    main()
