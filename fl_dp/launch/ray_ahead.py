"""Starts Ray in the background while a run is being checked: its start takes as long as everything else."""

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from fl_dp.launch.processes import MARKER, Processes, cores, thread_settings
from fl_dp.simulation.cluster.runtime import check_cluster, running


class RayAhead:
    """Starts Ray in a thread that lives as long as Ray: Linux ends processes together with their thread."""

    def __init__(self, address: str, processes: Processes) -> None:
        self._address, self._processes = address, processes
        self._decided, self._stopping = threading.Event(), threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="ray", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wait(self) -> None:
        """Return once Ray runs; FlDpError if it cannot start. Import everything before calling this."""
        self._decided.wait()
        gc.freeze()
        gc.enable()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Stop Ray if it has started. Nothing may use it any more."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            with running(self._address, self._processes.scratch, cores()):
                self._decided.set()
                self._stopping.wait()
        except BaseException as error:  # raised again by `wait`
            self._error = error
        finally:
            self._decided.set()


@contextmanager
def ray_ahead(address: str) -> Iterator[RayAhead]:
    """Start Ray and keep it running within this context; afterwards all its processes are gone.

    address: of a running cluster; empty for a Ray of this machine alone. ConfigError at once if nothing
    listens at the address.
    """
    if address:
        check_cluster(address)
    with Processes() as processes, _environment(processes.launch_id):
        ahead = RayAhead(address, processes)
        collecting = gc.isenabled()
        gc.disable()  # imported modules are never freed; scanning them takes a sixth of the time
        try:
            ahead.start()
            yield ahead
        finally:
            gc.unfreeze()  # a notebook continues, and its own objects must be freed
            (gc.enable if collecting else gc.disable)()
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
