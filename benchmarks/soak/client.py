"""A client that writes down, for itself, which steps it takes: a log that no ledger has a part in.

Runs as `python -m benchmarks.soak.client STARTS LOG`. A line is on the disk before its round's first step.
"""

import json
import sys
from pathlib import Path
from typing import Any

from fl_dp.durable_files import append_text
from fl_dp.federation.client import own_training
from fl_dp.launch import client_processes


def main() -> None:
    log = Path(sys.argv.pop())
    take_steps = own_training.take_steps

    def logged(trainer: Any, data: Any, steps: int, sample_rate: float, rows: int) -> None:
        append_text(log, json.dumps({"steps": steps, "sample_rate": sample_rate}) + "\n")
        take_steps(trainer, data, steps, sample_rate, rows)

    own_training.take_steps = logged
    client_processes.main()


if __name__ == "__main__":
    main()
