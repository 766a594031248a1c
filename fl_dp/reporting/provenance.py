"""When a run was made and by which code, recorded beside its results."""

import hashlib
import platform
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path

from fl_dp.clean_text import clean
from fl_dp.config.files import check_plain
from fl_dp.errors import ConfigError
from fl_dp.optional import missing_words
from fl_dp.reporting.run_folder import RunFolder

# The packages that compute. Names of machine and user are left out: they are private.
_PACKAGES = ("fl-dp", "torch", "flwr", "dp-accounting", "numpy", "ray", "torchvision")

_OF_A_PAGE = ("fl-dp", "matplotlib", "jinja2")  # other versions may draw other bytes
_CODE = ("*.py", "*.html", "*.css")
_DIGITS = 12  # of the code's digest: between releases, the same version may write other words


def utc_now() -> str:
    """The UTC time in ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that compute, by name; those not installed are left out."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


@cache
def code_digest() -> str:
    """SHA-256 over fl_dp's own code files, page templates included, with their paths in the package."""
    root = Path(__file__).parents[1]
    found, files = hashlib.sha256(), [one for kind in _CODE for one in root.rglob(kind)]
    for file in sorted(files, key=lambda one: one.relative_to(root).as_posix()):
        found.update(f"{file.relative_to(root).as_posix()}\n".encode())
        found.update(hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()


def require_own(summary: object, where: str) -> None:
    """ConfigError if the summary says that a fl_dp of another major version wrote it."""
    (version, _), ours = _written_by(summary), versions().get("fl-dp", "")
    if version and version.partition(".")[0] != ours.partition(".")[0]:
        raise ConfigError(
            f"{where}: was written by fl-dp {version}, and fl-dp {ours} does not read runs of another major "
            "version. Use the version that wrote it."
        )


def _written_by(summary: object) -> tuple[str, str]:
    """The version and the start of the code's digest that the summary names; empty where it names none."""
    tables = [summary.get(name) if isinstance(summary, dict) else None for name in ("versions", "digests")]
    version, code = (
        clean(table.get(key, ""))[:_DIGITS] if isinstance(table, dict) else ""
        for table, key in zip(tables, ("fl-dp", "code"), strict=True)
    )
    return version, code


def unreadable(summary: object, problem: str) -> str:
    """Why a summary cannot be read: it is damaged, or it says that another fl_dp wrote it."""
    version, code = _written_by(summary)
    ours = versions().get("fl-dp", ""), code_digest()[:_DIGITS]
    if (version, code) == ours or not version:
        return f"is damaged: {problem}."
    return (
        f"was written by fl-dp {version}, code {code or 'unknown'}, and fl-dp {ours[0]}, code {ours[1]}, "
        f"cannot read it: {problem}. Use the version that wrote it."
    )


def drawn_by() -> tuple[tuple[str, str], ...]:
    """The packages that draw a page, with versions. ConfigError, with what to install, if one is missing."""
    try:
        named = tuple((name, metadata.version(name)) for name in _OF_A_PAGE)
    except metadata.PackageNotFoundError as error:
        raise ConfigError(missing_words(str(error.name), "a report")) from None
    return (*named, ("code of fl-dp", code_digest()[:_DIGITS]))


def file_digest(path: Path) -> str:
    """SHA-256 of the file, in hex; empty if there is no file."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return ""


def page_digest(folder: RunFolder) -> str:
    """SHA-256, in hex, over names and SHA-256s of the existing files: of everything that a report says.

    summary.json holds the digest of the weights, so no model is loaded; `fl-dp verify` recomputes it.
    """
    found = hashlib.sha256(b"fl_dp report\0")
    for file in digested_files(folder):
        check_plain(file)  # first: reading a pipe would never end
        digest = file_digest(file)
        if digest:
            found.update(f"{file.name} {digest}\n".encode())
    return found.hexdigest()


def digested_files(folder: RunFolder) -> tuple[Path, ...]:
    """The files that the page's digest covers, in order, whether they exist or not."""
    return (
        folder.rounds,
        folder.summary,
        folder.statements,
        folder.config,
        folder.resolved,
        folder.launch,
        folder.description,
        folder.approval,
    )
