"""What the hospitals' own test records say of their common model: with noise of their own, in a secure sum in
which nobody may drop out, and without noise.

    python examples/hospitals/measure_sites.py

AUROC of all 254 test records together, with the half-width of its 95 % interval: models of epsilon 1 with the
settings of run.toml, one evaluation at evaluate-epsilon 1, means over 20 seeds.
"""

import argparse
import math
import tomllib

import numpy as np
import torch
from learning import DEVICE, learn
from measure import HERE, NAMES
from task import Hospitals, part
from torchmetrics.functional.classification import binary_auroc

from fl_dp.accounting.calibration import calibrate_noise
from fl_dp.accounting.shares import honest_shares
from fl_dp.config.run import RunConfig
from fl_dp.config.site_metrics import BINS
from fl_dp.engine.noise.grid import noise_grid
from fl_dp.federation.secure_sum.vector import grid_of
from fl_dp.tasks.score_histogram import Layout, count
from fl_dp.tasks.score_metrics import estimates

WAYS = ("without noise", "a secure sum", "each hospital's noise")


def main() -> None:
    parser = argparse.ArgumentParser(description="AUROC from the hospitals' own test records, over seeds.")
    parser.add_argument("--seeds", type=int, default=20)
    seeds = range(parser.parse_args().seeds)
    flat = tomllib.loads((HERE / "run.toml").read_text(encoding="utf-8"))
    config = RunConfig.from_flat(flat)
    train = [part(HERE / "data" / f"{name}.data", "train") for name in NAMES]
    tests = [part(HERE / "data" / f"{name}.data", "test") for name in NAMES]
    task = Hospitals(config)
    task.form = tests[0].form
    delta = float(config.delta)
    noise = calibrate_noise(1.0, config.rounds, config.epsilon, delta)
    models = [learn(train, config, noise, seed).eval() for seed in seeds]
    print(f"AUROC by the scores themselves: {np.mean([_exact(model, tests) for model in models]):.3f}\n")
    print("| bins | " + " | ".join(f"{name}: AUROC | half-width" for name in WAYS) + " |")
    print("|---" * (2 * len(WAYS) + 1) + "|")
    for bins in BINS:
        layout = Layout.of(task.form, bins, 1, ())
        multiplier = calibrate_noise(1.0, 1, 1.0, delta)
        own = noise_grid(layout.sensitivity, multiplier, layout.size).deviation
        shares = honest_shares(len(NAMES), 0, 1)
        share = grid_of(layout.sensitivity, multiplier, shares, layout.size).share_deviation
        deviations = [math.sqrt(len(NAMES)) * each for each in (0.0, share, own)]
        rows = []
        for seed, model in zip(seeds, models, strict=True):
            counts = sum(count(model, task, one, layout, len(one), DEVICE) for one in tests)
            drawn = np.random.default_rng(seed).normal(size=layout.size)
            found = [estimates(layout, counts + one * drawn, one)["auroc"] for one in deviations]
            rows.append([x for one in found for x in (one.value, _half(one.low, one.high))])
        means = np.nanmean(np.array(rows, float), axis=0)
        print(f"| {bins} | " + " | ".join(f"{mean:.3f}" for mean in means) + " |")


def _half(low: float | None, high: float | None) -> float | None:
    return None if low is None or high is None else (high - low) / 2


def _exact(model: torch.nn.Module, tests: list) -> float:
    pairs = [data.batch(torch.arange(len(data))) for data in tests]
    with torch.no_grad():
        outputs = torch.cat([model(x) for x, _ in pairs])
    return float(binary_auroc(outputs[:, 1] - outputs[:, 0], torch.cat([y for _, y in pairs])))


if __name__ == "__main__":
    main()
