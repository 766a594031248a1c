"""Parts of `benchmarks.gpu` for its tests, found by the processes that run them; each notes that it ran."""

import multiprocessing
import os
import signal
import time


def _note(options, name):
    with (options.out / "ran.txt").open("a", encoding="utf-8") as file:
        file.write(name + "\n")


def fine(options):
    _note(options, "fine")
    return [("speed", "7 | 8 ms")], {"ms": 7}


def broken(options):
    _note(options, "broken")
    raise RuntimeError("no kernel image\nis available")


def dies(options):
    _note(options, "dies")
    os.kill(os.getpid(), signal.SIGKILL)


def hangs(options):
    child = multiprocessing.Process(target=time.sleep, args=(600,))
    child.start()
    _note(options, f"{child.pid}")
    time.sleep(600)
