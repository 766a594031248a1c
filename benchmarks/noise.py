"""What noise costs: in integers on a grid, from fresh bytes or a payment's, beside a torch.Generator's.

    python -m benchmarks.noise

What it adds to a whole step is in benchmarks/engine.py: fl-dp-mixed beside fl-dp-float-noise.
"""

import argparse
import statistics
import time
from collections.abc import Sequence

import torch

from benchmarks.markdown import table
from benchmarks.models import MODELS
from benchmarks.options import Report, common_parser, publish
from fl_dp.engine.clipping import ClippedSum
from fl_dp.engine.noise.gaussian import NoiseSource, add_gaussian_noise
from fl_dp.engine.noise.randomness import Randomness

_NUMBERS, _TIMES = 1_000_000, 9
_MODEL = "vgg11"


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    publish(run(options), options)


def parser() -> argparse.ArgumentParser:
    return common_parser("benchmarks.noise", __doc__)


def run(options: argparse.Namespace) -> Report:
    torch.set_num_threads(1)
    sources: dict[str, NoiseSource] = {
        "secure": "secure",
        "of a payment": Randomness.system(),
        "torch.Generator": torch.Generator(options.device),
    }
    parameters = sum(p.numel() for p in MODELS[_MODEL].build().parameters())
    milliseconds = {name: ms_per_million(source, options.device) for name, source in sources.items()}
    headings = ("noise", "ms / million", f"ms / step of {_MODEL} ({parameters / 1e6:.1f} million)")
    rows = [(name, f"{ms:.1f}", f"{ms * parameters / 1e6:.0f}") for name, ms in milliseconds.items()]
    return Report(table(headings, rows, left=1), milliseconds)


def ms_per_million(source: NoiseSource, device: str, numbers: int = _NUMBERS, times: int = _TIMES) -> float:
    """Median of `times` additions of noise to so many numbers in float32, after a first one."""
    clipped = ClippedSum({"numbers": torch.zeros(numbers, device=device)}, 1.0, torch.zeros(1))
    seconds = []
    for _ in range(times + 1):
        start = time.perf_counter()
        noisy = add_gaussian_noise(clipped, noise_multiplier=1.0, generator=source)
        noisy["numbers"][0].item()  # waits for a GPU
        seconds.append(time.perf_counter() - start)
    return 1e9 * statistics.median(seconds[1:]) / numbers


if __name__ == "__main__":
    main()
