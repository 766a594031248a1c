"""What the four hospitals learn together, and each alone, at the same epsilon: AUROC and accuracy.

And for whom: accuracy of what they learn together for women and men, ages, hospitals and the two answers.
And what they learn where nobody sees more than the sum of all, so that they share one noise.

    python examples/hospitals/measure.py

Federated averaging with the settings of run.toml and the trainer that clients use, over 20 seeds, in one
process: no message, no ledger, and noise from seeds, as the records are public. Test records are those of
FLamby's split; each hospital measures the common model on its own.
"""

import argparse
import statistics
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from learning import DEVICE, learn, learn_in_sums
from sklearn.metrics import roc_auc_score
from task import Hospitals, part, together
from torch import nn

from fl_dp.accounting.alone import compute_epsilon_alone
from fl_dp.accounting.calibration import calibrate_noise
from fl_dp.config.flat import Scalar
from fl_dp.config.run import RunConfig
from fl_dp.data.tensor_data import TensorData
from fl_dp.federation.secure_sum.limits import checked_shares
from fl_dp.federation.server.evaluation import evaluate
from fl_dp.records import Entry

HERE = Path(__file__).parent
NAMES = ("cleveland", "hungary", "long_beach", "switzerland")
UNDEFINED = "switzerland"  # all but one of its patients are ill: an AUROC there is of one record or of none
EPSILONS = (5.0, 1.0, 0.1)
OPTIMIZERS = ("fedavg", "fedavgm")
SECURE = {"aggregation": "secure"}  # d = 0 may drop out, c = 1 may tell all it knows
Flat = Mapping[str, Scalar]
BY_PART = ("accuracy", "accuracy-per-class", "accuracy-per-subgroup")


@dataclass(frozen=True, slots=True)
class Score:
    """Means over hospitals: AUROC of the three where it is defined, accuracy of all four."""

    auroc: float
    accuracy: float


def score(models: Mapping[str, nn.Module], tests: Mapping[str, TensorData]) -> Score:
    """Each hospital's own model on its own test records."""
    aurocs, accuracies = [], []
    for name, data in tests.items():
        inputs, labels = data.batch(torch.arange(len(data)))
        with torch.no_grad():
            outputs = models[name].eval()(inputs)
        if name != UNDEFINED:
            aurocs.append(float(roc_auc_score(labels, outputs[:, 1] - outputs[:, 0])))
        accuracies.append(float((outputs.argmax(1) == labels).float().mean()))
    return Score(statistics.mean(aurocs), statistics.mean(accuracies))


def for_whom(model: nn.Module, config: RunConfig, pooled: TensorData) -> dict[str, float]:
    """Accuracy on all hospitals' test records, of all and of each class and subgroup that may be told of."""
    task = Hospitals(config)
    task.form = pooled.form
    found = evaluate(model, pooled, task, DEVICE, BY_PART).metrics
    return {_short(name): value for name, value in found.items() if value is not None}


def _short(metric: str) -> str:
    """ "accuracy-per-subgroup[sex = women]" as "sex = women"."""
    return metric.partition("[")[2].removesuffix("]") or "all"


def constant(tests: Mapping[str, TensorData]) -> float:
    """The mean accuracy of each hospital's best constant prediction, its more frequent class."""
    shares = [float(data.y.float().mean()) for data in tests.values()]
    return statistics.mean(max(share, 1 - share) for share in shares)


