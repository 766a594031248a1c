"""What LoRA under DP-SGD costs over plain LoRA: `python -m benchmarks.lora`.

Steps of `vit-tiny-lora` (benchmarks/models.py), measured as those of all models are. Needs the packages timm
and peft.
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict

from benchmarks.comparison import compare, rows_of
from benchmarks.engine import report_of
from benchmarks.markdown import table
from benchmarks.measure import Setting
from benchmarks.models import MODELS
from benchmarks.options import Report, common_parser, publish, say
from benchmarks.summary import BASELINE, Row
from benchmarks.targets import OURS

MODEL = "vit-tiny-lora"
TIME, MEMORY = 1.2, 1.1  # to reach, over a plain LoRA step


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    publish(run(options), options)


def parser() -> argparse.ArgumentParser:
    parser = common_parser("benchmarks.lora", __doc__)
    parser.add_argument("--batch", type=int, default=MODELS[MODEL].batch)
    parser.add_argument("--repeats", type=int, default=2, help="processes of each engine")
    parser.add_argument("--seconds", type=float, default=120.0, help="for all of it, about")
    return parser


def run(options: argparse.Namespace) -> Report:
    engines = (BASELINE, f"{BASELINE}-again", OURS)
    settings = [
        Setting(MODEL, engine, options.batch, options.device, options.dtype, options.clock)
        for engine in engines
    ]
    seen = compare(settings, options.repeats, options.seconds, options.limit, say)
    rows = rows_of(MODEL, options.batch, seen)
    report = report_of(rows, {MODEL: {e: [asdict(m) for m in s.measurements] for e, s in seen.items()}})
    return Report(f"{report.markdown}\n\n{table_of_targets(rows)}", report.data)


def table_of_targets(rows: Sequence[Row]) -> str:
    """Without numbers where the engine has none."""
    numbers = next((row.numbers for row in rows if row.engine == OURS), None)
    lines = (
        ("step time over plain LoRA", TIME, numbers and numbers.step_ratio),
        ("peak memory over plain LoRA", MEMORY, numbers and numbers.peak_ratio),
        ("the same, after the first step", MEMORY, numbers and numbers.further_peak_ratio),
    )
    cells = [(what, f"<= {most:.2f}", "" if seen is None else f"{seen:.2f}") for what, most, seen in lines]
    return table((MODEL, "to reach", "seen"), cells, left=1)


if __name__ == "__main__":
    main()
