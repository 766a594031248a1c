"""`fl-dp verify`: an officer's check of a run, from its files alone."""

import json
import shutil
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from fl_dp.cli.common import JsonOption, command, say
from fl_dp.errors import ConfigError, ExitCode
from fl_dp.kits.keys import fingerprint
from fl_dp.kits.kit import trusted_roster
from fl_dp.kits.roster import Roster
from fl_dp.reporting.console import rounded_up
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.verify.check import Evidence, checked
from fl_dp.verify.ledger_file import given_ledger
from fl_dp.verify.verdict import agrees, in_words, to_json, unsigned, verdict, wrapped

_DIGITS = 64  # of a SHA-256
_EVERY = 10.0  # seconds between two progress lines in a pipe


@command()
def verify(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The run's folder.")],
    kit: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Your own kit, whose trusted roster says which key belongs to which site."
        ),
    ] = None,
    roster: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=(
                "Roster to use instead of a kit; compare its authority's fingerprint with one that you know."
            ),
        ),
    ] = None,
    ledger: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH", help="Ledger to compare: its folder, its file, or an export; repeatable."
        ),
    ] = None,
    digest: Annotated[
        str | None,
        typer.Option(
            metavar="HEX", help="Digest from a printed page, to see whether it belongs to these files."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Check a run from its files alone.

    It says what agrees, what differs, and what was not given. dp_accounting, not fl_dp, recomputes every
    epsilon from the charges. Summary, charges, rounds and the model's digest are compared with each other and
    with the sites' statements. Nothing in DIR is executed, and nothing is written.

    Exit code: 0 everything that was given agrees; 1 something differs; 2 bad arguments, or no run.

    Without a roster that you trust, nothing is authentic: anyone who can write to DIR can recompute every
    digest.
    """
    run = RunFolder(folder.expanduser().absolute())
    if not any(path.is_file() for path in (run.summary, run.rounds)):
        raise ConfigError(f"{folder}: holds no run; it has neither {run.summary.name} nor {run.rounds.name}.")
    evidence = Evidence(
        run,
        _trusted(kit, roster),
        tuple(given_ledger(path) for path in ledger or ()),
        _progress(),
        _digest(digest),
    )
    results = list(checked(evidence))
    evidence.progress("")
    if as_json:
        say(json.dumps(to_json(results, evidence), indent=2))
        return ExitCode.TRAINED if agrees(results) else ExitCode.FAILED
    say(f"{run.shown}, checked by fl_dp {version('fl-dp')} with dp_accounting {version('dp-accounting')}")
    if roster is not None and evidence.roster is not None:
        say(
            f"the roster is signed by {fingerprint(evidence.roster.authority)}\n  compare this fingerprint "
            "with the authority's own, from somebody you trust"
        )
        if evidence.roster.is_over():
            say(f"  it expired on {evidence.roster.expires}: it says who was in the federation until then")
    if (summary := evidence.summary) is not None and summary.clients:
        least = min(client.budget for client in summary.clients.values())
        say(
            f"summary.json: epsilon {rounded_up(summary.epsilon)}; the smallest budget is {rounded_up(least)}"
        )
    say("report.html is not read: fl-dp report writes it again from the other files")
    say("")
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    for line in (*in_words(results, width), "", *wrapped(verdict(results, evidence), width)):
        say(line)
    if listed := unsigned(results, evidence):
        say("\nSigned by no site, only claimed by whoever wrote this folder:")
        for words in listed:
            say("\n".join(wrapped(words, width, "- ")))
    return ExitCode.TRAINED if agrees(results) else ExitCode.FAILED


def _trusted(kit: Path | None, roster: Path | None) -> Roster | None:
    if kit is not None and roster is not None:
        raise ConfigError("--kit and --roster: give only one of them; a kit already has a roster.")
    if kit is not None:
        return trusted_roster(kit)
    return None if roster is None else Roster.read(roster)


def _digest(given: str | None) -> str:
    """The digest, without spaces, line breaks and the printed label; ConfigError if it is not one."""
    if given is None:
        return ""
    digest = "".join(given.split()).lower().removeprefix("sha-256")
    if len(digest) != _DIGITS or set(digest) - set("0123456789abcdef"):
        raise ConfigError(f"--digest: expected {_DIGITS} hexadecimal digits, as a page shows them.")
    return digest


def _progress() -> Callable[[str], None]:
    """Progress on standard error: one changing line on a terminal, a line now and then in a pipe."""
    said = time.monotonic()

    def on_terminal(words: str) -> None:
        print(f"\r\x1b[K{words}", end="", file=sys.stderr, flush=True)

    def in_pipe(words: str) -> None:
        nonlocal said
        if words and time.monotonic() - said > _EVERY:
            said = time.monotonic()
            print(words, file=sys.stderr, flush=True)

    return on_terminal if sys.stderr.isatty() else in_pipe
