"""A recorded pass is the pass itself, bit for bit; what cannot be one is refused."""

import pytest
import torch
from torch import nn

from fl_dp.engine import recording
from fl_dp.engine.backward import keep_gradients
from fl_dp.engine.kernel_choice.chooser import KernelChooser
from fl_dp.engine.probe import probe
from fl_dp.engine.recording import NotRecordedError, record
from fl_dp.engine.sum_error import Additions
from fl_dp.engine.tracing.harness import in_place_of
from fl_dp.errors import ProbeError
from fl_dp.form import Form
from fl_dp.models.build import build_model

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
ROWS = 16
IMAGES = Form((1, 28, 28), 10)
MODELS = {
    "linear": IMAGES,
    "norm-linear": IMAGES,
    "mlp:16": IMAGES,
    "tanh-cnn": IMAGES,
    "lenet-gn": IMAGES,
    "cnn1d": Form((64, 3), 4),
    "transformer": Form((12,), 20, "tokens", 20),
}


class PassOf:
    """A model's pass, as a trainer's."""

    def __init__(self, model, blank):
        self.model, self.blank = model.train(), blank
        self.parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.axes, self.chooser = probe(model, blank()[0]), KernelChooser()
        self(blank(), self.state)  # chooses kernels, and knows the graph
        self.chooser = KernelChooser(fixed=self.chooser.kernels)

    @property
    def state(self):
        return {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}

    def __call__(self, batch, state):
        inputs, labels = batch
        with in_place_of(self.model, state), torch.enable_grad():
            outputs = self.model(inputs)
            outputs = outputs if labels.dim() == 1 else outputs.transpose(1, 2)
            losses = nn.functional.cross_entropy(outputs, labels, reduction="none").view(ROWS, -1).mean(1)
            parameters = {name: state[name] for name in self.parameters}
            kept = keep_gradients(losses, parameters, self.axes, self.chooser, settle=False)
            return self.numbers(losses, kept)

    @torch.no_grad()
    def numbers(self, losses, kept):
        """All that is kept of each example; and sums."""
        factors, adding = losses.sigmoid(), Additions(4, wide=False, together=2)
        sums = [one.weighted_sum(factors, adding) for one in kept.values()]
        return [losses.detach(), *(tensor for one in kept.values() for tensor in one.tensors), *sums]

    def record(self):
        return record(self, self.blank, self.state)


def of_images(model, shape=(1, 28, 28), device="cpu"):
    return PassOf(
        model.to(device),
        lambda: (torch.randn(ROWS, *shape, device=device), torch.randint(0, 3, (ROWS,), device=device)),
    )


def same(found, expected):
    return len(found) == len(expected) and all(map(torch.equal, found, expected))


@pytest.mark.parametrize("name", MODELS)
def test_a_recorded_pass_has_the_bits_of_the_pass_at_other_weights_and_examples(name):
    form = MODELS[name]
    model = build_model(name, form, seed=0)

    def blank():
        inputs = torch.randint(0, 20, (ROWS, 12)) if form.vocabulary else torch.randn(ROWS, *form.input_shape)
        targets = (ROWS, 12) if form.vocabulary else (ROWS,)
        return inputs, torch.randint(0, form.outputs, targets)

    own = PassOf(model, blank)
    before, state = {n: t.clone() for n, t in own.state.items()}, torch.get_rng_state()
    recorded = own.record()
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(before[n], t) for n, t in own.state.items())
    with torch.no_grad():
        for parameter in own.parameters.values():
            parameter.add_(0.1 * torch.randn_like(parameter))
    batch = blank()
    assert same(recorded(batch, own.state), own(batch, own.state))


def test_masks_are_drawn_anew_and_alike():
    own = of_images(nn.Sequential(nn.Flatten(), nn.Linear(784, 8), nn.Dropout(0.5), nn.Linear(8, 3)))
    recorded, batch = own.record(), own.blank()
    torch.manual_seed(5)
    first, second = (recorded(batch, own.state) for _ in range(2))
    torch.manual_seed(5)
    assert same(first, own(batch, own.state))
    assert not same(first, second)


class WithBuffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.frozen = nn.Linear(784, 3), nn.Linear(784, 784).requires_grad_(requires_grad=False)
        self.register_buffer("scale", torch.ones(784))

    def forward(self, x):
        return self.layer(self.frozen(x.flatten(1)) * self.scale)


def test_buffers_and_frozen_weights_are_inputs_too():
    own = of_images(WithBuffer())
    recorded, batch = own.record(), own.blank()
    own.model.scale.mul_(2)
    own.model.frozen.weight.data.mul_(3)
    own.model.frozen.bias = nn.Parameter(torch.ones(784), requires_grad=False)  # another one
    assert same(recorded(batch, own.state), own(batch, own.state))


def test_one_example_that_is_not_finite_leaves_the_others_bits():
    own = of_images(nn.Sequential(nn.Flatten(), nn.Linear(784, 8), nn.Tanh(), nn.Linear(8, 3)))
    recorded, (x, y) = own.record(), own.blank()
    clean = recorded((x, y), own.state)
    x = x.clone()
    x[3] = torch.nan
    dirty = recorded((x, y), own.state)
    others = torch.arange(ROWS) != 3
    of_examples = [(one, other) for one, other in zip(clean, dirty, strict=True) if len(one) == ROWS]
    assert len(of_examples) > 4
    assert not dirty[1][3].isfinite()
    assert all(torch.equal(one[others], other[others]) for one, other in of_examples)


class Refused(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.hidden = nn.Linear(784, 3), [torch.ones(784)]


class BranchesOnWeights(Refused):
    def forward(self, x):
        return self.layer(x.flatten(1)) * (2 if self.layer.weight.sum() > 0 else 1)


class BranchesOnData(Refused):
    def forward(self, x):
        return self.layer(x.flatten(1)) * (2 if bool(x[0, 0, 0, 0] > 1e6) else 1)


class Counts(Refused):
    """Its numbers and its graph are the same in each call; one constant is not."""

    times = 0

    def forward(self, x):
        Counts.times += 1
        return self.layer(x.flatten(1)) + 1e-44 * Counts.times


class Hides(Refused):
    """A tensor that is neither a parameter nor a buffer would stay as it was."""

    def forward(self, x):
        return self.layer(x.flatten(1) * self.hidden[0])


class Chooses(Refused):
    def forward(self, x):
        large = x.flatten(1)[:, :1].abs() > 10
        return self.layer(x.flatten(1)) + large.nonzero().sum()


@pytest.mark.parametrize("kind", [BranchesOnWeights, BranchesOnData, Counts, Hides, Chooses])
def test_what_a_list_of_operators_cannot_stand_for_is_refused(kind):
    with pytest.raises((NotRecordedError, ProbeError)):
        of_images(kind()).record()


CHANGES = [
    lambda norms: norms * (1 + 2**-23),
    lambda norms: norms.where(norms.isfinite(), 0.0),
    lambda norms: norms.where(norms.isfinite(), torch.nan),
    lambda norms: norms + torch.rand(1) * 0,
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_list_with_other_bits_at_hostile_weights_or_other_draws_is_not_admitted(change, monkeypatch):
    own = of_images(nn.Sequential(nn.Flatten(), nn.Linear(784, 3)))
    assert own.record()
    replay = recording.Recorded.__call__

    def wrong(recorded, batch, state):
        return [change(one) if one.shape == (ROWS,) else one for one in replay(recorded, batch, state)]

    monkeypatch.setattr(recording.Recorded, "__call__", wrong)
    with pytest.raises(NotRecordedError):
        own.record()


def test_products_of_a_list_are_in_full_precision_whatever_the_user_allows():
    products, seen = torch.backends.mkldnn.matmul, []
    seeing = recording.Recorded(lambda *_: seen.append(products.fp32_precision))
    before, products.fp32_precision = products.fp32_precision, "bf16"
    try:
        seeing((torch.zeros(ROWS, 3),), {})
        assert seen == ["ieee"]
        assert products.fp32_precision == "bf16"
    finally:
        products.fp32_precision = before
