"""`make release`: all of a release but publishing it. The checks and tests come before, by the Makefile.

Two wheels from two clean copies of the last commit must have the same bytes. Beside wheel and source
distribution, `dist/VERSION/` has what they need: `sbom.json` (CycloneDX, of what a site installs), the
licences of it, and the SHA-256 of every file. Then the commit is tagged, here alone.
"""

import csv
import hashlib
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

import tomli_w

ROOT = Path(__file__).parents[1]
SBOM_TOOL = "cyclonedx-bom==7.5.0"
_OF_A_SITE = ("requirements-site.txt", "requirements-cuda.txt")
_LONGEST = 80  # characters of a licence's name
_PINNED = re.compile(r"^([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?==(\S+)", re.MULTILINE)


class ReleaseError(Exception):
    """What has to be done first."""


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    check_ready(version := project["version"])
    if sys.argv[1:] == ["--ready"]:  # asked before the tests, which take an hour
        return
    out = ROOT / "dist" / version
    if out.exists():
        raise ReleaseError(f"{out}: is there; a release is made once. Delete it if it was never published.")
    with tempfile.TemporaryDirectory() as folder:
        one, other = (built(Path(folder) / name) for name in ("one", "other"))
        compare(one, other)
        out.mkdir(parents=True)
        for path in one:
            (out / path.name).write_bytes(path.read_bytes())
    write_licences(out / "licences.csv")
    write_sbom(out / "sbom.json", project)
    sums = [f"{digest(path)}  {path.name}\n" for path in sorted(out.iterdir())]
    (out / "SHA256SUMS").write_text("".join(sums))
    git("tag", "--annotate", f"v{version}", "--message", f"fl_dp {version}")
    print(f"{out}: complete. Publish it by hand (CONTRIBUTING.md).")


def check_ready(version: str) -> None:
    """ReleaseError where the commit is not what the release would say it is."""
    if git("status", "--porcelain"):
        raise ReleaseError("Commit first: a release is what a commit holds.")
    if git("tag", "--list", f"v{version}"):
        raise ReleaseError(f"v{version} is tagged: raise the version in pyproject.toml.")
    heading = rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$"
    if not re.search(heading, (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE):
        raise ReleaseError(f"CHANGELOG.md: expected a heading `## [{version}] - YYYY-MM-DD`.")


def built(folder: Path) -> list[Path]:
    """Wheel and source distribution of a clean copy of the last commit."""
    copy, dist = folder / "copy", folder / "dist"
    copy.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "--extract"], cwd=copy, input=archive, check=True)
    subprocess.run([sys.executable, "-m", "scripts.build", str(dist)], cwd=copy, check=True)
    return sorted(dist.iterdir())


def compare(one: list[Path], other: list[Path]) -> None:
    differ = [path.name for path, again in zip(one, other, strict=True) if digest(path) != digest(again)]
    if differ:
        raise ReleaseError(f"{', '.join(differ)}: built twice from one commit, with other bytes.")


def pinned() -> Iterator[tuple[str, str]]:
    """What a site installs, by name and version."""
    for name in _OF_A_SITE:
        yield from _PINNED.findall((ROOT / name).read_text())


def write_licences(path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("package", "version", "licence"))
        writer.writerows((name, version, licence(name)) for name, version in sorted(set(pinned())))


def licence(package: str) -> str:
    """As the installed package states it."""
    try:
        said = metadata(package)
    except PackageNotFoundError:
        return "not installed here"
    classified = [one.rpartition(" :: ")[2] for one in said.get_all("Classifier", []) if "License ::" in one]
    stated = [text for key in ("License-Expression", "License") for text in said.get_all(key, [])]
    short = [
        text for text in stated if text != "UNKNOWN" and len(text) <= _LONGEST
    ]  # some have the whole text
    if short or classified:
        return short[0] if short else ", ".join(classified)
    files = said.get_all("License-File", [])
    return f"{len(files)} files in the package, first {files[0]}" if files else "not stated"


def write_sbom(path: Path, project: Mapping[str, Any]) -> None:
    """By CycloneDX's own tool, in an environment that is deleted again."""
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder) / "requirements.txt"
        requirements.write_text("".join((ROOT / name).read_text() for name in _OF_A_SITE))
        of = Path(folder) / "pyproject.toml"  # the tool stops at Poetry's part of the whole one
        of.write_text(
            tomli_w.dumps({"project": {name: project[name] for name in ("name", "version", "license")}})
        )
        subprocess.run([sys.executable, "-m", "venv", f"{folder}/venv"], check=True)
        python = f"{folder}/venv/bin/python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", SBOM_TOOL], check=True)
        words = ["requirements", str(requirements), "--pyproject", str(of)]
        output = ["--output-reproducible", "--output-format", "JSON", "--output-file", str(path)]
        subprocess.run([python, "-m", "cyclonedx_py", *words, *output], check=True)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


if __name__ == "__main__":
    try:
        main()
    except ReleaseError as error:
        sys.exit(str(error))
