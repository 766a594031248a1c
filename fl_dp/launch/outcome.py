"""From the summary of a run that is over to its exit code."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fl_dp.errors import LaunchError
from fl_dp.launch.exit_codes import ExitCode
from fl_dp.launch.processes.log_tail import tail
from fl_dp.reporting.console import marked, of_unit, print_budgets
from fl_dp.reporting.printable import printable_json
from fl_dp.reporting.read_results import read_summary
from fl_dp.reporting.run_folder import SERVER_LOG, RunFolder


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How the server's process of a run ended. details: what it raised, if anything."""

    completed: bool
    details: str = ""


def tried(federation: Callable[[], None]) -> RunEnd:
    """Run `federation` in this process. The cause of a failure is logged; what the launch raises goes on."""
    try:
        federation()
    except LaunchError:
        raise
    except Exception as error:
        logging.getLogger("fl_dp").exception("the server failed")
        return RunEnd(completed=False, details=str(error))
    return RunEnd(completed=True)


def conclude(
    end: RunEnd, folder: RunFolder, say: Callable[[str], None], *, quiet: bool = False, draws: bool = True
) -> ExitCode:
    """Print the clients' budgets, unless quiet, and return the exit code; LaunchError when the run failed.

    The server's own summary decides. `end` counts where there is none, or where it failed later.
    Unless quiet, the run's page is written, too: who asks for silence runs many, and can have each later.
    draws: False: no page, for somebody who only reads the folder.
    """
    log = folder.log(SERVER_LOG)
    if not folder.summary.exists():
        raise LaunchError(
            f"The server ended without a result. {end.details}\nThe end of its log, {log}:\n{tail(log)}"
        )
    summary = printable_json(read_summary(folder.summary, whole=True))  # names and reasons are clients' own
    private: bool = summary["private"]
    if summary["status"] not in ("completed", "budget-exhausted"):
        _write_report(folder, say, private=private, quiet=quiet or not draws)
        raise LaunchError(f"{summary['reason'].rstrip('.')}. Log: {log}")
    if not quiet:
        print_budgets(summary["clients"], private=private, whose=of_unit(summary))
    say(marked(f"results in {folder.shown}", private=private))
    _write_report(folder, say, private=private, quiet=quiet or not draws)
    if summary.get("model") == "best":
        best = summary["model_round"]
        say(f"model.pt is the model of round {best}, the best; last.pt that of the last round")
    if summary["status"] == "budget-exhausted":
        say(_why_early(summary))
        return ExitCode.BUDGET_EXHAUSTED
    if not end.completed:
        raise LaunchError(f"The server failed after its last round: {end.details} Log: {log}")
    return ExitCode.TRAINED


def _write_report(folder: RunFolder, say: Callable[[str], None], *, private: bool, quiet: bool) -> None:
    if quiet:
        return
    from fl_dp.reporting.page.write import written_at_the_end  # late: a run that waits needs no figures

    say(marked(written_at_the_end(folder), private=private))


def _why_early(summary: Mapping[str, Any]) -> str:
    """Budgets that nothing was ever spent of are not spent, but too small."""
    rounds, clients = summary["rounds"], summary["clients"].values()
    if rounds or any(client["steps"] for client in clients):
        when = f"after round {rounds}" if rounds else "not one step fits"
        return f"stopped early: the clients' privacy budgets are spent ({when})"
    reasons = "; ".join(dict.fromkeys(client["reason"] for client in clients if client["reason"]))
    return f"nothing was trained: no step meets the clients' privacy budgets{': ' * bool(reasons)}{reasons}"
