"""One digest of everything that a report says, printed on the page beside what the sites have committed
to.
"""

import hashlib
from pathlib import Path

from fl_dp.config.files import check_plain, read_json
from fl_dp.errors import ConfigError
from fl_dp.reporting.page.approval import approval_file
from fl_dp.reporting.provenance import file_digest
from fl_dp.reporting.run_folder import RunFolder


def page_digest(folder: RunFolder) -> str:
    """SHA-256 in hex over the names and SHA-256s of the existing files, and the model's weights digest.

    The weights digest is read from summary.json, so no model is loaded; `fl-dp verify` recomputes it.
    """
    found = hashlib.sha256(b"fl_dp report\0")
    for file in digested_files(folder):
        check_plain(file)  # first of all: reading a pipe would never end
        digest = file_digest(file)
        if digest:
            found.update(f"{file.name} {digest}\n".encode())
    # JSON can hold half a surrogate pair, which is no text
    found.update(f"weights {_weights(folder)}\n".encode(errors="backslashreplace"))
    return found.hexdigest()


def digested_files(folder: RunFolder) -> tuple[Path, ...]:
    """The files that the digest covers, in order, whether they exist or not."""
    return (
        folder.rounds,
        folder.summary,
        folder.statements,
        folder.config,
        folder.resolved,
        folder.launch,
        folder.description,
        approval_file(folder),
    )


def _weights(folder: RunFolder) -> str:
    if not folder.summary.exists():
        return ""
    summary = read_json(folder.summary)
    digests = summary.get("digests", {}) if isinstance(summary, dict) else None
    if not isinstance(digests, dict):
        raise ConfigError(f"{folder.summary}: is damaged: digests is not a JSON object.")
    return str(digests.get("model", ""))
