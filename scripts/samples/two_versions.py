"""A server of one version with sites of another, both ways: they train, or decline before anybody pays.

    python -m scripts.samples.two_versions REVISION

REVISION is taken from the repository's history. Both run with the packages of this environment. Exit code 1
where neither happens.
"""

import argparse
import io
import json
import subprocess
import tarfile
import time
from contextlib import ExitStack

from scripts.samples.federation import SITES, make_configs, make_kits
from scripts.samples.place import CODE, CONSOLE, ROOT, Place, neutral_place

_OTHER = "other"  # the folder of the other version's code
_OF_VERSIONS = ("install one version of fl_dp at all sites", "do both sides run the same fl_dp")
_MOST_SECONDS = 120.0


def meet(place: Place, server: str, sites: str, out: str) -> str:
    """How a run of two rounds goes, by the folders of both sides' code: "trained", or "declined: ...".

    RuntimeError for anything else.
    """
    console = place.folder / CONSOLE
    before = len(console.read_bytes())
    words = ["--kit", "kits/provisioned/server", "--config", "config/run.toml", "--out", out]
    with ExitStack() as stack:
        serving = stack.enter_context(place.started("server", *words, code=server))
        for site in SITES:
            own = [
                "--kit",
                f"kits/{site}",
                "--config",
                f"config/{site}.toml",
                "--ledger",
                f"ledgers/{out}-{site}",
            ]
            stack.enter_context(place.started("client", *own, "--once", code=sites))
        end = time.monotonic() + _MOST_SECONDS
        while time.monotonic() < end:
            said = console.read_bytes()[before:].decode(errors="replace")
            if serving.poll() == 0:
                return "trained"
            if found := [line for line in said.splitlines() if any(one in line for one in _OF_VERSIONS)]:
                break
            time.sleep(1)
        else:
            raise RuntimeError(f"neither trained nor declined in {_MOST_SECONDS:g} s:\n{said}")
    if paid := [site for site in SITES if payments(place, f"ledgers/{out}-{site}")]:
        raise RuntimeError(f"{', '.join(paid)} paid for nothing:\n{said}")
    return f"declined before anybody paid: {found[0].strip()}"


def payments(place: Place, ledger: str) -> int:
    """How many rounds a site's ledger has paid for."""
    path = place.folder / ledger / "export.json"
    place.run("ledger", "export", ledger, "--out", str(path))
    kinds = [json.loads(row["content"])["kind"] for row in json.loads(path.read_text())["rows"]]
    return sum(kind.startswith("reserve") for kind in kinds)


def unpack(revision: str, place: Place) -> None:
    """The package as it was then, in the folder `_OTHER`."""
    archive = subprocess.run(["git", "archive", revision, "fl_dp"], cwd=ROOT, capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(place.folder / _OTHER, filter="data")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.samples.two_versions", description=__doc__)
    parser.add_argument("revision", help="of the other version")
    revision = parser.parse_args().revision
    with neutral_place() as place:
        unpack(revision, place)
        make_configs(place)
        make_kits(place)
        print(f"this server, sites of {revision}: {meet(place, CODE, _OTHER, 'this-server')}", flush=True)
        print(f"server of {revision}, these sites: {meet(place, _OTHER, CODE, 'other-server')}", flush=True)


if __name__ == "__main__":
    main()
