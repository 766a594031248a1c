"""A forward pass leaves nothing behind: what later passes read is refused, what nobody reads is put back."""

import argparse
from collections import deque
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from attached import attached, losses_of, small_batch
from torch import Tensor, nn
from torch.nn.utils import prune

from fl_dp.errors import ProbeError

pytestmark = pytest.mark.filterwarnings("ignore::fl_dp.errors.AssumedSamplingWarning")
X, Y = small_batch()


class Does(nn.Module):
    """Calls `act(self, x)` in every forward pass, and adds what it returns to the outputs."""

    def __init__(self, act, **start) -> None:
        super().__init__()
        self.linear, self.act = nn.Linear(6, 3), act
        for name, value in start.items():
            setattr(self, name, value)

    def forward(self, x: Tensor) -> Tensor:
        added = self.act(self, x.detach())
        return self.linear(x) + (0.0 if added is None else added)


def steps(model, number=3, **options):
    model, optimizer, engine = attached(model, **options)
    for _ in range(number):
        optimizer.step(loss=losses_of(model, X, Y))
    return engine


def with_buffer(act, persistent=True):
    model = Does(act)
    model.register_buffer("mean", torch.zeros(3), persistent=persistent)
    return model


def running(m, x):
    m.mean = 0.9 * m.mean + 0.1 * x.mean(0)[:3]


def running_and_read(m, x):
    running(m, x)
    return m.mean


def registered(m, x):
    m.register_buffer("seen", x.mean(0))


def replaced(m, x):
    m.linear.bias = nn.Parameter(x.mean(0)[:3])


def through_data(m, x):
    m.mean.data.add_(x.mean(0)[:3])


def through_numpy(m, x):
    m.mean.numpy()[:] += x.mean(0)[:3].numpy()


def in_a_child(m, x):
    m.linear.register_buffer("seen", x[0])


def of_the_class(m, x):
    type(m).seen = x.mean(0)


LASTING = {
    "assigned": (lambda: with_buffer(running), "buffer mean"),
    "assigned and read": (lambda: with_buffer(running_and_read), "buffer mean"),
    "registered": (lambda: Does(registered), "buffer seen"),
    "replaced": (lambda: Does(replaced), r"parameter linear\.bias"),
    "through data": (lambda: with_buffer(through_data), "buffer mean"),
    "through NumPy": (lambda: with_buffer(through_numpy), "buffer mean"),
    "in a child": (lambda: Does(in_a_child), r"buffer linear\.seen"),
    "of the class": (lambda: Does(of_the_class), r"class attribute Does\.seen"),
}


@pytest.mark.parametrize("case", LASTING)
def test_what_lasts_is_refused_by_name_before_a_step(case):
    make, words = LASTING[case]
    model = make()
    with pytest.raises(ProbeError, match=f"writes to {words}, which then holds data"):
        steps(model)


class Shortened(nn.Module):
    def __init__(self, **options) -> None:
        super().__init__()
        self.words, self.linear = nn.Embedding(50, 4, **options), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.words(x).mean(1))


def test_rows_that_an_embedding_would_shorten_later_are_refused_though_all_are_short_now():
    words = torch.randint(0, 50, (12, 5))
    for options in ({"max_norm": 100.0}, {"max_norm": 100.0, "norm_type": 1.0}):
        model, optimizer, engine = attached(Shortened(**options))
        with pytest.raises(ProbeError, match=r"parameter words\.weight.*without max_norm"):
            optimizer.step(loss=losses_of(model, words, Y))
        assert engine.steps == 0
    model, optimizer, _ = attached(Shortened())
    optimizer.step(loss=losses_of(model, words, Y))


def kept_once(m, x):
    if m.mean is None:
        m.mean = x.mean(0)[:3]
    return -m.mean


def running_attribute(m, x):
    m.mean = 0.9 * m.mean + 0.1 * x.mean(0)[:3]
    return m.mean


def one_pass_late(m, x):
    m.last, before = x.mean(0)[:3], m.last
    return before


@dataclass
class Kept:
    mean: Tensor


def in_an_object(m, x):
    before, m.kept.mean = m.kept.mean, x.mean(0)[:3]
    return before


def in_a_list(m, x):
    m.kept.append(x.mean(0)[:3])
    return m.kept[0]


def running_temporary(m, x):
    running(m, x)
    return m.mean


READ = {
    "kept once": lambda: Does(kept_once, mean=None),
    "running": lambda: Does(running_attribute, mean=torch.zeros(3)),
    "a pass late": lambda: Does(one_pass_late, last=torch.zeros(3)),
    "in a dataclass": lambda: Does(in_an_object, kept=Kept(torch.zeros(3))),
    "in a namespace": lambda: Does(in_an_object, kept=SimpleNamespace(mean=torch.zeros(3))),
    "in a list": lambda: Does(in_a_list, kept=[]),
    "in a buffer that is not saved": lambda: with_buffer(running_temporary, persistent=False),
}


@pytest.mark.parametrize("case", READ)
def test_what_a_later_pass_reads_is_refused(case):
    with pytest.raises(ProbeError, match="Two calls on the same batch gave different outputs"):
        steps(READ[case]())


