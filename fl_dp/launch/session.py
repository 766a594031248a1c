"""`fl_dp.session`: what the simulated runs of one program share, one run after the other."""

import logging
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from fl_dp.errors import ConfigError
from fl_dp.launch.logs import log_files
from fl_dp.launch.ray_ahead import RayAhead, ray_ahead
from fl_dp.simulation.cluster import runtime

_RECORDS = "records"


class Session:
    """Ray and its actors between runs. folder: for its owner alone, deleted at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._held, self._turn = ExitStack(), threading.Lock()
        self._ray: RayAhead | None = None

    @contextmanager
    def ray_for_run(self, address: str) -> Iterator[RayAhead]:
        """Ray at that address: the last run's, or a new one if that run failed."""
        if not self._turn.acquire(blocking=False):
            raise ConfigError(
                "another thread simulates in this fl_dp.session: it has one run at a time. Wait for that "
                "run, or start another process."
            )
        try:
            if self._ray and (self._ray.is_gone or self._ray.address != address):
                self.end()
            ray = self._ray = self._ray or self._held.enter_context(ray_ahead(address))
            try:
                with ray.in_use():
                    yield ray
            except BaseException:
                if ray.waited:  # otherwise the run was refused before it used Ray
                    self.end()
                raise
        finally:
            self._turn.release()

    def end(self) -> None:
        self._ray = None
        self._held.close()


_open: list[Session] = []  # at most one


@contextmanager
def session() -> Iterator[None]:
    """Within this context `fl_dp.simulate` leaves Ray and the training processes running for the next run.

    A run uses the processes of the last one if it needs the same: task, model, form of the records, device,
    memory and share of the machine. Equal records stay in Ray's store. Measurements, such as kernels, are
    used again for runs with equal passes. Everything else belongs to one run: ledger, what clients keep, and
    every random number. After a failed run, or Ctrl-C, all starts again. A session inside a session is part
    of it.

    Returns:
        A context, which gives nothing.

    Raises:
        ConfigError: From `fl_dp.simulate`, while another thread simulates in the session.

    Example:
        >>> import fl_dp
        >>> with fl_dp.session():
        ...     for epsilon in (2, 3):
        ...         result = fl_dp.simulate(
        ...             data="digits", clients=2, rounds=1, epsilon=epsilon, quiet=True
        ...         )
        ...         print(result.status, result.epsilon <= epsilon)
        completed True
        completed True
    """
    if _open:
        yield
        return
    # Between two runs, too, nothing that Ray says gets to the console: it may quote records.
    silent = log_files({runtime.logger.name: Path()}, lambda _: logging.NullHandler())
    with tempfile.TemporaryDirectory(prefix="fl_dp-") as folder, silent:
        one = Session(Path(folder))
        _open.append(one)
        try:
            yield
        finally:
            _open.remove(one)
            one.end()


@contextmanager
def ray_for_run(address: str) -> Iterator[RayAhead]:
    """Ray for one run: the session's or, outside of one, a Ray that ends with the run; see `ray_ahead`."""
    if _open:
        with _open[0].ray_for_run(address) as ray:
            yield ray
    else:
        with ray_ahead(address) as ray, ray.in_use():
            yield ray


@contextmanager
def private_records() -> Iterator[str]:
    """A folder for a run's records, for this user alone, deleted afterwards.

    In a session its name is the same for each run, because a run's settings name it.
    """
    if _open and not (folder := _open[0].folder / _RECORDS).exists():  # else another thread's call has it
        folder.mkdir(0o700)
        try:
            yield str(folder)
        finally:
            shutil.rmtree(folder)
    else:
        with tempfile.TemporaryDirectory(prefix="fl_dp-") as alone:
            yield alone
