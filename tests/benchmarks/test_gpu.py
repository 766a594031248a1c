"""With parts that are made up, in real processes; and the smallest real one, on a CPU."""

import json
import os
import signal
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path

import made_up_parts
import pytest

from benchmarks import gpu
from benchmarks.gpu import PARTS, Part, report, run

FINE, BROKEN = Part("what is fine", made_up_parts.fine), Part("what breaks", made_up_parts.broken)
ABSENT = Part("what lacks something", made_up_parts.fine, needs=("numpy", "no_such_module"))


@pytest.fixture
def options(tmp_path):
    return Namespace(out=tmp_path, device="cpu", quick=True, within=float("inf"))


def ran(options):
    return (options.out / "ran.txt").read_text().split()


@pytest.mark.slow
def test_what_breaks_is_told_in_its_words_the_others_run_and_only_what_is_finished_is_skipped(options):
    parts = {"broken": BROKEN, "absent": ABSENT, "dies": Part("", made_up_parts.dies), "fine": FINE}
    records = run(parts, parts, options)
    assert records["broken"]["failed"] == "RuntimeError: no kernel image\nis available"
    assert records["absent"]["left out"] == "no package no_such_module"
    assert records["dies"]["failed"] == "its process ended with -9"
    assert records["fine"]["data"] == {"ms": 7}
    assert ran(options) == ["broken", "dies", "fine"]
    assert run(parts, parts, options)["fine"] == records["fine"]
    assert ran(options) == ["broken", "dies", "fine", "broken", "dies"]


@pytest.mark.slow
def test_what_hangs_is_ended_with_all_that_it_started(options):
    records = run({"hangs": Part("", made_up_parts.hangs, limit=30.0)}, ["hangs"], options)
    assert records["hangs"]["failed"] == "not done after 30 s"
    (child,) = map(int, ran(options))
    is_gone(child)


@pytest.mark.slow
def test_a_call_that_is_ended_ends_its_part_with_all_that_it_started(tmp_path):
    call = (
        "import sys; from benchmarks import gpu; import made_up_parts\n"
        "gpu.PARTS = {'hangs': gpu.Part('', made_up_parts.hangs)}\n"
        f"gpu.main(['--device', 'cpu', '--quick', '--part', 'hangs', '--out', {str(tmp_path)!r}])"
    )
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    started = subprocess.Popen([sys.executable, "-c", call], env={**os.environ, "PYTHONPATH": path})
    ends = time.monotonic() + 60
    while not (tmp_path / "ran.txt").exists() and time.monotonic() < ends:
        time.sleep(0.1)
    started.terminate()
    assert started.wait(60) == 128 + signal.SIGTERM
    is_gone(int((tmp_path / "ran.txt").read_text()))


def is_gone(child):
    ends = time.monotonic() + 60
    while Path(f"/proc/{child}").exists() and time.monotonic() < ends:
        time.sleep(0.1)
    assert not Path(f"/proc/{child}").exists()


def test_a_part_that_might_end_too_late_is_not_started(options):
    options.within = FINE.limit - 1
    assert run({"fine": FINE}, ["fine"], options) == {}


def written(options, name, **found):
    (options.out / f"{name}.json").write_text(json.dumps({**gpu._where(options), **found}))


def test_the_table_names_what_is_missing_and_says_that_it_was_dry(options):
    written(options, "fine", rows=[["speed", "7 | 8 ms"]])
    written(options, "broken", failed="RuntimeError: no kernel image\nis available")
    parts = {"fine": FINE, "broken": BROKEN, "absent": ABSENT}
    text = report(parts, run(parts, [], options))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "| fine | speed | 7 / 8 ms |" in lines
    assert "| broken | what breaks | MISSING: failed: RuntimeError: no kernel image is available |" in lines
    assert "| absent | what lacks something | MISSING: not run yet |" in lines
    assert "NO GPU" in lines[0]
    assert "no figures to quote" in lines[0]


def test_results_of_another_device_are_not_taken_for_these(options):
    written(options, "fine", rows=[])
    options.device = "cuda"
    with pytest.raises(ValueError, match=r"fine\.json is of --device cpu --quick"):
        run({"fine": FINE}, ["fine"], options)


def test_without_a_gpu_nothing_is_measured(options, monkeypatch, capsys):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(SystemExit):
        gpu.main(["--out", str(options.out)])
    assert "--device cpu --quick" in capsys.readouterr().err
    assert not list(options.out.iterdir())


@pytest.mark.slow
def test_a_dry_run_of_the_smallest_part(options, capsys):
    gpu.main(["--device", "cpu", "--quick", "--part", "equal", "--out", str(options.out)])
    found = json.loads((options.out / "equal.json").read_text())["data"]
    assert all(seen["error"] < seen["within"] for seen in found.values())
    table = (options.out / "table.md").read_text()
    assert "tanh-cnn, float64" in table
    assert "(ok); noise not compared" in table
    assert table.count("MISSING: not run yet") == len(PARTS) - 1
