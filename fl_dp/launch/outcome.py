"""How a run ended: its summary read, shown, and turned into an exit code that tells the truth."""

import json
from collections.abc import Callable
from typing import Any

from fl_dp.launch.exit_codes import ExitCode, LaunchError
from fl_dp.launch.flower.control import RunStatus
from fl_dp.launch.flower.log_tail import tail
from fl_dp.reporting.console import marked, print_budgets
from fl_dp.reporting.run_folder import SERVER_LOG, Layout


def conclude(status: RunStatus, layout: Layout, say: Callable[[str], None]) -> ExitCode:
    """Print the clients' budgets and return the exit code; LaunchError when the run failed.

    Flower calls a run completed also when no client ever trained, so the server's own summary
    decides, and Flower's verdict only where there is none.
    """
    log = layout.log(SERVER_LOG)
    if not layout.summary.exists():
        raise LaunchError(
            f"The server ended without a result. {status.details}\nThe end of its log, {log}:\n{tail(log)}"
        )
    summary: dict[str, Any] = json.loads(layout.summary.read_text(encoding="utf-8"))
    if summary["status"] not in ("completed", "budget-exhausted"):
        raise LaunchError(f"{summary['reason'].rstrip('.')}. Log: {log}")
    private: bool = summary["private"]
    print_budgets(summary["clients"], private=private)
    say(marked(f"results in {layout.shown}", private=private))
    if summary["status"] == "budget-exhausted":
        rounds = summary["rounds"]
        when = f"after round {rounds}" if rounds else "not one step fits"
        say(f"stopped early: the clients' privacy budgets are spent ({when})")
        return ExitCode.BUDGET_EXHAUSTED
    if not status.completed:
        raise LaunchError(f"The server failed after its last round: {status.details} Log: {log}")
    return ExitCode.TRAINED
