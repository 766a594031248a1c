"""What the examples of other federations must show: few changed lines, payments first, a right epsilon."""

import signal
import subprocess
from collections.abc import Mapping
from difflib import SequenceMatcher
from pathlib import Path

import torch
from definition import clipped_one_by_one
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
from dp_accounting.pld import PLDAccountant
from launch.commands import steps_paid, wait_for
from torch import nn
from torch.nn import functional as F

import fl_dp
from fl_dp.privacy_engine import private_step

EXAMPLES = Path(__file__).parents[1] / "examples" / "other_federations"


def changed_lines(before: Path, after: Path) -> int:
    """Lines that a diff removes, adds or replaces, but for blank ones and the module's docstring."""
    old, new = ([line for line in path.read_text().splitlines()[1:] if line] for path in (before, after))
    found = SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes()
    return sum(max(i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in found if tag != "equal")


def assert_epsilon(told: float, *, rate: float, noise: float, steps: int, delta: float) -> None:
    """dp_accounting's own, which knows no rounding: ours is hardly above it."""
    event = PoissonSampledDpEvent(rate, GaussianDpEvent(noise))
    exact = PLDAccountant().compose(event, steps).get_epsilon(delta)
    assert exact <= told <= 1.02 * exact


class FirstStep:
    """What the first step of an engine sums, compared with one backward pass for each example of its draw."""

    def __init__(self, monkeypatch) -> None:
        self._batches, self._sums = [], []
        of_batch, noised = fl_dp.PrivacyEngine.loss, private_step.noised

        def loss(engine, *batch):
            self._batches.append([part.clone() for part in batch])
            return of_batch(engine, *batch)

        def kept(rule, clipped, source):
            self._sums.append({name: grad.clone() for name, grad in clipped.grads.items()})
            return noised(rule, clipped, source)

        monkeypatch.setattr(fl_dp.PrivacyEngine, "loss", loss)
        monkeypatch.setattr(private_step, "noised", kept)

    def assert_is_one_backward_per_example(self, model: nn.Module, max_grad_norm: float) -> None:
        x, y = self._batches[0]
        assert len(x) > 1
        assert x.dtype == torch.float64
        losses = (F.cross_entropy(model(x[n : n + 1]), y[n : n + 1], reduction="none") for n in range(len(x)))
        expected: Mapping[str, torch.Tensor] = clipped_one_by_one(model, losses, max_grad_norm)
        assert self._sums[0].keys() == expected.keys()
        for name, total in expected.items():
            torch.testing.assert_close(self._sums[0][name], total, rtol=1e-6, atol=1e-6)


def assert_killed_steps_are_paid(command: list[str], env: Mapping[str, str], steps: Path, most: int) -> None:
    """The program notes each step in the file before it is taken, and is killed; its account paid for all of
    them, and for at most `most` more. steps: the file; the account is the only one in the ledger.
    """
    child = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        wait_for(lambda: child.poll() is not None or (steps.exists() and len(steps.read_bytes()) >= 15))
    finally:
        child.send_signal(signal.SIGKILL)
        output, _ = child.communicate()
    assert child.returncode == -signal.SIGKILL, output.decode()
    (paid,) = steps_paid(Path(env["XDG_STATE_HOME"]) / "fl-dp" / "ledger").values()
    assert 15 <= len(steps.read_bytes()) <= paid <= len(steps.read_bytes()) + most
