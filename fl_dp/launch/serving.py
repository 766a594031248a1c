"""A server in this process: the port for its sites, and the federation behind it."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.supercore.task_identity import TaskIdentity

from fl_dp.config.run import RunConfig
from fl_dp.durable_files import version_of
from fl_dp.errors import ConfigError, ExitCode
from fl_dp.federation.link.door import Door
from fl_dp.federation.link.hub import Hub
from fl_dp.federation.link.link_grid import LinkGrid
from fl_dp.federation.link.listener import listening
from fl_dp.federation.secure_sum.grid import SecureGrid
from fl_dp.federation.security import SECURITY
from fl_dp.federation.server.run import run_federation
from fl_dp.federation.server.run_end import send_final_model
from fl_dp.federation.wire.arrays import NDArray
from fl_dp.kits.kit import ROSTER, ServerKit, ending, trusted_roster
from fl_dp.kits.provision import LOOPBACK
from fl_dp.kits.roster import Roster
from fl_dp.launch.logs import log_files, security_log
from fl_dp.launch.outcome import conclude, failure_of
from fl_dp.launch.progress_grid import ProgressGrid
from fl_dp.launch.progress_reporter import ProgressReporter
from fl_dp.reporting.reports import RoundReport
from fl_dp.reporting.run_folder import SECURITY_LOG, SERVER_LOG, RunFolder
from fl_dp.reporting.run_results import write_statements
from fl_dp.reporting.tracking import tracking
from fl_dp.reporting.wording import roster_too_small, some

logger = logging.getLogger("fl_dp")

_POLL_SECONDS = 0.5
_RETRY_SECONDS = 10.0  # before another try to read a roster that could not be read
_FINAL_SECONDS = 30.0  # for sites to fetch the final model
_FAREWELL_SECONDS = 3.0  # for sites to hear that the run is over


@dataclass(frozen=True, slots=True)
class Serving:
    """A server with an open port. port: its number."""

    kit: ServerKit
    hub: Hub
    port: int
    look: Callable[[], None]  # checks for a newer roster

    def sites_here(self) -> list[str]:
        return sorted(site.name for node in self.hub.here() if (site := self.hub.site_of(node)) is not None)

    def run(
        self,
        config: RunConfig,
        folder: RunFolder,
        tell: ProgressReporter,
        *,
        resumed: bool,
        on_wait: Callable[[], None] = lambda: None,
    ) -> ExitCode:
        """Run the federation; FlDpError if it fails. on_wait: called repeatedly while it waits."""

        def on_round(report: RoundReport) -> None:
            tell.round_over(report)
            tracked.round_over(report)

        def while_waiting() -> None:
            self.look()
            on_wait()

        link = LinkGrid(self.hub, self.kit.key, while_waiting)
        below = SecureGrid(link, config) if config.secure else link
        grid, flat, run = ProgressGrid(below, config, tell), config.to_flat(), str(self.hub.run_id)

        def on_model(arrays: Mapping[str, NDArray]) -> None:
            tell.doing("sending the sites the final model")
            said = send_final_model(grid, arrays, _FINAL_SECONDS, run=run, private=config.private)
            write_statements(folder, said)

        with tracking(config, folder, tell.say) as tracked:
            failure = failure_of(
                lambda: run_federation(
                    grid, flat, run, folder.path, on_round, resumed=resumed, on_model=on_model, say=tell.say
                )
            )
        with tell.aside():
            return conclude(failure, folder, tell.say)


@contextmanager
def serving(
    kit: ServerKit,
    folder: RunFolder,
    host: str,
    port: int,
    *,
    security: bool = False,
) -> Iterator[Serving]:
    """Serve sites on `host`, on a free port if `port` is 0. security: refusals go to a log of their own.

    Afterwards sites are told that the run is over, unless it failed or was interrupted: it may be resumed.
    """
    hub = Hub(kit.roster)
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = hub.run_id, SUPERLINK_NODE_ID, 1
    look = _RosterWatch(kit.folder, hub).look
    door = Door(hub, look)
    log = folder.log(SERVER_LOG)
    with ExitStack() as logs:
        logs.enter_context(log_files({"fl_dp": log, "flwr": log, "uvicorn": log}))
        if security:
            logs.enter_context(log_files({SECURITY: folder.log(SECURITY_LOG)}, security_log))
        logging.getLogger("flwr").setLevel(logging.WARNING)  # it logs each request
        with listening(door, kit, host, port) as open_port:
            yield Serving(kit, hub, open_port, look)
            door.end(_FAREWELL_SECONDS)


def serve(
    config: RunConfig,
    folder: RunFolder,
    kit: ServerKit,
    host: str,
    port: int,
    tell: ProgressReporter,
    *,
    security: bool,
    resumed: bool,
) -> ExitCode:
    """Run the federation of that folder once enough sites are there. security, resumed: as below."""
    for words in ending(kit):
        tell.say(words)
    with serving(kit, folder, host, port, security=security) as served:
        where = f"[{host}]" if ":" in host else host
        tell.say(f"serving {kit.roster.federation} on {where}:{served.port}; files in {folder.shown}")
        _wait_for_sites(config.min_clients, served, tell)
        return served.run(config, folder, tell, resumed=resumed)


def _wait_for_sites(least: int, served: Serving, tell: ProgressReporter) -> None:
    """Return once `least` sites are connected; until then print which are missing, and since when."""
    since, said = time.strftime("%H:%M"), ""
    while len(here := served.sites_here()) < least:
        missing = [site.name for site in served.hub.roster.sites if site.name not in here]
        words = f"{len(here)} of {least} sites are connected" + (f": {', '.join(here)}" if here else "")
        if missing:
            words += f"; waiting for {some(missing)}"
        roster = served.hub.roster
        if roster.federation != LOOPBACK and (why := roster_too_small(len(roster.sites), least)):
            words += f"; {why}"
        if words != said:
            tell.say(f"{words} (since {since})")
            said = words
        tell.doing(words, said=True)  # repeated with the names
        served.look()
        time.sleep(_POLL_SECONDS)


class _RosterWatch:
    """Checks whether the kit has a newer roster, and switches to it."""

    def __init__(self, folder: Path, hub: Hub) -> None:
        self._folder, self._hub = folder, hub
        self._seen: tuple[int, ...] = ()  # the kit was read some time ago, so it may have a newer one already
        self._failed: tuple[int, ...] = ()  # the version that could not be read
        self._again = 0.0  # when to try it again

    def look(self) -> None:
        stamp = version_of(self._folder / ROSTER)
        if not stamp:  # the file is gone: keep the known roster
            return
        if stamp == self._seen or (stamp == self._failed and time.monotonic() < self._again):
            return
        try:
            roster = self._newest()
        except (ConfigError, OSError) as error:  # may pass: a revoked site must not stay because of it
            logger.error("the roster was refused: %s", error)
            self._failed, self._again = stamp, time.monotonic() + _RETRY_SECONDS
            return
        self._seen = stamp
        logger.info("roster %d, with %d sites", roster.serial, len(roster.sites))
        self._hub.use(roster)

    def _newest(self) -> Roster:
        """The kit's roster. Its certificate is not checked: sites are revoked after it expires, too."""
        roster = trusted_roster(self._folder)
        if roster.server != self._hub.roster.server:
            raise ConfigError(
                f"{self._folder / ROSTER}: names the key of another server; restart that server."
            )
        return roster