class OfTheClass(Does):
    cache: dict = {}  # noqa: RUF012


def kept_in_the_class(m, x):
    if "mean" not in m.cache:
        m.cache["mean"] = x.mean(0)[:3]
    return -m.cache["mean"]


def kept_in_an_object(m, x):
    if m.args.mean is None:
        m.args.mean = x.mean(0)[:3]
    return -m.args.mean


def kept_by_a_function(m, x):
    if not hasattr(kept_by_a_function, "mean"):
        kept_by_a_function.mean = x.mean(0)[:3]
    return -kept_by_a_function.mean


class Callable_(SimpleNamespace):  # noqa: N801
    def __call__(self, x):
        return x


@pytest.mark.parametrize(
    "model",
    [
        lambda: OfTheClass(kept_in_the_class),
        lambda: Does(kept_in_an_object, args=argparse.Namespace(mean=None)),
        lambda: Does(kept_in_an_object, args=Callable_(mean=None)),
        lambda: Does(kept_by_a_function),
    ],
)
def test_what_the_first_real_pass_keeps_in_objects_and_classes_is_refused(model):
    """The real batch comes before the check of the model: what it has kept looks like a constant there."""
    with pytest.raises(ProbeError, match="Two calls on the same batch gave different outputs"):
        steps(model())
    OfTheClass.cache.clear()


@pytest.mark.parametrize("gradients", [True, False])
def test_a_pass_without_a_step_may_not_write_either(gradients):
    """Batch norm is in evaluation mode, but for the pass that evaluates."""
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)).eval()
    model, optimizer, engine = attached(model)
    optimizer.step(loss=losses_of(model, X, Y))
    model.train()
    with (
        torch.set_grad_enabled(gradients),
        pytest.raises(ProbeError, match=r"buffer 1\.(running|num_batches)"),
    ):
        model(X)
    model.eval()
    optimizer.step(loss=losses_of(model, X, Y))
    assert engine.steps == 2


def test_the_first_of_two_calls_in_a_step_may_not_write_either():
    def largest(m, x):
        if (x.abs().amax(0)[:3] > m.mean).any():
            m.mean.copy_(x.abs().amax(0)[:3])

    model = with_buffer(largest)
    model.mean.fill_(5.0)
    model, optimizer, _ = attached(model)
    optimizer.step(loss=losses_of(model, X, Y))
    with pytest.raises(ProbeError, match="buffer mean"):
        optimizer.step(loss=losses_of(model, 100 * X, Y) + losses_of(model, X, Y))


def test_an_evaluation_may_keep_attributes_to_look_at_until_the_next_pass():
    model, optimizer, _ = attached(Does(a_map))
    optimizer.step(loss=losses_of(model, X, Y))
    with torch.no_grad():
        model(X)
    assert held(model) != set()
    losses = losses_of(model, X, Y)
    optimizer.step(loss=losses)
    assert held(model) == set()


def test_buffers_that_are_written_between_passes_are_named_in_the_line():
    """A centre, a queue, a part of the model that is called by itself."""
    model, optimizer, engine = attached(with_buffer(lambda m, x: m.mean))
    for _ in range(2):
        optimizer.step(loss=losses_of(model, X, Y))
    assert "buffers" not in [one.name for one in engine.get_privacy_spent().assumed]
    with torch.no_grad():
        model.mean.copy_(X.mean(0)[:3])
    optimizer.step(loss=losses_of(model, X, Y))
    assert "buffers" in [one.name for one in engine.get_privacy_spent().assumed]


def after_three_passes(m, x):
    """As of a warm-up that is counted elsewhere. The check of the model does not see it."""
    CALLS.append(len(x))
    if CALLS.count(12) > 2:
        m.mean, before = x.mean(0)[:3], m.mean
        return before
    return None


CALLS: list[int] = []


def test_what_is_written_and_read_later_than_the_check_is_refused_when_it_happens():
    CALLS.clear()
    model = Does(after_three_passes, mean=torch.zeros(3))
    model, optimizer, engine = attached(model, check_every=10**9)

    def train():
        for _ in range(4):
            optimizer.step(loss=losses_of(model, X, Y))

    with pytest.raises(ProbeError, match="It writes to attribute mean"):
        train()
    assert 1 <= engine.steps < 4
    assert not model.mean.any()


def test_contents_that_change_later_are_found_in_one_pass_of_check_every():
    def later(m, x):
        CALLS.append(len(x))
        if CALLS.count(12) > 1:
            m.mean.data.add_(x.mean(0)[:3])

    CALLS.clear()
    model, optimizer, engine = attached(with_buffer(later), check_every=1)
    optimizer.step(loss=losses_of(model, X, Y))
    with pytest.raises(ProbeError, match="writes to buffer mean"):
        optimizer.step(loss=losses_of(model, X, Y))
    assert (engine.steps, model.mean.any().item()) == (1, False)


def a_map(m, x):
    m.map = x.softmax(1)


def maps(m, x):
    m.maps.append(x.softmax(1))


