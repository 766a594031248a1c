"""One real client, from its settings to an exit code."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from fl_dp.config.client import ClientConfig
from fl_dp.durable_files import NewLines, exclusive
from fl_dp.errors import ConfigError, ExitCode, LaunchError
from fl_dp.federation.client.journal import (
    Line,
    in_words,
    journal_folder,
    new_lines,
    spent_in_words,
)
from fl_dp.federation.client.registration import account_digest, dataset_name
from fl_dp.federation.client.round import ClientRounds
from fl_dp.federation.devices import find_devices
from fl_dp.kits.kit import SiteKit, ending, own_folder
from fl_dp.launch.clients import ClientStart, start_clients, write_client_file
from fl_dp.launch.processes import Processes, child_environment, cores, ended, tail
from fl_dp.launch.validation import validate
from fl_dp.records import TEST_RECORDS
from fl_dp.reporting.wording import counted
from fl_dp.tasks.records import load_part, of_client


def check_task(settings: ClientConfig) -> None:
    """Raise ConfigError if the device is missing, or if model and loss do not suit the site's records.

    The error lists everything that `fl_dp.validate` finds. No ledger is touched, and no test row is read.
    """
    find_devices(settings.device)
    found = validate(of_client(settings, settings.client), test=False).findings
    if found:
        raise ConfigError(
            f"client {settings.client} would decline every round: "
            + "; ".join(str(one).rstrip(".") for one in found)
            + "."
        )


def register_data(settings: ClientConfig) -> None:
    """Read the data and register them in the ledger, so that problems with either show before joining."""
    with ClientRounds.open(settings) as rounds:
        rounds.register([(settings, load_part(settings))])


Say = Callable[[str], None]

_POLL_SECONDS = 0.5
_PROCESS = "client"


def run_client(
    settings: ClientConfig,
    kit: SiteKit,
    server: str,
    watchers: Sequence[Callable[[], None]],
    say: Callable[[str], None],
    *,
    folder: Path,
    once: bool,
    at_the_end: Callable[[], str] = lambda: "",
) -> ExitCode:
    """Run the client until it ends or is interrupted, and print what it reports.

    server: HOST:PORT; empty: the addresses of the kit's roster, in turn.
    folder: of this client alone; its log is kept there. watchers: called repeatedly.
    at_the_end: says what a finished run came to here.
    """
    own_folder(folder)
    log, events = folder / "client.log", folder / "events.jsonl"
    whose = f".client-{account_digest(settings)}-{kit.roster.authority[:16]}"
    with (
        exclusive(folder / ".lock", "another client with this name is running on this machine"),
        exclusive(
            Path(settings.ledger).absolute().parent / whose,
            f"another client of {kit.roster.federation} pays for {dataset_name(settings)} from this ledger",
        ),
        Processes() as processes,
    ):
        events.unlink(missing_ok=True)
        file = write_client_file(settings, folder / "client.toml")
        start = ClientStart(
            name=settings.client,
            settings=str(file),
            kit=str(kit.folder.absolute()),
            server=server,
            log=str(log),
            events=str(events),
            once=once,
        )
        env = child_environment(folder, threads=cores())
        start_clients(processes, _PROCESS, [start], env, folder / "starts.json", log)
        where = server or " or ".join(kit.roster.addresses)
        say(f"joining {kit.roster.federation} at {where}; Ctrl-C ends it; log: {log}")
        for words in ending(kit):
            say(words)
        lines, code = NewLines(events), None
        while code is None:
            code = processes.exit_code(_PROCESS)  # asked first: once it has ended, its last lines are there
            for line in map(json.loads, lines.new()):
                more = _of_event(line["what"], settings, at_the_end)
                say(f"{line['words']}; {more}" if more else line["words"])
            for watch in watchers:
                watch()
            time.sleep(_POLL_SECONDS)
    if code:
        raise LaunchError(f"The client {ended(code)}. The end of its log, {log}:\n{tail(log)}")
    return ExitCode.TRAINED


def _of_event(what: str, settings: ClientConfig, at_the_end: Callable[[], str]) -> str:
    """What this side can add to the client's own words."""
    if what == "model":
        return f"the model is in {settings.save_model}" if settings.save_model else ""
    return at_the_end() if what == "over" else ""


class JournalWatch:
    """Prints each line that is written from now on about this client and its data.

    Lines about other data are skipped: in another federation, another client may have the same name.
    """

    def __init__(self, settings: ClientConfig, say: Say) -> None:
        self._client, self._say = settings.client, say
        name = dataset_name(settings)
        self._datasets = "", name, name + TEST_RECORDS  # a message may fail before the data are known
        self._new_lines = new_lines(journal_folder(settings.ledger))
        self._trained = 0  # rounds trained in the current run
        self._last = ""  # the last known spending

    def look(self) -> None:
        new = self._new_lines()
        lines = [one for one in new if one.client == self._client and one.dataset in self._datasets]
        for line in lines:
            self._trained += line.event == "trained"
            if not line.dataset.endswith(TEST_RECORDS):  # those are another account
                self._last = spent_in_words(line) or self._last
        for line in _worth_saying(lines):
            self._say(in_words(line))

    def at_the_end(self) -> str:
        """What the finished run came to here; counting then starts again for the next run."""
        self.look()
        rounds, self._trained = self._trained, 0
        what = f"{counted(rounds, 'round')} trained here" if rounds else "nothing was trained here"
        return f"{what} ({self._last})" if self._last else what


def _worth_saying(lines: Sequence[Line]) -> list[Line]:
    """Leave out requests that have been answered since."""
    answered = {line.process for line in lines if line.event != "asked"}
    return [line for line in lines if line.event != "asked" or line.process not in answered]
