"""The loops of trainers: few lines make them private, they train the definition, and write nothing raw."""

import importlib
import importlib.util
import json
import os
import re
import signal
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from definition import clipped_one_by_one
from dp_accounting import dp_event, pld
from other_federations import changed_lines
from torch import nn

from fl_dp.engine.tracing.structure import tensors
from fl_dp.privacy_engine.batch_rows import num_rows, rows_of
from fl_dp.privacy_engine.engine import PrivacyEngine
from fl_dp.privacy_engine.turn_loop import TurnLoop

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "loops"
NEEDS = {"huggingface": "transformers", "accelerate": "accelerate", "lightning": "lightning"}
# What stands in the folder once a run may be continued.
SAVED = {
    "huggingface": "checkpoint-10/trainer_state.json",
    "accelerate": "epochs",
    "lightning": "last.ckpt",
}
MOST_CHANGED = 10
each = pytest.mark.parametrize("name", NEEDS)

pytestmark = pytest.mark.filterwarnings("ignore")  # those of three frameworks


@pytest.fixture(autouse=True)
def on_one_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(FOLDER)])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


def program(name: str) -> ModuleType:
    if importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed: pip install {NEEDS[name]}")
    if name == "accelerate":  # the test's own process may have made one with other settings
        from accelerate.state import AcceleratorState

        AcceleratorState._reset_state(reset_partial_state=True)
    return importlib.import_module(f"{name}_private")


@each
def test_at_most_ten_lines_of_the_plain_program_change(name: str) -> None:
    assert 0 < changed_lines(FOLDER / f"{name}_plain.py", FOLDER / f"{name}_private.py") <= MOST_CHANGED


