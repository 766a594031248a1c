"""Which fast tests are asked about a file of fl_dp."""

from pathlib import Path

DEFAULT_PARTS = ("accounting", "engine", "federation", "simulation", "training")
_GPU_ONLY = {"gram_triton.py"}

# Parts whose promises are tested in other folders than tests/<part>, too.
_FOLDERS = {
    "audit": ("tests/audit", "tests/cli/test_audit.py"),
    "config": ("tests/config", "tests/cli", "tests/test_setup.py"),
    "durable_files": ("tests/test_durable_files.py", "tests/reporting"),
    "engine": ("tests/engine", "tests/privacy_engine"),
    "errors": ("tests/cli",),
    "federation": ("tests/federation", "tests/simulation/test_grid.py", "tests/simulation/test_clients.py"),
    "launch": ("tests/launch", "tests/cli"),
    "records": ("tests/test_records.py", "tests/accounting", "tests/federation"),
    "reporting": ("tests/reporting", "tests/cli"),
    "training": ("tests/training", "tests/federation", "tests/simulation"),
}


def files_of(part: str, root: Path) -> list[str]:
    """The source files of a part, `engine` or `records`, relative to `root`; none that needs a GPU."""
    package = root / "fl_dp"
    folder, file = package / part, package / f"{part}.py"
    if not (folder.is_dir() or file.is_file()):
        known = sorted(path.stem for path in package.iterdir() if not path.name.startswith("_"))
        raise SystemExit(f"{part}: no part of fl_dp; expected some of {', '.join(known)}.")
    paths = sorted(folder.rglob("*.py")) if folder.is_dir() else [file]
    return [path.relative_to(root).as_posix() for path in paths if path.name not in _GPU_ONLY]


def folders_of(file: str, root: Path) -> tuple[str, ...]:
    """Where the tests of `file`'s part are; those that exist."""
    part = Path(file).with_suffix("").parts[1]
    folders = _FOLDERS.get(part, (f"tests/{part}", f"tests/test_{part}.py"))
    return tuple(folder for folder in folders if (root / folder).exists())


def mirrored_test(file: str, root: Path) -> str | None:
    """tests/engine/test_probe.py for fl_dp/engine/probe.py; None where there is none."""
    path = Path(file)
    mirror = Path("tests", *path.parts[1:-1], f"test_{path.name}")
    return mirror.as_posix() if (root / mirror).exists() else None
