"""A plugin of pytest, `-p times`: where the tests' seconds went, by kind and by folder.

What a test waits for in its own process is taken from its time and counted by kind; the rest of a test is
computing, or a search where hypothesis draws its inputs. Nested waits count once, by the outermost.
"""

import functools
import multiprocessing.process
import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

COLLECTING, PROCESSES, FORKS = "imports and collecting", "processes started", "forks waited for"
SLEEPS, SEARCHES, COMPUTING = "sleeps and waits for threads", "searches", "computing"
_WAITS = (
    (subprocess.Popen, "__init__", PROCESSES),
    (subprocess.Popen, "communicate", PROCESSES),
    (subprocess.Popen, "wait", PROCESSES),
    (os, "waitpid", FORKS),
    (multiprocessing.process.BaseProcess, "join", FORKS),
    (time, "sleep", SLEEPS),
    (threading.Event, "wait", SLEEPS),
    (threading.Condition, "wait", SLEEPS),
    (threading.Thread, "join", SLEEPS),
)


class Times:
    """Seconds by kind and by folder; of a worker of pytest-xdist they travel to the controller."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.folders: Counter[str] = Counter()
        self._waited: Counter[str] = Counter()
        self._waiting = False
        self._began = time.monotonic()
        for owner, name, kind in _WAITS:
            setattr(owner, name, self._timed(getattr(owner, name), kind))

    def _timed(self, call: Callable[..., Any], kind: str) -> Callable[..., Any]:
        @functools.wraps(call)
        def timed(*words: Any, **named: Any) -> Any:
            if self._waiting or threading.current_thread() is not threading.main_thread():
                return call(*words, **named)
            self._waiting, began = True, time.monotonic()
            try:
                return call(*words, **named)
            finally:
                self._waiting = False
                self._waited[kind] += time.monotonic() - began

        return timed

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._waited.clear()
        began = time.monotonic()
        result = yield
        seconds = time.monotonic() - began
        self.kinds += self._waited
        searches = item.get_closest_marker("hypothesis") is not None
        self.kinds[SEARCHES if searches else COMPUTING] += seconds - self._waited.total()
        self.folders["/".join(Path(item.location[0]).parts[:2])] += seconds
        return result

    def pytest_collection_finish(self) -> None:
        self.kinds[COLLECTING] += time.monotonic() - self._began

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["times"] = [dict(self.kinds), dict(self.folders)]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        kinds, folders = node.workeroutput["times"]
        self.kinds.update(kinds)
        self.folders.update(folders)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for title, counted in (("by kind", self.kinds), ("by folder", self.folders)):
            terminalreporter.section(f"seconds {title}, of all processes together")
            for name, seconds in counted.most_common():
                terminalreporter.write_line(f"{seconds:8.1f}  {name}")


def pytest_configure(config: pytest.Config) -> None:
    """One for each process that runs tests."""
    config.pluginmanager.register(Times(), "times-of-tests")