def by_layer(m, x):
    m.by_layer["first"] = {"weights": x}


def a_ring(m, x):
    m.ring.append(x)


def of_a_child(m, x):
    m.linear.last_input = x


def not_saved(m, x):
    m.register_buffer("cache", x, persistent=False)


WRITTEN = {
    "attention map": lambda: Does(a_map),
    "list of maps": lambda: Does(maps, maps=[]),
    "mapping": lambda: Does(by_layer, by_layer={}),
    "ring": lambda: Does(a_ring, ring=deque(maxlen=2)),
    "of a child": lambda: Does(of_a_child),
    "buffer that is not saved": lambda: Does(not_saved),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_what_is_written_and_not_read_is_there_to_look_at_and_gone_after_the_step(case):
    model, optimizer, engine = attached(WRITTEN[case]())
    for _ in range(3):
        losses = losses_of(model, X, Y)
        assert held(model) != set(), "to look at"
        optimizer.step(loss=losses)
        assert held(model) == set()
    assert engine.steps == 3


def held(model):
    """The tensors that the model's attributes and temporary buffers hold, by identity, without its own."""
    found, own = set(), {id(p) for p in (*model.parameters(), Y)}

    def add(value):
        if isinstance(value, Tensor) and id(value) not in own:
            found.add(id(value))
        for one in (
            value.values() if isinstance(value, dict) else value if isinstance(value, list | deque) else ()
        ):
            add(one)

    for module in model.modules():
        for value in (vars(module), module._buffers):
            add(value)
    return found


def test_a_table_made_of_shapes_and_a_weight_that_a_hook_computes_are_fine():
    def table(m, x):
        if m.table is None or len(m.table) < x.shape[1]:
            m.table = torch.linspace(0, 1, x.shape[1])
        return m.table[:3]

    assert steps(Does(table, table=None)).steps == 3
    pruned = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 3))
    prune.l1_unstructured(pruned[0], "weight", 0.5)
    assert steps(pruned).steps == 3


def test_what_the_user_changes_between_passes_stays():
    model, optimizer, _ = attached(Does(lambda m, x: a_map(m, x) or m.shift, shift=0.0))
    optimizer.step(loss=losses_of(model, X, Y))
    model(X)  # without a step
    model.shift = 2.0
    model.eval()
    optimizer.step(loss=losses_of(model, X, Y))
    assert (model.shift, model.training, held(model)) == (2.0, False, set())
    losses = losses_of(model, X, Y)
    model.shift = 3.0
    with pytest.raises(ProbeError, match=r"attribute shift changed .* before the call, or after the step"):
        optimizer.step(loss=losses)


def test_masks_of_layers_and_random_numbers_of_torch_are_no_memory():
    model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), Does(a_map).requires_grad_(), nn.Linear(3, 3))
    model[2].linear = nn.Linear(8, 3)
    assert steps(model).steps == 3


def moved_before_the_first_pass(model, step):
    model.mean.copy_(X.mean(0)[:3])
    step()


def moved_after_the_last_pass(model, step):
    step()
    model.mean.copy_(X.mean(0)[:3])


def moved_between_a_pass_and_an_evaluation(model, step):
    losses_of(model, X, Y)
    model.mean.copy_(X.mean(0)[:3])
    with torch.no_grad():
        model(X)
    step()


@pytest.mark.parametrize(
    "move",
    [moved_before_the_first_pass, moved_after_the_last_pass, moved_between_a_pass_and_an_evaluation],
)
def test_buffers_are_watched_from_attach_to_the_line(move):
    model, optimizer, engine = attached(with_buffer(lambda m, x: m.mean))
    assert "buffers" not in str(engine.get_privacy_spent())
    move_ = torch.enable_grad()(lambda: optimizer.step(loss=losses_of(model, X, Y)))
    with torch.no_grad():
        move(model, move_)
    assert "buffers" in [one.name for one in engine.get_privacy_spent().assumed]
    assert "buffers" in engine.state_dict()["unseen"]


def test_tables_that_passes_make_are_no_buffers_that_were_written():
    def table(m, x):
        m.temporary = torch.arange(3.0) + len(x)

    model = Does(table)
    model.register_buffer("temporary", torch.zeros(3), persistent=False)
    model, optimizer, engine = attached(model)
    optimizer.step(loss=losses_of(model, X, Y))
    with torch.no_grad():
        model(X[:5])
    engine.get_privacy_spent()
    losses = losses_of(model, X, Y)
    engine.get_privacy_spent()
    with torch.no_grad():
        model(X[:5])
    optimizer.step(loss=losses)
    assert "buffers" not in [one.name for one in engine.get_privacy_spent().assumed]


def test_what_a_pass_without_a_step_kept_does_not_come_back_with_an_evaluation_s():
    model, optimizer, _ = attached(Does(a_map))
    for _ in range(2):
        losses = losses_of(model, X, Y)
        with torch.no_grad():
            model(X)
        losses_of(model, X, Y)
        losses = losses_of(model, X, Y)
        with torch.no_grad():
            model(X)
        optimizer.step(loss=losses)
        assert held(model) == set()
