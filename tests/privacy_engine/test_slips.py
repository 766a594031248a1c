"""Slips in a training loop: each error names the way on, and the way on, followed as written, works."""

import pytest
import torch
import torch.nn.functional as F
from attached import attached, losses_of, small_batch, small_engine, small_model
from torch import nn
from torch.nn.utils import prune
from torch.nn.utils.parametrizations import spectral_norm

from fl_dp.errors import ConfigError, ModelError, ProbeError

pytestmark = pytest.mark.filterwarnings("ignore::fl_dp.errors.AssumedSamplingWarning")
X, Y = small_batch()


def step(model, optimizer):
    optimizer.step(loss=losses_of(model, X, Y))


def engine_of(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine = small_engine(model, noise_multiplier=1.0)
    engine.attach(optimizer)
    return optimizer, engine


def replaced_head(model):
    model[2] = nn.Linear(8, 3)


def assigned_state(model):
    model.load_state_dict(small_model().state_dict(), assign=True)


def pruned_later(model):
    prune.l1_unstructured(model[0], "weight", 0.5)


@pytest.mark.parametrize("change", [replaced_head, assigned_state, pruned_later])
def test_parts_that_were_replaced_are_named_and_made_anew_they_train(change):
    model, optimizer, engine = attached()
    step(model, optimizer)
    change(model)
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"another parameter (0|2)\.weight than the engine.*detach\(\)"):
            step(model, optimizer)
    assert engine.steps == 1
    engine.detach()
    optimizer, anew = engine_of(model)
    before = [p.detach().clone() for p in model.parameters()]
    step(model, optimizer)
    assert all(not torch.equal(p, start) for p, start in zip(model.parameters(), before, strict=True))
    assert anew.get_privacy_spent().steps == (1 if change is assigned_state else 2)


def test_a_part_that_was_added_is_named():
    model, optimizer, _ = attached()
    step(model, optimizer)
    model.append(nn.Linear(3, 3))
    with pytest.raises(ConfigError, match=r"3\.weight came into the model after the engine"):
        step(model, optimizer)
    model[3].requires_grad_(False)
    step(model, optimizer)


@pytest.mark.parametrize("scale", [65536.0, 256.0])
def test_losses_that_a_scaler_scaled_are_refused_and_python_s_numbers_are_taken(scale):
    model, optimizer, engine = attached()
    for losses in (
        losses_of(model, X, Y) * torch.tensor(scale),
        torch.tensor(scale) * losses_of(model, X, Y),
    ):
        with pytest.raises(ConfigError, match="Leave the scaler out"):
            optimizer.step(loss=losses)
    assert engine.steps == 0
    for factor in (scale, torch.tensor(2.0), torch.tensor(scale, dtype=torch.float64)):
        optimizer.step(loss=losses_of(model, X, Y) * factor)
    optimizer.step(loss=0.5 * (model(X)[:, 0] - Y) ** 2)


def test_a_gradient_scaler_is_refused_at_both_of_its_places():
    model, optimizer, engine = attached()
    scaler = torch.amp.GradScaler("cpu")
    with pytest.raises(ConfigError, match="Leave the scaler out"):
        optimizer.step(loss=scaler.scale(losses_of(model, X, Y)))
    with pytest.raises(
        ConfigError, match=r"GradScaler.step.*Leave the scaler out.*optimizer.step\(loss=losses\)"
    ):
        scaler.step(optimizer, loss=losses_of(model, X, Y))
    engine.detach()
    assert not hasattr(optimizer, "_step_supports_amp_scaling")


class Critic(nn.Module):
    """A WGAN's, with its gradient penalty inside."""

    def __init__(self, inside):
        super().__init__()
        self.net, self.inside = small_model(), inside

    def forward(self, x):
        if not self.inside:
            return self.net(x)[:, 0]
        x = x.detach().requires_grad_()
        out = self.net(x)[:, 0]
        return out + penalty(out, x)


