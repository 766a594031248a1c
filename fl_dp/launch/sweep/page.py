"""report.html of a sweep: all its runs side by side."""

from collections.abc import Sequence

from fl_dp.durable_files import write_whole
from fl_dp.errors import ConfigError
from fl_dp.launch.sweep.plan import SweepFolder
from fl_dp.reporting.run_folder import RunFolder


def write_page(runs: Sequence[RunFolder], folder: SweepFolder) -> str:
    """Write it; a line for the user, which says what is missing where it cannot be drawn."""
    try:
        from fl_dp.reporting.page.render import (  # type: ignore[import-not-found,unused-ignore]
            render_page,
        )
    except ModuleNotFoundError as error:
        return f"no report.html: {error.name} is not installed"
    try:
        text: str = render_page(runs)
    except ConfigError as error:  # the sweep's own results are there all the same
        return f"no report.html: {error}"
    write_whole(folder.report, lambda file: file.write(text.encode()))
    return f"report in {folder.shown / folder.report.name}"
