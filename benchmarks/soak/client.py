"""A client that writes down, for itself, which steps it takes: a log that no ledger has a part in.

Runs as `python -m benchmarks.soak.client STARTS LOG SECONDS`. A line is on the disk before its round's first
step. SECONDS: of silence before it; with more than any grace all rounds are answered too late.
As `python -m benchmarks.soak.client KIT ADDRESS` it is mute: there, with a site's kit, and answers nothing.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.soak.clock import sleep_by_select

sleep_by_select()

from fl_dp.durable_files import append_text  # noqa: E402
from fl_dp.federation.client import own_training  # noqa: E402
from fl_dp.federation.link.site_link import LinkLostError, LinkRefusedError, SiteLink  # noqa: E402
from fl_dp.kits.kit import SiteKit  # noqa: E402
from fl_dp.launch import client_processes  # noqa: E402


def main() -> None:
    last = sys.argv.pop()
    if ":" in last:
        be_mute(SiteLink(SiteKit.load(Path(sys.argv.pop())), last))
    silent, log = float(last), Path(sys.argv.pop())
    take_steps = own_training.take_steps

    def logged(trainer: Any, data: Any, steps: int, sample_rate: float, rows: int) -> None:
        time.sleep(silent)
        append_text(log, json.dumps({"steps": steps, "sample_rate": sample_rate}) + "\n")
        take_steps(trainer, data, steps, sample_rate, rows)

    own_training.take_steps = logged
    client_processes.main()


def be_mute(link: SiteLink) -> None:
    while True:
        try:
            link.join()
            while True:
                link.next_message()
        except (LinkLostError, LinkRefusedError):
            time.sleep(1)


if __name__ == "__main__":
    main()
