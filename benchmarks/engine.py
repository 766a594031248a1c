"""Private training beside plain training: time and memory of one step, for every engine and model.

    python -m benchmarks.engine --models tanh-cnn,vgg11 --engines fl-dp-mixed,opacus-ghost --repeats 3

Plain SGD is always there: all others are compared with it. Prints tables in Markdown, writes JSON.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from benchmarks.comparison import compare, rows_of
from benchmarks.measure import Setting
from benchmarks.models import MODELS, WHOLE
from benchmarks.options import Report, common_parser, publish, say, some_of
from benchmarks.steps import ENGINES, installed
from benchmarks.summary import BASELINE, Row, table_of_means, table_of_rows


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    rows, measurements = measure_models(options)
    publish(report_of(rows, measurements), options)


def parser() -> argparse.ArgumentParser:
    parser = common_parser("benchmarks.engine", __doc__)
    parser.add_argument("--models", type=some_of(MODELS), default=list(WHOLE), metavar="A,B")
    parser.add_argument("--engines", type=some_of(ENGINES), default=installed(), metavar="A,B")
    parser.add_argument("--batch", type=int, help="default: 256 for tanh-cnn, 64 for all others")
    parser.add_argument("--repeats", type=int, default=3, help="processes of each engine and model")
    parser.add_argument("--seconds", type=float, default=100.0, help="for each model, about")
    return parser


def measure_models(options: argparse.Namespace) -> tuple[list[Row], dict[str, object]]:
    """Rows, and model -> engine -> all that was measured."""
    engines = [BASELINE, *(engine for engine in options.engines if engine != BASELINE)]
    rows: list[Row] = []
    measurements: dict[str, object] = {}
    for model in options.models:
        batch = options.batch or MODELS[model].batch
        settings = [
            Setting(model, engine, batch, options.device, options.dtype, options.clock) for engine in engines
        ]
        seen = compare(settings, options.repeats, options.seconds, options.limit, say)
        rows += rows_of(model, batch, seen)
        measurements[model] = {e: [asdict(m) for m in s.measurements] for e, s in seen.items()}
    return rows, measurements


def report_of(rows: Sequence[Row], measurements: Mapping[str, object]) -> Report:
    """The tables, and why rows are empty."""
    reasons = "\n".join(f"- {r.model}, {r.engine}: {r.status}: {r.reason}" for r in rows if r.status != "ok")
    parts = [table_of_rows(rows), table_of_means(rows), reasons]
    data = {"rows": [asdict(row) for row in rows], "measurements": measurements}
    return Report("\n\n".join(part for part in parts if part), data)


if __name__ == "__main__":
    main()
