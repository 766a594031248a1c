"""`python -m scripts.samples tests/samples/VERSION`: a small one of each kind of file that fl_dp writes.

Takes one to four minutes. Every command runs in a neutral folder; the samples are written only if no name
of this machine is in any of them.
"""

import argparse
import getpass
import hashlib
import json
import platform
import shutil
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from scripts.samples.every_entry import make_ledger
from scripts.samples.federation import make_configs, make_deployed_run, make_kits
from scripts.samples.place import ROOT, WHERE, neutral_place
from scripts.samples.private import private_copy
from scripts.samples.reading import READERS, Json, read
from scripts.samples.simulation import make_simulations
from scripts.samples.surface import surface

EXPECTED = "expected.json"
_LEFT_OUT = shutil.ignore_patterns("logs", ".lock", ".server.lock")  # nothing reads them
_SHORT = 3  # characters: such a name of a host is in a binary file by chance


def make(out: Path) -> None:
    """RuntimeError where a command fails, or a sample would tell where it was made."""
    with neutral_place() as place:
        make_configs(place)
        make_kits(place)
        make_deployed_run(place)
        make_simulations(place)
        every = place.folder / "every-entry"
        make_ledger(every / "ledger.sqlite")
        place.run("ledger", "export", every.name, "--out", f"{every.name}/export.json")
        gather(place.folder, out)


def gather(place: Path, out: Path) -> None:
    """What is kept of all that was made; `out` is there whole, or not at all."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / out.name
        for kind in READERS:
            shutil.copytree(place / kind, made / kind, ignore=_LEFT_OUT)
        check_tells_nothing(made)
        (made / EXPECTED).write_text(in_lines(expected(made)))
        shutil.copytree(made, out)


def expected(made: Path) -> Json:
    """What stands in the samples, as this checkout reads it; and the digests of all files."""
    files = sorted(path for path in made.rglob("*") if path.is_file())
    digests = {str(path.relative_to(made)): digest(path) for path in files}
    with tempfile.TemporaryDirectory() as folder:
        copied = private_copy(made, Path(folder) / made.name)
        said = {kind: read(copied, kind) for kind in READERS}
    made_at = datetime.now(UTC).isoformat(timespec="seconds")
    return {"made": made_at, "files": digests, "surface": surface(), **said}


def in_lines(table: Json) -> str:
    """As JSON, a line for each key."""
    lines = (f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in table.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check_tells_nothing(made: Path) -> None:
    """RuntimeError where a file holds the name of this machine, of its user or of their folders."""
    user = getpass.getuser()
    names = {str(ROOT), sys.prefix, str(Path.home()), f"/{user}/", platform.node()}
    names = {name for name in names if len(name) > _SHORT}
    for path in made.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        if told := [name for name in names if name.encode() in content]:
            raise RuntimeError(f"{path}: holds {told[0]!r}, which is of this machine alone.")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.samples", description=__doc__)
    parser.add_argument("folder", type=Path, help="a new one, named by the version")
    out = parser.parse_args().folder
    if out.exists():
        parser.error(f"{out}: is there, and samples are never changed; name a new folder.")
    if WHERE.exists():
        parser.error(f"{WHERE}: is there; it is left where samples could not be made. Delete it.")
    make(out)
    print(out)


if __name__ == "__main__":
    main()
