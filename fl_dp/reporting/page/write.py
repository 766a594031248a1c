"""Writes the page atomically, and the line about it at the end of a run."""

import logging
from collections.abc import Sequence
from pathlib import Path

from fl_dp.durable_files import write_whole
from fl_dp.errors import ConfigError
from fl_dp.reporting.provenance import drawn_by
from fl_dp.reporting.run_folder import RunFolder


def write_page(folders: Sequence[RunFolder], out: Path | None = None, *, together: str = "") -> Path:
    """Write the page of the runs to `out` and return its path.

    together: what several runs cost together, in words, if the caller knows.
    out: None: report.html, in the run's folder for a single run, in the working directory for several.
    ConfigError if a run cannot be read, a package is missing or the file cannot be written.
    """
    file = out or (folders[0].report if len(folders) == 1 else Path("report.html"))
    drawn_by()  # says which package is missing, before one is imported
    from fl_dp.reporting.page.render import render_page

    text = render_page(folders, together)
    try:
        write_whole(file, lambda opened: opened.write(text.encode()))
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written: {error.strerror}; name another with --out.") from None
    return file


def drawn(folders: Sequence[RunFolder], out: Path | None = None, *, together: str = "") -> str:
    """As `write_page`, but never raises: returns why there is no page, or an empty text."""
    try:
        write_page(folders, out, together=together)
    except ConfigError as error:
        return str(error)
    except Exception as error:
        logging.getLogger("fl_dp").exception("the report could not be made")
        return f"it could not be made ({type(error).__name__})."
    return ""


def written_at_the_end(folder: RunFolder) -> str:
    """Write the page of a finished run, and return the line for the console.

    Never raises: the run is complete whether there is a page or not.
    """
    if problem := drawn([folder]):
        return f"no report was written: {problem} Then run: fl-dp report {folder.shown}"
    return f"report in {RunFolder(folder.path).shown / folder.report.name}"
