"""Everything that benchmarks/README.md tells: the table of steps, the largest batches, noise.

    python -m benchmarks.everything --out runs/bench

Writes runs/bench.md, which is made to be pasted into the README, and runs/bench.json.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks import engine, largest_batch, noise
from benchmarks.circumstances import circumstances, in_words
from benchmarks.options import say, write
from benchmarks.targets import table_of_targets


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    common = ["--device", options.device, "--dtype", options.dtype]
    for_steps = engine.parser().parse_args([*common, "--seconds", str(options.seconds)])
    for_batches = largest_batch.parser().parse_args(common)
    before = circumstances(options.device)
    rows, measurements = engine.measure_models(for_steps)
    batches = largest_batch.search(for_batches)
    steps = engine.report_of(rows, measurements)
    largest = largest_batch.report_of(batches, for_batches)
    noises = noise.run(noise.parser().parse_args(common))
    targets = table_of_targets(rows, batches)
    markdown = "\n\n".join([in_words(before), targets, steps.markdown, largest.markdown, noises.markdown])
    data = {**before, **steps.data, "largest_batch": largest.data, "noise_ms_per_million": noises.data}
    say("\n" + markdown)
    write(options.out.with_suffix(".md"), markdown)
    write(options.out.with_suffix(".json"), json.dumps(data, indent=1))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.everything")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each model's steps, about")
    parser.add_argument("--out", type=Path, default=Path("runs/bench"), help="without its ending")
    return parser


if __name__ == "__main__":
    main()
