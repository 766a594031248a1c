"""The process that clients are forked from, and what becomes of them with it."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

from launch.commands import is_alive, json_lines, wait_for

from fl_dp.launch import client_processes

FAKE = """
    import os, time
    from pathlib import Path
    from fl_dp.federation.client.loop import told_to
    from fl_dp.launch import client_processes
    client_processes._prepare = lambda clients: None
    def live(client):
        told_to(Path(client.events), client.name)("joined", "joined the server")
        exec(client.settings)
    client_processes._live = live
    client_processes.main()
"""


def starts(folder: Path, *lives: str) -> Path:
    """The file of clients that do that, once they have joined."""
    one = {"kit": "", "server": "", "log": "", "events": str(folder / "events.jsonl")}
    clients = [{**one, "name": str(name), "settings": life} for name, life in enumerate(lives)]
    (folder / "starts.json").write_text(json.dumps(clients))
    return folder / "starts.json"


def start(folder: Path, *lives: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", textwrap.dedent(FAKE), str(starts(folder, *lives))]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)


def test_how_each_client_ended_is_told_and_one_that_was_asked_to_logs_no_failure(tmp_path):
    warm = start(tmp_path, "os.kill(os.getpid(), 9)", "os._exit(3)", "client_processes._end()")
    _, said = warm.communicate(timeout=300)
    assert (warm.returncode, said) == (0, "")
    events = json_lines(tmp_path / "events.jsonl")
    assert {event["client"]: event["words"] for event in events if event["what"] == "ended"} == {
        "0": "stopped (signal 9)",
        "1": "stopped (exit code 3)",
        "2": "stopped (exit code 0)",
    }


def test_each_is_a_process_group_of_its_own_and_ends_with_the_one_it_was_forked_from(tmp_path):
    events = tmp_path / "events.jsonl"
    with start(tmp_path, "time.sleep(900)", "time.sleep(900)") as warm:
        try:
            wait_for(lambda: len(json_lines(events)) == 2)
            pids = [event["pid"] for event in json_lines(events)]
            assert [os.getpgid(pid) for pid in pids] == pids
        finally:
            warm.kill()
    wait_for(lambda: not any(is_alive(pid) for pid in pids))


def test_a_client_alone_is_the_process_itself(tmp_path, monkeypatch):
    lived = []
    monkeypatch.setattr(client_processes, "_prepare", lambda clients: None)
    monkeypatch.setattr(client_processes, "_live", lambda client: lived.append((client.name, os.getpid())))
    monkeypatch.setattr(sys, "argv", ["client_processes", str(starts(tmp_path, ""))])
    client_processes.main()
    assert lived == [("0", os.getpid())]


ROUND = """
    import json, sys
    from dataclasses import asdict
    from pathlib import Path
    from federation.client.sites import PLAN, Site
    from fl_dp.launch.client_processes import _prepare
    from fl_dp.launch.clients import ClientStart
    from flwr.supercore.task_identity import TaskIdentity
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    site = Site(Path("."), accountant="pld")
    _prepare([ClientStart("hospital", str(site.file), "", "", "", "")])
    before = set(sys.modules)
    answer = site.train(PLAN)
    assert not hasattr(answer, "reason"), answer
    print(json.dumps(sorted(set(sys.modules) - before)))
"""


def test_after_the_imports_a_round_imports_nothing_that_takes_time(tmp_path):
    """A round of a tenth of a second would take more than one: its process is forked for this round alone."""
    tests = Path(__file__).parents[1]
    paths = os.pathsep.join([str(tests), str(tests.parent)])
    env = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(ROUND)],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    new = json.loads(done.stdout)
    assert {name.partition(".")[0] for name in new} <= {"torch", "fl_dp"}  # a choice is a file
    assert len(new) < 20
