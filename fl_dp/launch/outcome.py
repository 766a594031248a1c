"""Turns the summary of a finished run into its exit code."""

import logging
from collections.abc import Callable, Sequence

from fl_dp.clean_text import clean
from fl_dp.config.run import RunConfig
from fl_dp.errors import ExitCode, LaunchError
from fl_dp.launch.ledger_place import way_on
from fl_dp.launch.processes import tail
from fl_dp.launch.resumption import go_on_with, kept_config
from fl_dp.reporting.budget_table import print_budgets
from fl_dp.reporting.console import constant_words, marked
from fl_dp.reporting.reports import INTERRUPTED, OVER, RUN_EPSILON_SPENT, Summary
from fl_dp.reporting.run_files import Run
from fl_dp.reporting.run_folder import SERVER_LOG, RunFolder
from fl_dp.reporting.unused import unused_in
from fl_dp.reporting.wording import in_lines

_OWN_LOG = "its own log"  # in a refusal whose cause the server is not told (federation/wire/messages.py)
_LOGS = 4  # that an error names
_LONGEST = 4096  # characters of a reason, which may come from clients
_NO_BETTER = (
    "the model is no better than that: the noise drowns what it could learn. Try a smaller model (linear), "
    "settings by fl-dp plan, more records for each client, or a larger epsilon"
)


def failure_of(federation: Callable[[], None]) -> str | None:
    """Run `federation` in this process. Logs and returns why it failed; None if it did not.

    Raises again what the launch raised.
    """
    try:
        federation()
    except LaunchError:
        raise
    except Exception as error:
        logging.getLogger("fl_dp").exception("the server failed")
        return str(error)
    return None


def conclude(
    failure: str | None,
    folder: RunFolder,
    say: Callable[[str], None],
    *,
    quiet: bool = False,
    causes: Sequence[str] = (),
) -> ExitCode:
    """Print the clients' budgets, unless quiet, and return the exit code; LaunchError if the run failed.

    The server's own summary decides. failure: why the server failed, which counts if there is no summary, or
    if it failed later. Unless quiet, the run's page is written too: a quiet caller has many runs, and can
    write each page later. causes: why clients of this process did not answer, in words that the server is not
    told.
    """
    log = folder.log(SERVER_LOG)
    summary = Run(folder).summary()
    if summary is None:
        raise LaunchError(
            f"The server ended without a result. {failure or ''}\nThe end of its log, {log}:\n{tail(log)}"
        )
    private = summary.private
    if summary.status not in OVER:
        if not quiet:
            write_report(folder, say, private=private)
        raise LaunchError(_why_failed(folder, clean(summary.reason, _LONGEST), causes))
    if not quiet:
        print_budgets(summary)
        if folder.resolved.exists():
            advice = unused_in(summary, kept_config(folder), RunConfig.from_toml(folder.resolved))
            if advice:
                say(in_lines(advice))
    if constant := constant_words(summary):
        say(f"for comparison, the best constant prediction: {constant}")
        constant_has = summary.constant.get("accuracy") or 0.0
        if private and summary.accuracy is not None and summary.accuracy <= constant_has:
            say(in_lines(_NO_BETTER))
    say(marked(f"results in {folder.shown}", private=private))
    if not quiet:
        write_report(folder, say, private=private)
    if summary.model == "best":
        best = summary.model_round
        say(f"model.pt is the best model, of round {best}; last.pt is that of the last round")
    if summary.model == "average":
        say("model.pt is the moving average of the rounds' models; last.pt is that of the last round")
    if summary.status == "budget-exhausted":
        say(_why_early(summary))
        for line in way_on(folder):
            say(in_lines(line))
        return ExitCode.BUDGET_EXHAUSTED
    if failure is not None:
        raise LaunchError(f"The server failed after its last round: {failure} Log: {log}")
    return ExitCode.TRAINED


def write_report(folder: RunFolder, say: Callable[[str], None], *, private: bool) -> None:
    from fl_dp.reporting.page.render import written_at_the_end  # late: it takes 0.2 s

    say(marked(written_at_the_end(folder), private=private))


def _why_failed(folder: RunFolder, reason: str, causes: Sequence[str]) -> str:
    """The server's reason, its causes, and the logs that say more, those of the clients first."""
    if reason == INTERRUPTED:
        reason = f"The run was interrupted. Resume it with: {go_on_with(folder)}"
    words = f"{reason.rstrip('.')}." + "".join(f"\nAt the clients: {one}" for one in causes)
    logs = [folder.log(SERVER_LOG)]
    if _OWN_LOG in reason:
        logs = sorted(one for one in logs[0].parent.glob("client*.log") if one.stat().st_size) + logs
    shown = ", ".join(map(str, logs[:_LOGS])) + (
        f" and {len(logs) - _LOGS} more" if len(logs) > _LOGS else ""
    )
    end = "\n" if causes else " "
    return f"{words}{end}Log{'s' * (len(logs) > 1)}: {shown}"


def _why_early(summary: Summary) -> str:
    """Why the run ended early. A budget from which nothing was ever spent is too small, not spent."""
    rounds, clients = summary.rounds, summary.clients.values()
    if rounds or any(client.steps for client in clients):
        when = f"after round {rounds}" if rounds else "not one step fits"
        of_run = summary.reason == RUN_EPSILON_SPENT
        what = "the run's epsilon is" if of_run else "the clients' privacy budgets are"
        return f"stopped early: {what} spent ({when})"
    reasons = "; ".join(dict.fromkeys(clean(client.reason, _LONGEST) for client in clients if client.reason))
    return (
        "nothing was trained: the clients' privacy budgets have no room for a "
        f"step{': ' * bool(reasons)}{reasons}"
    )
