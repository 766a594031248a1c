"""One digest for all that a report says: printed on the page, beside what the sites have committed to."""

import hashlib
from pathlib import Path

from fl_dp.config.files import check_plain, read_json
from fl_dp.errors import ConfigError
from fl_dp.reporting.page.approval import approval_file
from fl_dp.reporting.provenance import file_digest
from fl_dp.reporting.run_folder import RunFolder


def page_digest(folder: RunFolder) -> str:
    """SHA-256 in hex over names and SHA-256s of the files that are there, and the model's weights digest.

    The latter is what summary.json states, so that no model is loaded; `fl-dp verify` computes it anew.
    """
    found = hashlib.sha256(b"fl_dp report\0")
    for file in digested_files(folder):
        check_plain(file)  # before anything is read: a pipe would be waited for without end
        digest = file_digest(file)
        if digest:
            found.update(f"{file.name} {digest}\n".encode())
    # JSON can hold half a character, which is no text
    found.update(f"weights {_weights(folder)}\n".encode(errors="backslashreplace"))
    return found.hexdigest()


def digested_files(folder: RunFolder) -> tuple[Path, ...]:
    """The files that the digest covers, in its order, whether they are there or not."""
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
        raise ConfigError(f"{folder.summary}: is damaged: digests is no object.")
    return str(digests.get("model", ""))
