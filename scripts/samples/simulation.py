"""A simulation that was interrupted, as it is left for `--resume`; and the same one, resumed and over."""

import shutil
import signal
import time
from pathlib import Path

from fl_dp.reporting.run_folder import RunFolder
from scripts.samples.place import Place, finish

_ROUNDS = 6
_INTERRUPTED = 130  # the exit code
_SETTINGS = {
    "partition": "sizes", "partition-sizes": "70,60",  # few records make a small ledger
    "momentum": "0.5", "optimizer-state": "keep",  # clients keep something between rounds
}  # fmt: skip


def make_simulations(place: Place) -> None:
    """The folders `interrupted` and `simulated`."""
    folder = place.folder / "simulated"
    settings = [word for key, value in _SETTINGS.items() for word in ("--set", f"{key}={value}")]
    start = ["run", "--simulate", "--out", folder.name, *settings, "2", "2", "2", str(_ROUNDS), "16"]
    with place.started(*start) as process:
        while _rounds(folder) < 2:
            if process.poll() is not None:
                raise RuntimeError("the simulation was over before it could be interrupted; try again")
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        finish(process, _INTERRUPTED)
    (folder / "report.html").unlink()  # 100 kB; that of `deployed` is kept
    shutil.copytree(folder, place.folder / "interrupted")
    place.run("run", "--resume", folder.name)
    (folder / "report.html").unlink()


def _rounds(folder: Path) -> int:
    """How many are in rounds.jsonl; each is in the run's state before."""
    file = RunFolder(folder).rounds
    return file.read_text().count("\n") if file.exists() else 0