def penalty(out, x):
    (gradient,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    return (gradient.norm(dim=1) - 1) ** 2


def test_a_gradient_penalty_outside_of_the_model_is_sent_inside_and_works_there():
    model = Critic(inside=False)
    optimizer, engine = engine_of(model)
    x = X.clone().requires_grad_()
    out = model(x)
    with pytest.raises(ProbeError, match="such as a gradient penalty, belongs inside the model's forward"):
        optimizer.step(loss=out + penalty(out, x))
    assert engine.steps == 0
    model = Critic(inside=True)
    optimizer, engine = engine_of(model)
    optimizer.step(loss=model(X))
    assert engine.steps == 1


def test_an_l2_term_is_weight_decay():
    model, optimizer, _ = attached()
    with pytest.raises(ProbeError, match="for an L2 term use the optimizer's weight_decay"):
        optimizer.step(loss=losses_of(model, X, Y) + 0.01 * model[0].weight.square().sum())
    optimizer.param_groups[0]["weight_decay"] = 0.01
    step(model, optimizer)


def test_spectral_norm_is_put_in_evaluation_mode_and_estimates_between_steps():
    model = nn.Sequential(spectral_norm(nn.Linear(6, 8)), nn.Tanh(), nn.Linear(8, 3))
    optimizer, engine = engine_of(model)
    with pytest.raises(
        ProbeError, match=r"(?s)Spectral norm.*call eval\(\) of its layer.*layer.weight; layer.eval"
    ):
        step(model, optimizer)
    for _ in range(3):
        model[0].eval()
        step(model, optimizer)
        layer = model[0]
        layer.train()
        layer.weight  # noqa: B018
        layer.eval()
    assert engine.steps == 3


def test_views_of_an_example_are_folded_inside_the_model():
    model, optimizer, _ = attached()
    views = torch.stack([X, X + 0.1], 1)  # (N, K, 6)
    with pytest.raises(ProbeError, match=r"\(N, K, ...\) and are flattened inside its forward"):
        optimizer.step(loss=losses_of(model, views.flatten(0, 1), Y.repeat_interleave(2)).view(-1, 2).mean(1))

    class Folded(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = small_model()

        def forward(self, x):
            return self.net(x.flatten(0, 1)).unflatten(0, x.shape[:2])

    model = Folded()
    optimizer, engine = engine_of(model)
    outputs = model(views)
    optimizer.step(
        loss=F.cross_entropy(outputs.transpose(1, 2), Y[:, None].repeat(1, 2), reduction="none").mean(1)
    )
    assert engine.steps == 1


def test_a_list_of_losses_is_sent_back_for_one_tensor():
    model, optimizer, _ = attached()
    with pytest.raises(ModelError, match="got list: call the model once with all examples"):
        optimizer.step(loss=[losses_of(model, X[i : i + 1], Y[i : i + 1]) for i in range(4)])
    step(model, optimizer)


def test_a_model_on_the_device_meta_is_sent_for_numbers():
    with torch.device("meta"):
        model = small_model()
    with pytest.raises(ConfigError, match=r"device meta.*to_empty\(device=...\)"):
        small_engine(model, noise_multiplier=1.0)
    model.to_empty(device="cpu")
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    optimizer, _ = engine_of(model)
    step(model, optimizer)


def test_an_optimizer_in_a_wrapper_without_hooks_is_unwrapped():
    """As accelerate.prepare makes it."""

    class AcceleratedOptimizer(torch.optim.Optimizer):
        def __init__(self, optimizer):
            self.optimizer = optimizer

        param_groups = property(lambda self: self.optimizer.param_groups)

    model = small_model()
    wrapped = AcceleratedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    engine = small_engine(model, noise_multiplier=1.0)
    with pytest.raises(ConfigError, match=r"Attach the one inside.*optimizer.optimizer"):
        engine.attach(wrapped)
    engine.attach(wrapped.optimizer)
    step(model, wrapped.optimizer)
    assert engine.steps == 1


def test_hooks_of_a_gradient_are_refused_and_a_mask_is_put_on_after_the_step():
    model, optimizer, engine = attached()
    mask = (torch.arange(6) > 2).float()
    hook = model[0].weight.register_hook(lambda gradient: gradient * mask)
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"0\.weight has a hook.*by the mask after optimizer\.step"):
            step(model, optimizer)
        hook.remove()
        hook = model[0].weight.register_post_accumulate_grad_hook(lambda parameter: None)
    hook.remove()
    step(model, optimizer)
    with torch.no_grad():
        model[0].weight *= mask
    step(model, optimizer)
    assert engine.steps == 2


class Words(nn.Module):
    """A head that is a table, too; tied: the same one."""

    def __init__(self, kind, tied):
        super().__init__()
        self.table, self.is_bag = kind(5, 4, padding_idx=1), kind is nn.EmbeddingBag
        self.head = nn.Linear(4, 5)
        if tied:
            self.head.weight = self.table.weight

    def forward(self, x):
        found = self.table(x)
        return self.head(found if self.is_bag else found.mean(1))


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
@pytest.mark.parametrize("tied", [False, True])
def test_the_padding_row_of_a_table_moves_only_if_something_else_reads_it(kind, tied):
    model = Words(kind, tied)
    optimizer, _ = engine_of(model)
    before = model.table.weight.detach().clone()
    x, y = torch.arange(36).view(12, 3) % 5, torch.arange(12) % 5
    optimizer.step(loss=losses_of(model, x, y))
    moved = (model.table.weight != before).any(1).tolist()
    assert moved == [True, tied, True, True, True]
