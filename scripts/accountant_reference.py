"""`python -m scripts.accountant_reference`: our epsilons beside those of others, on random settings.

Writes the data file of tests/accounting/test_reference.py; docs/accounting.md says what stands in it.
"""

import argparse
import json
import logging
import math
import random
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.events import order_two_divergence
from fl_dp.errors import AccountingError
from fl_dp.records import Entry

FILE = Path(__file__).parents[1] / "tests" / "accounting" / "data" / "reference.json"
OURS = ("pld", "rdp")
# Points of a reference's grid at most, for one step and for all: they bound its time (under a minute) and its
# memory (under 2 GiB) alike on every machine, which a clock would not.
_STEP_POINTS, _TOTAL_POINTS = 100_000, 4_000_000
_PESSIMISTIC, _OPTIMISTIC = 0.02, 0.1  # interval over a step's deviation; the second also over sqrt(steps)
_INFINITE_EVERY = 10  # every tenth setting may be one whose epsilon we call infinite


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the settings, compute everything, write the file anew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=200)
    parser.add_argument("--seed", type=int, default=21)
    parser.add_argument("--out", type=Path, default=FILE)
    parser.add_argument("--only-ours", action="store_true", help="keep the values of others as they are")
    options = parser.parse_args(arguments)
    logging.disable(logging.WARNING)  # Opacus and dp_accounting log what they cannot integrate
    if options.only_ours:
        rows = [{**row, "ours": _ours(row)} for row in json.loads(options.out.read_text())["settings"]]
    else:
        rows = [_row(number, setting) for number, setting in enumerate(draw(options.number, options.seed))]
    packages = {name: version(name) for name in ("dp-accounting", "numpy", "opacus", "scipy")}
    head = {"seed": options.seed, "packages": packages}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(_text(head, rows), encoding="utf-8")


def draw(number: int, seed: int) -> list[dict[str, Any]]:
    """The settings, sorted: sample rate, noise multiplier, steps and delta of each.

    Rates are log-uniform over 1e-6 to 1, one in six is 1 and one in six close to 1; noise multipliers 0.3 to
    100 and steps 1 to 1e6 are log-uniform; deltas are log-uniform over 1e-12 to 1e-2, or just below 1 / n
    for an n of 100 to 1e8 records.
    """
    rng = random.Random(seed)
    settings: list[dict[str, Any]] = []
    while len(settings) < number:
        rate = [_log_uniform(rng, 1e-6, 1.0)] * 4 + [1.0, 1.0 - _log_uniform(rng, 1e-12, 0.1)]
        near = rng.uniform(0.9, 1.0) / round(_log_uniform(rng, 1e2, 1e8))
        setting = {
            "sample_rate": rng.choice(rate),
            "noise_multiplier": _log_uniform(rng, 0.3, 100.0),
            "steps": round(_log_uniform(rng, 1.0, 1e6)),
            "delta": rng.choice([_log_uniform(rng, 1e-12, 1e-2), near]),
        }
        if len(settings) % _INFINITE_EVERY == 0 or _total_divergence(setting) < 1000.0:
            settings.append(setting)
    return sorted(settings, key=lambda setting: tuple(setting.values()))


def _log_uniform(rng: random.Random, least: float, most: float) -> float:
    return float(f"{math.exp(rng.uniform(math.log(least), math.log(most))):.6g}")


def _row(number: int, setting: dict[str, Any]) -> dict[str, Any]:
    row = {
        **setting,
        "ours": _ours(setting),
        "dp_accounting_pessimistic": _answer(_dp_accounting, setting, True),
        "dp_accounting_optimistic": _answer(_dp_accounting, setting, False),
        "opacus_prv": _answer(_opacus_prv, setting),
        "opacus_rdp": _answer(_opacus_rdp, setting),
    }
    print(number, row, flush=True)
    return row


