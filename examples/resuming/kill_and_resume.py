"""Starts a run, kills it as a power cut would, and lets it go on.

Usage: python kill_and_resume.py FOLDER
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

RUN = (sys.executable, "-m", "fl_dp.cli")  # what ./run.sh starts


def lines(folder: Path) -> list[dict[str, object]]:
    file = folder / "rounds.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def main(folder: Path) -> None:
    command = (*RUN, "--simulate", "--out", str(folder), "4", "4", "4", "30")
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
    while len(lines(folder)) < 3:
        if process.poll() is not None:
            raise SystemExit("the run ended before it could be killed")
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = lines(folder)
    print(f"killed after round {before[-1]['round']}, epsilon {before[-1]['epsilon']:.3f}")

    subprocess.run((*RUN, "--resume", str(folder)), check=True)
    after = lines(folder)
    assert after[: len(before)] == before, "a round that was over has changed"
    print(f"{len(after)} rounds, epsilon {after[-1]['epsilon']:.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
