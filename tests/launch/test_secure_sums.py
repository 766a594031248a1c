"""Secure sums in real processes, from the command line to the files, and with a client killed in a stage."""

import json
import os
from pathlib import Path

import pytest
from launch.commands import fl_dp, json_lines

# Put before a client's own code by Python itself: ends its client, and the process that answers, at a stage.
KILLER = """
import os, signal, sys

STAGE, NAME = os.environ.get("KILLED_AT"), "fl_dp.federation.client.secure_member"


class Finder:
    def find_spec(self, name, path=None, target=None):
        if name != NAME:
            return None
        sys.meta_path.remove(self)
        from importlib.util import find_spec

        spec = find_spec(name)
        load = spec.loader.exec_module

        def load_and_change(module):
            load(module)
            usual = module._STAGES[STAGE]

            def killed(message, config, identity, kept):
                if config.client == "2":
                    os.kill(os.getppid(), signal.SIGKILL)
                    os._exit(9)
                return usual(message, config, identity, kept)

            module._STAGES[STAGE] = killed

        spec.loader.exec_module = load_and_change
        return spec


if STAGE:
    sys.meta_path.insert(0, Finder())
"""


def run(folder: Path, killed_at: str = "") -> tuple[dict, list[dict]]:
    """Summary and rounds of a run of five clients on this machine."""
    (folder / "killer").mkdir()
    (folder / "killer" / "sitecustomize.py").write_text(KILLER)
    paths = [str(folder / "killer"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    env = {
        **os.environ,
        "XDG_STATE_HOME": str(folder / "state"),
        "KILLED_AT": killed_at,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    settings = ("aggregation=secure:1",)
    ended = fl_dp("run", "--out", str(folder / "run"), "5", "4", "5", "2", settings=settings, env=env)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return json.loads((folder / "run" / "summary.json").read_text()), json_lines(
        folder / "run" / "rounds.jsonl"
    )


def test_a_run_of_real_processes(tmp_path):
    summary, rounds = run(tmp_path)
    assert summary["status"] == "completed"
    assert summary["masked"] is True
    assert [one["secure_sum"] for one in rounds] == [{"clients": 5, "shares": 3, "masked": True}] * 2
    for client in summary["clients"].values():
        assert client["epsilon"] < 3.0 < client["epsilon_alone"]
        assert client["charges"] == [{**client["charges"][0], "steps": 2, "shares": 3}]
    assert rounds[1]["loss"] < rounds[0]["loss"]


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["share", "mask", "open"])
def test_a_client_that_is_killed_costs_the_others_nothing(tmp_path, stage):
    """Before the masks it is left out, after them it is a drop-out; the others' sum is opened either way."""
    summary, rounds = run(tmp_path, killed_at=stage)
    assert summary["status"] == "completed"
    assert rounds[0]["secure_sum"] == {
        "clients": 5 if stage == "open" else 4,
        "shares": 2 if stage == "share" else 3,
        "masked": True,
    }
    assert rounds[1]["secure_sum"] == {"clients": 4, "shares": 2, "masked": True}
    steps = {name: client["steps"] for name, client in summary["clients"].items()}
    assert [steps[name] for name in "0134"] == [2] * 4
    assert steps["2"] == {"share": 0, "mask": 1, "open": 1}[stage]  # what may be paid for counts
