"""deploy/: units and an image start what this fl_dp has, and keep what they promise."""

import re
import shlex
import shutil
import subprocess
from configparser import RawConfigParser
from pathlib import Path

import pytest
import typer

from fl_dp.cli.main import app

DEPLOY = Path(__file__).parents[1] / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))
FL_DP = "/opt/fl-dp/bin/fl-dp"
KEPT = {
    "User": "fl-dp",
    "NoNewPrivileges": "yes",
    "ProtectSystem": "strict",
    "ReadWritePaths": "/var/lib/fl-dp",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "CapabilityBoundingSet": "",
    "LimitCORE": "0",
    "MemorySwapMax": "0",
    "UMask": "0077",
    "StateDirectoryMode": "0700",
    "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
    "SystemCallFilter": "@system-service",
    "RestrictSUIDSGID": "yes",
    "RestrictNamespaces": "yes",
    "LockPersonality": "yes",
    "ProtectKernelTunables": "yes",
    "ProtectControlGroups": "yes",
    "RestartPreventExitStatus": "2",
}


def service(unit: Path) -> dict[str, str]:
    parser = RawConfigParser(strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(re.sub(r"\\\n\s*", "", unit.read_text()))
    return dict(parser["Service"])


def check_options(words: list[str]) -> None:
    command = typer.main.get_command(app).commands[words[0]]
    known = {one for part in command.params for one in part.opts}
    assert {word for word in words if word.startswith("--")} <= known


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_is_hardened_and_bounded(unit):
    found = service(unit)
    assert {key: found.get(key) for key in KEPT} == KEPT
    assert re.fullmatch(r"\d+G", found["MemoryMax"])


def test_a_server_begins_its_run_and_goes_on_with_it(tmp_path):
    shell, flag, script = shlex.split(service(DEPLOY / "fl-dp-server.service")["ExecStart"])
    script = script.replace("$$", "$").replace(FL_DP, "echo")

    def said() -> list[str]:
        env = {"RUN": str(tmp_path), "PATH": "/usr/bin:/bin"}
        return subprocess.run([shell, flag, script], env=env, capture_output=True, text=True).stdout.split()

    kit = ["server", "--kit", "kit"]
    assert said() == [*kit, "--config", "run.toml", "--out", str(tmp_path)]
    check_options(said())
    (tmp_path / "config.toml").touch()
    assert said() == [*kit, "--resume", str(tmp_path)]
    check_options(said())


def test_a_site_waits_for_run_after_run():
    words = shlex.split(service(DEPLOY / "fl-dp-site.service")["ExecStart"])
    assert words == [FL_DP, "client", "--kit", "kit", "--config", "client.toml"]
    check_options(words[1:])


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_finds_no_fault(unit, tmp_path):
    here = tmp_path / unit.name
    here.write_text(unit.read_text().replace(FL_DP, "/bin/true"))
    found = subprocess.run(["systemd-analyze", "verify", str(here)], capture_output=True, text=True)
    assert (found.returncode, found.stderr) == (0, "")


def test_the_image_takes_pinned_files_alone_and_is_no_root():
    text = (DEPLOY / "Containerfile").read_text()
    assert "--only-binary :all: --require-hashes" in text
    assert re.search(r"^USER 10001$", text, re.MULTILINE)
    for name in ("site", "cuda"):
        assert (DEPLOY.parent / f"requirements-{name}.txt").exists()
    installs = [line for line in text.splitlines() if "pip install" in line]
    assert all("--require-hashes" in line or "--no-deps --no-index" in line for line in installs)
