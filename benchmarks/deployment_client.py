"""Clients that write down how long their steps take.

Runs as `python -m benchmarks.deployment_client STARTS LOG`: `fl_dp.launch.client_processes`, whose training
is timed by the processor's clock.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from fl_dp.durable_files import append_text
from fl_dp.federation.client import own_training
from fl_dp.launch import client_processes


def main() -> None:
    log = Path(sys.argv.pop())
    take_steps = own_training.take_steps

    def timed(trainer: Any, data: Any, steps: int, sample_rate: float, rows: int) -> None:
        begun = time.process_time()
        take_steps(trainer, data, steps, sample_rate, rows)
        append_text(log, json.dumps({"steps": steps, "seconds": time.process_time() - begun}) + "\n")

    own_training.take_steps = timed
    client_processes.main()


if __name__ == "__main__":
    main()