class Spy:
    """Sees the values of an example's losses, and their mean in each pass."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
        self.values: list[float] = []
        where = module.Classifier if hasattr(module, "Classifier") else module
        name = "losses" if hasattr(where, "losses") else "losses_of"
        own = getattr(where, name)

        def losses(of: Any, *batch: Any) -> torch.Tensor:
            found: torch.Tensor = own(of, *batch)
            self.values += [*found.detach().tolist(), float(found.mean())]
            return found

        monkeypatch.setattr(where, name, losses)


def in_float64_without_noise(monkeypatch: pytest.MonkeyPatch, seen: dict[str, Any]) -> None:
    """Engines are made of models in float64 without dropout, and their first step is looked at."""
    made, attach = PrivacyEngine.__init__, PrivacyEngine.attach

    def init(self: PrivacyEngine, module: nn.Module, **options: Any) -> None:
        module.double()
        for part in module.modules():
            if isinstance(part, nn.Dropout):
                part.p = 0.0
        options.pop("target_epsilon")
        made(self, module, **{**options, "noise_multiplier": 0.0, "check_every": 10**9})

    def attached(self: PrivacyEngine, optimizer: torch.optim.Optimizer, **options: Any) -> Any:
        found = attach(self, optimizer, **options)
        seen["engine"], before = self, {n: p.detach().clone() for n, p in self.module.named_parameters()}

        def look(*_: Any) -> None:
            seen.setdefault("weights", before)
            seen.setdefault("grads", {n: p.grad.clone() for n, p in self.module.named_parameters()})
            raise KeyboardInterrupt

        optimizer.register_step_post_hook(look)
        return found

    monkeypatch.setattr(PrivacyEngine, "__init__", init)
    monkeypatch.setattr(PrivacyEngine, "attach", attached)


@each
def test_the_first_step_is_one_backward_per_example(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, seen = program(name), dict[str, Any]()
    in_float64_without_noise(monkeypatch, seen)
    loss, draws = PrivacyEngine.loss, []
    monkeypatch.setattr(PrivacyEngine, "loss", lambda self, *batch: draws.append(batch) or loss(self, *batch))
    floats = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # of the records
    try:
        with suppress(KeyboardInterrupt, SystemExit):
            module.main(str(tmp_path))
    finally:
        torch.set_default_dtype(floats)
    engine = seen["engine"]
    model = engine.module
    model.load_state_dict(seen["weights"], strict=False)
    model.train()
    losses_of = engine._losses._losses_of
    rows = (rows_of(draws[0], slice(i, i + 1)) for i in range(num_rows(draws[0])))
    total = clipped_one_by_one(model, (losses_of(*row) for row in rows), 1.0)
    assert num_rows(draws[0]) > 100
    for parameter, grad in seen["grads"].items():
        torch.testing.assert_close(grad, total[parameter] / module.BATCH, rtol=1e-8, atol=1e-10)


def spent(printed: str) -> tuple[float, int]:
    (found,) = re.findall(r"epsilon ([\d.]+) at delta 1e-05 after (\d+) steps", printed)
    return float(found[0]), int(found[1])


def run(name: str, folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(FOLDER / f"{name}_private.py"), str(folder), *words],
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.slow
@each
def test_a_run_that_is_killed_goes_on_and_counts_the_steps_before(name: str, tmp_path: Path) -> None:
    module = program(name)
    steps = module.EPOCHS * module.RECORDS // module.BATCH
    killed = run(name, tmp_path)
    while not (tmp_path / SAVED[name]).exists():
        assert killed.poll() is None, killed.stdout.read() if killed.stdout else ""
        time.sleep(0.01)
    time.sleep(0.3)  # until it is written
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    printed, _ = run(name, tmp_path, "resume").communicate()
    epsilon, taken = spent(printed)
    assert taken == steps, printed
    engine = PrivacyEngine(
        nn.Linear(2, 2), batch_size=module.BATCH, sample_size=module.RECORDS, epochs=module.EPOCHS,
        target_epsilon=3.0, max_grad_norm=1.0,
    )  # fmt: skip
    event = dp_event.GaussianDpEvent(engine.noise_multiplier)
    event = dp_event.PoissonSampledDpEvent(module.BATCH / module.RECORDS, event)
    assert epsilon == pytest.approx(pld.PLDAccountant().compose(event, steps).get_epsilon(1e-5), rel=0.01)
    assert "no step was taken after the loaded state was saved" in printed


@pytest.mark.slow
@each
def test_nothing_raw_is_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """No loss of a record or a pass, as text or as a number's bytes; no count of tokens; no random state."""
    module = program(name)
    spy = Spy(monkeypatch, module)
    scalar, sums = TurnLoop._scalar, list[bytes]()

    def seen(self: Any, clipped: Any, mean: Any) -> Any:
        parts = (grad.flatten()[:3].tolist() for _, grad in tensors(clipped.grads))
        sums.extend(struct.pack("<3f", *part) for part in parts if len(part) == 3 and all(part))
        return scalar(self, clipped, mean)

    monkeypatch.setattr(TurnLoop, "_scalar", seen)
    module.main(str(tmp_path))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    events = b"".join(path.read_bytes() for path in files if "events" in path.name)
    written = "".join(capfd.readouterr()).encode() + b"".join(path.read_bytes() for path in files)
    assert len(files) > 1
    assert len(spy.values) > module.RECORDS
    assert len(sums) > 40
    assert not [one for one in sums if one in written]
    losses = [number for number in spy.values if len(f"{number:.6g}") > 7]  # shorter ones occur by chance
    for number in losses[:: max(1, len(losses) // 1000)]:
        assert f"{number:.6g}".encode() not in written
        assert struct.pack("<d", number) not in written
        assert struct.pack("<f", number) not in events  # elsewhere four bytes occur by chance


@pytest.mark.slow
def test_a_checkpoint_of_the_trainer_tells_neither_the_draws_size_nor_a_loss(tmp_path: Path) -> None:
    for run_of in ("one", "other"):
        printed, _ = run("huggingface", tmp_path / run_of).communicate()
        assert "epsilon" in printed, printed
    one, other = (tmp_path / name / "checkpoint-40" for name in ("one", "other"))
    states = [torch.load(folder / "rng_state.pth", weights_only=False) for folder in (one, other)]
    assert torch.equal(states[0]["cpu"], states[1]["cpu"])
    assert states[0]["python"] == states[1]["python"]
    state = json.loads((one / "trainer_state.json").read_text("utf-8"))
    logged = [row for row in state["log_history"] if "loss" in row]
    assert (state["total_flos"], state["num_input_tokens_seen"]) == (0, 0)
    assert len(logged) == 4
    assert all(str(row["loss"]) == "nan" and row["grad_norm"] == 0 for row in logged)
