"""The process that clients are forked from, and what becomes of them with it."""

import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

STARTS = [
    {"name": name, "settings": "", "kit": "", "server": "", "log": "", "events": "events.jsonl"}
    for name in ("0", "1")
]
FAKE = """
    import os, sys, time
    from fl_dp.federation.client.loop import told_to
    from fl_dp.launch import client_processes
    client_processes._import_all = lambda clients: None
    def live(client):
        told_to(__import__("pathlib").Path(client.events), client.name)("joined", "joined the server")
        {life}
    client_processes._live = live
    client_processes.main()
"""


def start_command(folder: Path, life: str) -> list[str]:
    (folder / "starts.json").write_text(json.dumps(STARTS))
    return [sys.executable, "-c", textwrap.dedent(FAKE).format(life=life), "starts.json"]


def start(folder: Path, life: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(start_command(folder, life), cwd=folder)


def events(folder: Path) -> list[dict[str, Any]]:
    file = folder / "events.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_how_each_client_ended_is_told(tmp_path):
    life = "os._exit(3) if client.name == '1' else os.kill(os.getpid(), 9)"
    assert start(tmp_path, life).wait(60) == 0
    ends = {event["client"]: event["words"] for event in events(tmp_path) if event["what"] == "ended"}
    assert ends == {"0": "stopped (signal 9)", "1": "stopped (exit code 3)"}


def test_a_client_that_is_asked_to_end_does_not_log_a_failure(tmp_path):
    warm = subprocess.Popen(
        start_command(tmp_path, "client_processes._end()"), cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    _, said = warm.communicate(timeout=60)
    ends = {event["client"]: event["words"] for event in events(tmp_path) if event["what"] == "ended"}
    assert (said, ends) == ("", dict.fromkeys("01", "stopped (exit code 0)"))


def test_each_is_a_process_group_of_its_own_and_ends_with_the_one_it_was_forked_from(tmp_path):
    warm = start(tmp_path, "time.sleep(120)")
    deadline = time.monotonic() + 60
    while len(events(tmp_path)) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    pids = [event["pid"] for event in events(tmp_path)]
    assert [os.getpgid(pid) for pid in pids] == pids
    warm.kill()
    warm.wait()
    while any(is_alive(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_a_client_alone_is_the_process_itself(tmp_path):
    warm = start(tmp_path, "time.sleep(0)")
    warm.wait(60)
    (tmp_path / "starts.json").write_text(json.dumps(STARTS[:1]))
    code = textwrap.dedent(FAKE).format(life="os._exit(7)")
    alone = subprocess.run([sys.executable, "-c", code, "starts.json"], cwd=tmp_path, check=False)
    assert alone.returncode == 7


ROUND = """
    import json, sys
    from dataclasses import asdict
    from pathlib import Path
    from federation.client.sites import PLAN, Site
    from fl_dp.launch.client_processes import ClientStart, _import_all
    from flwr.supercore.task_identity import TaskIdentity
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    site = Site(Path("."), accountant="pld")
    _import_all([ClientStart("hospital", str(site.file), "", "", "", "")])
    before = set(sys.modules)
    answer = site.train(PLAN)
    assert not hasattr(answer, "reason"), answer
    print(json.dumps(sorted(set(sys.modules) - before)))
"""


def test_after_the_imports_a_round_imports_nothing_that_takes_time(tmp_path):
    """A round of a tenth of a second would take more than one: its process is forked for this round alone."""
    tests = Path(__file__).parents[1]
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tests), str(tests.parent)]),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(ROUND)],
        cwd=tmp_path, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    new = json.loads(done.stdout)
    assert {name.partition(".")[0] for name in new} <= {"torch", "fl_dp"}  # a choice is a file
    assert len(new) < 20
