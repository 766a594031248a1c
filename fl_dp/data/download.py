"""Downloads torchvision's data sets once, by one process at a time, with a timeout."""

import http.client
import os
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from filelock import FileLock

from fl_dp.errors import DataError
from fl_dp.optional import require_package

_SILENCE = 60.0  # seconds without a byte after which a download has failed


def exclusive(root: Path) -> AbstractContextManager[object]:
    """Lock `root` while its files are looked for or downloaded, so that no process reads half a file.

    There is no lock if `root` is read-only: no process of this user downloads there.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"data-root {root}: cannot be made: {error.strerror}.") from None
    return FileLock(root / ".fl_dp.lock") if os.access(root, os.W_OK) else nullcontext()


def fetch(set_name: str, root: Path, **options: bool) -> Any:
    """torchvision's data set `set_name` in `root`: unpacked from archives there, else downloaded.

    Progress goes to stderr. Hold `exclusive(root)`. A failure raises DataError.
    """
    require_package("torchvision", f"{set_name}, where it is unpacked or downloaded,")
    from torchvision import datasets  # takes 1.3 s

    try:
        with _give_up_after(_SILENCE):
            return getattr(datasets, set_name)(root, download=True, **options)
    except (OSError, RuntimeError, http.client.HTTPException) as error:
        cause = " ".join(str(error).split())
        raise DataError(
            f"{set_name}: not complete in data-root {root}, and the download failed ({cause}). "
            f"Put torchvision's files for {set_name} there, or let data-root name a folder that has them."
        ) from None


@contextmanager
def _give_up_after(seconds: float) -> Iterator[None]:
    """A timeout for every new socket. torchvision sets none, and would wait for a dead network for ever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
