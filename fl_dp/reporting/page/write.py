"""Writes the page atomically, and the line about it at the end of a run."""

import logging
from pathlib import Path

from fl_dp.durable_files import write_whole
from fl_dp.errors import ConfigError
from fl_dp.reporting.provenance import drawn_by
from fl_dp.reporting.run_folder import RunFolder


def write_page(folder: RunFolder, out: Path | None = None) -> Path:
    """Write the page of the run to `out`, or else to report.html in its folder, and return its path.

    ConfigError if the run cannot be read, a package is missing or the file cannot be written.
    """
    file = out or folder.report
    drawn_by()  # says which package is missing, before one is imported
    from fl_dp.reporting.page.render import render_page

    text = render_page(folder)
    try:
        write_whole(file, lambda opened: opened.write(text.encode()))
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written: {error.strerror}; name another with --out.") from None
    return file


def written_at_the_end(folder: RunFolder) -> str:
    """Write the page of a finished run, and return the line for the console.

    Never raises: the run is complete whether there is a page or not.
    """
    try:
        page = write_page(folder)
    except ConfigError as error:
        problem = str(error)
    except Exception as error:
        logging.getLogger("fl_dp").exception("the report could not be made")
        problem = f"it could not be made ({type(error).__name__})."
    else:
        return f"report in {folder.shown / page.name}"
    return f"no report was written: {problem} Then run: fl-dp report {folder.shown}"
