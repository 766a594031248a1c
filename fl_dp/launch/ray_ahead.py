"""Starts Ray in the background while a run is being checked: its start takes as long as everything else."""

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from fl_dp.launch.processes import MARKER, Processes, cores, thread_settings
from fl_dp.simulation.cluster.runtime import check_cluster, ray_is_there, running

if TYPE_CHECKING:
    from fl_dp.simulation.session import KeptActors


class RayAhead:
    """Starts Ray in a thread that lives as long as Ray: Linux ends processes together with their thread.

    kept: the actors of the last run, which stop with Ray. waited: whether the run in progress has used Ray.
    """

    def __init__(self, address: str, processes: Processes) -> None:
        self.address, self._processes = address, processes
        self.kept: KeptActors | None = None
        self.waited = False
        self._decided, self._stopping = threading.Event(), threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="ray", daemon=True)

    @contextmanager
    def in_use(self) -> Iterator[Self]:
        """In this context a run may use Ray; the first run starts it."""
        self.waited = False
        with _environment(self._processes.launch_id):
            collecting = gc.isenabled()
            gc.disable()  # imported modules are never freed; scanning them takes a sixth of the time
            try:
                if self._thread.ident is None:
                    self._thread.start()
                yield self
            finally:
                gc.unfreeze()  # a notebook continues, and its own objects must be freed
                (gc.enable if collecting else gc.disable)()

    @property
    def is_gone(self) -> bool:
        """Whether Ray was stopped by somebody else, or did not start."""
        return self._decided.is_set() and not ray_is_there()

    def wait(self) -> None:
        """Return once Ray runs; FlDpError if it cannot start. Import everything before calling this."""
        self.waited = True
        self._decided.wait()
        gc.freeze()
        gc.enable()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Stop Ray if it has started, and the actors. Nothing may use it any more."""
        if self.kept:
            self.kept.close()
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            with running(self.address, self._processes.scratch, cores()):
                self._decided.set()
                self._stopping.wait()
        except BaseException as error:  # raised again by `wait`
            self._error = error
        finally:
            self._decided.set()


@contextmanager
def ray_ahead(address: str) -> Iterator[RayAhead]:
    """Ray from its first use to the end of this context; afterwards all its processes are gone.

    address: of a running cluster; empty for a Ray of this machine alone. ConfigError at once if nothing
    listens at the address.
    """
    if address:
        check_cluster(address)
    with Processes() as processes:
        ahead = RayAhead(address, processes)
        try:
            yield ahead
        finally:
            ahead.stop()


@contextmanager
def _environment(launch_id: str) -> Iterator[None]:
    """Set what Ray's processes inherit: the marker by which they are found, and one thread per library."""
    added = {MARKER: launch_id, "RAY_ADDRESS": "", **thread_settings(1)}
    before = {name: os.environ.get(name) for name in added}
    os.environ.update(added)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