def main() -> None:
    parser = argparse.ArgumentParser(description="AUROC and accuracy over seeds, at some epsilons.")
    parser.add_argument("--seeds", type=int, default=20)
    seeds = range(parser.parse_args().seeds)
    flat = tomllib.loads((HERE / "run.toml").read_text(encoding="utf-8"))
    config = RunConfig.from_flat(flat)
    train = {name: part(HERE / "data" / f"{name}.data", "train") for name in NAMES}
    tests = {name: part(HERE / "data" / f"{name}.data", "test") for name in NAMES}
    pooled, columns = together(list(tests.values()), list(NAMES)), {}
    print("| epsilon | noise | AUROC together | AUROC alone | accuracy together | accuracy alone |")
    print("|---|---|---|---|---|---|")
    for epsilon in (None, *EPSILONS):
        noise = calibrate_noise(1.0, config.rounds, epsilon, float(config.delta)) if epsilon else 0.0
        common_scores, alone, parts = [], [], []
        for seed in seeds:
            of_seed = RunConfig.from_flat(flat | {"seed": seed})
            common = learn(list(train.values()), of_seed, noise, seed)
            common_scores.append(score(dict.fromkeys(NAMES, common), tests))
            parts.append(for_whom(common, of_seed, pooled))
            own = {name: learn([train[name]], of_seed, noise, seed) for name in NAMES}
            alone.append(score(own, tests))
        cells = [_mean([one.auroc for one in scores]) for scores in (common_scores, alone)]
        cells += [_mean([one.accuracy for one in scores]) for scores in (common_scores, alone)]
        columns[f"epsilon {epsilon}" if epsilon else "no privacy"] = parts
        print(f"| {epsilon or 'no privacy'} | {noise:.2f} | {' | '.join(cells)} |")
    print(f"\nThe more frequent answer of each hospital, for all of its patients: {constant(tests):.3f}")
    print(f"\n{by_part(columns)}")
    print(f"\n{in_sums(flat, train, tests, seeds)}")


def in_sums(
    flat: Flat, train: Mapping[str, TensorData], tests: Mapping[str, TensorData], seeds: range
) -> str:
    """A row for each epsilon: AUROC and accuracy together, with a noise for each hospital and one for all."""
    ways = [(optimizer, way) for optimizer in OPTIMIZERS for way in (learn, learn_in_sums)]
    heads = [f"{one} {'local noise' if way is learn else 'secure sum'}" for one, way in ways]
    lines = [f"| epsilon | alone | {' | '.join(f'{head} | accuracy' for head in heads)} |"]
    lines += ["|---" * (2 * len(heads) + 2) + "|"]
    for epsilon in EPSILONS:
        config = RunConfig.from_flat(flat | SECURE)
        noise = calibrate_noise(1.0, config.rounds, epsilon, float(config.delta))
        cells = [_alone(config, noise)]
        for optimizer, way in ways:
            scores = []
            for seed in seeds:
                changes = {"server-optimizer": optimizer, "seed": seed}
                of_seed = RunConfig.from_flat(flat | changes | (SECURE if way is learn_in_sums else {}))
                model = way(list(train.values()), of_seed, noise, seed)
                scores.append(score(dict.fromkeys(NAMES, model), tests))
            cells += [_mean([one.auroc for one in scores]), _mean([one.accuracy for one in scores])]
        lines.append(f"| {epsilon} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _alone(config: RunConfig, noise: float) -> str:
    """Epsilon of a hospital if the sums' assumption fails, and its share is all the noise there is."""
    shares = checked_shares(len(NAMES), config.secure_dropouts, config.secure_colluders)
    entry = Entry(1.0, noise, config.rounds, shares)
    return f"{compute_epsilon_alone([entry], float(config.delta)):.2f}"


def by_part(columns: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """A row for each class and subgroup, a column for each epsilon; last how far the worst mean is off."""
    names = list(next(iter(columns.values()))[0])
    lines = [" | ".join(["| accuracy together", *columns]) + " |", "|---" * (len(columns) + 1) + "|"]
    lines += [
        " | ".join([f"| {name}", *(_mean([one[name] for one in column]) for column in columns.values())])
        + " |"
        for name in names
    ]
    means = [
        {name: statistics.mean(one[name] for one in column) for name in names} for column in columns.values()
    ]
    worst = [min(mean, key=mean.__getitem__) for mean in means]
    gaps = [f"{mean[name] - mean['all']:+.3f}, {name}" for mean, name in zip(means, worst, strict=True)]
    return "\n".join([*lines, " | ".join(["| the worst minus all", *gaps]) + " |"])


def _mean(values: Sequence[float]) -> str:
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.3f}{spread}"


if __name__ == "__main__":
    main()
