"""A run called from Python, in a process that goes on afterwards."""

import json
import subprocess
import sys

import pytest

import fl_dp
from fl_dp.errors import ConfigError

# Read from standard input: like a notebook's, its class is in no file.
PROGRAM = """
import gc, json, logging, os, signal, sys, threading
import torch
from torch import nn
import fl_dp

class Mine(fl_dp.Task):
    classes = ("no", "yes")
    def model(self):
        return Net()
    def train_data(self):
        return made(400, 0)
    def test_data(self):
        return made(200, 1)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
    def forward(self, x):
        return self.layer(x)

def made(count, seed):
    x = torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))
    return x, (x[:, 0] > 0).long()

def left():
    import ray
    loggers = [logging.getLogger(name) for name in ("fl_dp", "fl_dp.clients")]
    return {
        "signals": [str(signal.getsignal(one)) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)],
        "handlers": [len(one.handlers) for one in loggers],
        "environment": {
            name: value for name, value in os.environ.items()
            if name.startswith(("FL_DP", "RAY_", "PYTHON", "GLIBC", "OMP_", "MKL_NUM", "OPENBLAS"))
        },
        "frozen": gc.get_freeze_count(),
        "collects": gc.isenabled(),
        "ray": ray.is_initialized(),
        "threads": sorted(one.name for one in threading.enumerate()),
    }

before = left()
settings = dict(clients=2, rounds=2, expected_batch_size=32, physical_batch_size=32)
first = fl_dp.simulate(task=Mine, out="first", quiet=True, **settings)
after = left()
Mine.classes = ("red", "blue")
second = fl_dp.simulate(task=Mine, out="second", test=0.3, local_figures=True, **settings)
print("RESULT " + json.dumps({
    "before": before, "after": after, "status": first.status, "epsilon": first.epsilon,
    "rounds": len(first.rounds), "answers": list(first.model(torch.zeros(3, 4)).shape),
    "local": [len(second.local), second.local_figures["accuracy"].clients],
    "classes": [first.description.classes, second.description.classes],
}))
"""


@pytest.mark.slow
def test_a_class_without_a_file_trains_and_nothing_is_left_behind(tmp_path):
    done = subprocess.run(
        [sys.executable, "-"],
        input=PROGRAM,
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    quiet, _, rest = done.stdout.partition("simulating 2 clients; files in second")
    assert quiet == ""  # the first run was
    assert "round 2/2  eps " in rest
    found = json.loads(done.stdout.rpartition("RESULT ")[2])
    assert found["after"] == found["before"]
    assert (found["status"], found["rounds"], found["answers"]) == ("completed", 2, [3, 2])
    assert 0 < found["epsilon"] <= 3.0
    assert found["classes"] == [["no", "yes"], ["red", "blue"]]
    assert (tmp_path / "first" / "model.pt").exists()
    assert found["local"] == [2, 2]
    assert "NOT PRIVATE: no epsilon covers held-out records" in rest
    assert not (tmp_path / "first" / "local.json").exists()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"epsilom": 3}, "epsilom: unknown key; did you mean epsilon"),
        ({"task": int}, "expected a class that is a fl_dp.Task"),
        ({"config": "absent.toml"}, "absent.toml: no such config file"),
        ({"model": "absent"}, "model = 'absent'"),
    ],
)
def test_what_is_wrong_is_named_before_anything_starts(settings, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=expected):
        fl_dp.simulate(**settings)
    assert list(tmp_path.iterdir()) == []
