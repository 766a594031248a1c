import copy
import io
import subprocess
import sys

import pytest
import torch
from definition import assert_equal, clipped_by_definition, clipped_by_engine
from structured import Called
from torch import nn

from fl_dp import PrivacyEngine
from fl_dp.engine.kernel_choice.chooser import KernelChooser
from fl_dp.engine.probe import probe
from fl_dp.errors import NoRuleError
from fl_dp.training.passes import Passes

pytestmark = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="this PyTorch has no fused LSTM on CPUs"
)


def model_of_two_directions():
    layer = nn.LSTM(6, 4, num_layers=2, bidirectional=True, batch_first=True)
    return Called(layer, lambda m, x: m(x)[0][:, -1])


def hooks(model):
    return len(model.layer._forward_pre_hooks), len(model.layer._forward_hooks)


def test_equals_one_backward_per_example_in_float32_where_the_layer_is_fused():
    torch.manual_seed(0)
    model, inputs = model_of_two_directions(), torch.randn(7, 5, 6)
    with pytest.raises(NoRuleError, match=r"RnnLayer consumes layer\.weight_ih_l0.*fl_dp\.probe"):
        clipped_by_engine(model, inputs, 0.3)
    axes = probe(model, torch.randn(3, 5, 6))
    found = clipped_by_engine(model, inputs, 0.3, axes=axes).grads
    found = {name: grad.float() for name, grad in found.items()}
    assert_equal(found, clipped_by_definition(model, inputs, 0.3), within=1e-4)


def test_an_attached_engine_takes_the_layer_as_it_is():
    model = model_of_two_directions()
    engine = PrivacyEngine(model, batch_size=4, sample_size=8, max_grad_norm=1.0, noise_multiplier=1.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine.attach(optimizer)
    before = [p.detach().clone() for p in model.parameters()]
    optimizer.step(loss=model(torch.randn(4, 5, 6)).square().sum(1))
    assert all(not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize("was_on", [True, False])
def test_other_layers_stay_as_they_are_even_if_a_pass_raises(monkeypatch, was_on):
    model = model_of_two_directions()
    probe(model, torch.randn(3, 5, 6))
    probe(model, torch.randn(3, 5, 6))
    assert hooks(model) == (1, 1)
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", was_on)
    model(torch.randn(3, 5, 6))
    assert torch.backends.mkldnn.enabled == was_on
    with pytest.raises(RuntimeError):
        model(torch.randn(3, 5, 7))
    assert torch.backends.mkldnn.enabled == was_on


def test_a_pass_that_was_interrupted_leaves_nothing_behind_after_the_next(monkeypatch):
    """PyTorch calls no hook after KeyboardInterrupt."""
    model = model_of_two_directions()
    probe(model, torch.randn(3, 5, 6))
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", True)
    with monkeypatch.context() as patch:
        patch.setattr(nn.LSTM, "forward", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            model(torch.randn(3, 5, 6))
    model(torch.randn(3, 5, 6))
    assert torch.backends.mkldnn.enabled


def test_copies_and_files_do_nothing_without_fl_dp(tmp_path):
    layer = nn.LSTM(6, 4)
    probe(Called(layer, lambda m, x: m(x.transpose(0, 1))[0][-1]), torch.randn(3, 5, 6))
    file = io.BytesIO()
    torch.save(layer, file)
    (tmp_path / "layer.pt").write_bytes(file.getvalue())
    load = (
        "import sys, torch; layer = torch.load('layer.pt', weights_only=False); "
        "layer(torch.zeros(2, 3, 6)); assert 'fl_dp' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", load], check=True, cwd=tmp_path, timeout=120)
    copied = Called(copy.deepcopy(layer), lambda m, x: m(x.transpose(0, 1))[0][-1])
    with pytest.raises(NoRuleError, match="probe"):
        clipped_by_engine(copied, torch.randn(3, 5, 6), 1.0)


def test_a_copy_for_another_device_is_unfused_too():
    model, cpu = model_of_two_directions(), torch.device("cpu")
    axes = probe(model, torch.randn(3, 5, 6))
    copied = Passes(model, axes, None, KernelChooser(), device=cpu).on(cpu).model
    assert len(clipped_by_engine(copied, torch.randn(4, 5, 6), 1.0, axes=axes).norms) == 4
