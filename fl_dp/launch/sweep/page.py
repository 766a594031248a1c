"""report.html of a sweep: all its runs side by side."""

from collections.abc import Sequence

from fl_dp.launch.sweep.plan import SweepFolder
from fl_dp.reporting.page.write import drawn
from fl_dp.reporting.run_folder import RunFolder


def write_page(runs: Sequence[RunFolder], folder: SweepFolder) -> str:
    """Write it; a line for the user, which says why where it could not be. Never raises."""
    if problem := drawn(runs, folder.report):
        return f"no report.html: {problem}"
    return f"report in {folder.shown / folder.report.name}"