def _answer(compute: Callable[..., Any], *arguments: Any) -> Any:
    """What it computes; or, where it has no answer, why not. Infinity is written as a text, too."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = compute(*arguments)
    except Exception as error:  # of packages that we only compare with: whatever it is, it is the answer
        return f"no answer: {type(error).__name__} {error}"[:100]
    if not np.isfinite(found).all():
        return f"no answer: {found}"
    return found


def _ours(row: dict[str, Any]) -> dict[str, float | str]:
    """Our epsilons by accountant; "inf", or "refused"."""
    found: dict[str, float | str] = {}
    for accountant in OURS:
        try:
            epsilon = compute_epsilon([_entry(row)], row["delta"], accountant)
            found[accountant] = epsilon if math.isfinite(epsilon) else "inf"
        except AccountingError:
            found[accountant] = "refused"
    return found


def _dp_accounting(setting: dict[str, Any], pessimistic: bool) -> float:
    """Of its privacy loss distribution: connect-the-dots from above, privacy buckets from below."""
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    entry = _entry(setting)
    interval = _interval(entry, pessimistic)
    step = from_gaussian_mechanism(
        entry.noise_multiplier,
        pessimistic_estimate=pessimistic,
        value_discretization_interval=interval,
        use_connect_dots=pessimistic,
        sampling_prob=entry.sample_rate,
    )
    return float(step.self_compose(entry.steps).get_epsilon_for_delta(setting["delta"]))


def _interval(entry: Entry, pessimistic: bool) -> float:
    """The finest interval that both counts of points allow; RuntimeError where that says nothing."""
    if _total_divergence({**entry.to_dict()}) > 1000.0:
        raise RuntimeError("too little noise for a grid")
    deviation = math.sqrt(order_two_divergence(entry))
    gaussian = (0.5 / entry.noise_multiplier + 10.0) / entry.noise_multiplier
    width = math.log1p(entry.sample_rate * math.expm1(min(gaussian, 700.0)))
    wanted = deviation * (_PESSIMISTIC if pessimistic else _OPTIMISTIC / math.sqrt(entry.steps))
    total = 16 * math.sqrt(entry.steps) * deviation + deviation**2 * entry.steps / width
    return max(wanted, 2 * width / _STEP_POINTS, total / _TOTAL_POINTS)


def _opacus_prv(setting: dict[str, Any]) -> list[float]:
    """Lower end, estimate and upper end of its error interval, which is for removing a record alone."""
    from opacus.accountants import PRVAccountant
    from opacus.accountants.analysis.prv import PoissonSubsampledGaussianPRV

    entry, delta = _entry(setting), setting["delta"]
    accountant = PRVAccountant()
    accountant.history = [(entry.noise_multiplier, entry.sample_rate, entry.steps)]
    step = PoissonSubsampledGaussianPRV(entry.sample_rate, entry.noise_multiplier)
    domain = accountant._get_domain([step], [entry.steps], 0.01, delta / 1000)
    if domain.size > 2 * _TOTAL_POINTS:
        raise RuntimeError(f"a grid of {domain.size} points")
    composed = accountant._get_dprv(eps_error=0.01, delta_error=delta / 1000)
    return [float(end) for end in composed.compute_epsilon(delta, delta / 1000, 0.01)]


def _opacus_rdp(setting: dict[str, Any]) -> float:
    from opacus.accountants import RDPAccountant

    accountant = RDPAccountant()
    entry = _entry(setting)
    accountant.history = [(entry.noise_multiplier, entry.sample_rate, entry.steps)]
    return float(accountant.get_epsilon(setting["delta"]))


def _entry(setting: dict[str, Any]) -> Entry:
    return Entry(setting["sample_rate"], setting["noise_multiplier"], setting["steps"])


def _total_divergence(setting: dict[str, Any]) -> float:
    entry = _entry(setting)
    return entry.steps * order_two_divergence(entry)


def _text(head: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """JSON with a line for each setting, so that a diff shows which moved."""
    lines = ",\n".join(json.dumps(row) for row in rows)
    return f'{json.dumps(head)[:-1]}, "settings": [\n{lines}\n]}}\n'


if __name__ == "__main__":
    main()
