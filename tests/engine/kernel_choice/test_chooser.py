"""The choice of kernels: by formula where it is clear, measured once where not, or fixed by hand."""

import time
from types import SimpleNamespace

import pytest
import torch
from definition import trainable
from torch import nn

from fl_dp.engine.clipping import clipped_grad_sum
from fl_dp.engine.gradients.convolution import Conv, Geometry
from fl_dp.engine.gradients.kept import Kept
from fl_dp.engine.gradients.layouts import Dense
from fl_dp.engine.gradients.outer_products import Outer
from fl_dp.engine.gradients.table_rows import Rows
from fl_dp.engine.kernel_choice import chooser as choosing
from fl_dp.engine.kernel_choice.chooser import KernelChooser, clock_for
from fl_dp.engine.kernel_choice.table import kernel_table
from fl_dp.engine.sum_error import Additions
from fl_dp.errors import ConfigError

GEOMETRY = Geometry((3, 3), (1, 1), (1, 1), (1, 1), 1)


def _outer(T, p, d, n=8):  # noqa: N803
    return Outer(torch.randn(n, T, p), torch.randn(n, T, d))


def _conv(n=8):
    """2 T^2 / (p d) = 1.8"""
    return Conv(torch.randn(n, 8, 4, 4), torch.randn(n, 4, 4, 4), 1, GEOMETRY)


def _kernel(layout, *, mode="mixed", **fixed):
    chooser = KernelChooser(mode, fixed=fixed)
    chooser.keep("w", layout)
    return chooser.kernels["w"]


def _refuse_to_measure(*_):
    raise AssertionError("measured")


class _Scripted(Outer):
    """A layout whose kernels take and keep what a test says: kernel -> (seconds, numbers an example)."""

    kernels = ("ghost", "ghost-other", "instantiate", "instantiate-other")
    clock = 0.0
    costs: dict[str, tuple[float, int]]

    def first(self, num_examples):
        return self

    def keep(self, kernel):
        seconds, numbers = self.costs[kernel]
        type(self).clock += seconds
        return Kept(torch.ones(8), (torch.zeros(8, numbers),), lambda factors, part: part)


@pytest.fixture
def scripted(monkeypatch):
    monkeypatch.setattr(choosing, "clock_for", lambda _device: lambda: _Scripted.clock)
    return _Scripted(torch.zeros(8, 8, 8), torch.zeros(8, 8, 16))


def test_the_formula_decides_clear_cases_without_measuring(monkeypatch):
    monkeypatch.setattr(choosing, "_trial", _refuse_to_measure)
    assert _kernel(_outer(T=2, p=64, d=64)) == "ghost"
    assert _kernel(_outer(T=64, p=2, d=2)) == "instantiate"
    assert _kernel(Dense(torch.randn(2, 3))) == "instantiate"
    few, many = torch.zeros(9, 3, dtype=torch.int64), torch.zeros(9, 40, dtype=torch.int64)
    assert _kernel(Rows(few, torch.randn(9, 3, 60), 1000)) == "ghost"  # 2 T^2 / (V d) of a large table
    assert _kernel(Rows(many, torch.randn(9, 40, 2), 10)) == "instantiate"


@pytest.mark.parametrize("groups", [1, 4])
def test_the_ratio_is_of_gram_matrices_to_gradients(groups):
    """2 T^2 numbers over p d; with groups a pair of Gram matrices for each."""
    outer, rows = _outer(T=3, p=5, d=7), Rows(torch.zeros(9, 3, dtype=torch.int64), torch.zeros(9, 3, 7), 11)
    # two images of 5 output positions an example; 8 output and 4 input channels, 3 elements
    conv = Conv(torch.zeros(6, 8, 5), torch.zeros(6, 4, 7), 2, Geometry((3,), (1,), (0,), (1,), groups))
    expected = [2 * 9 / 35, 2 * 9 / 77, 2 * groups * 100 / (96 / groups)]
    assert [layout.ghost_ratio for layout in (outer, rows, conv)] == pytest.approx(expected)


def test_close_cases_are_measured_once_a_signature_and_told_for_every_layer(monkeypatch):
    chooser = KernelChooser()
    chooser.keep("a", _outer(T=8, p=8, d=16))
    monkeypatch.setattr(choosing, "_trial", _refuse_to_measure)
    for n in (11, 2):  # Poisson batches differ in size
        chooser.keep("b", _outer(T=8, p=8, d=16, n=n))
    a, b = chooser.rows
    assert (a.parameter, b.parameter) == ("a", "b")
    assert a.kernel == b.kernel
    assert a.decided == b.decided == "measured"
    assert a.seconds.keys() == {"ghost", "instantiate"}
    for T in (1, 8):  # rows are of the latest batch, also where its kind was met before
        chooser.keep("a", _outer(T=T, p=8, d=16))
        assert chooser.rows[0].T == T


def test_the_formula_decides_close_cases_too_for_who_must_choose_as_others_do(monkeypatch):
    monkeypatch.setattr(choosing, "_trial", _refuse_to_measure)
    chooser = KernelChooser(measures=False)
    for name, positions, kernel in (("few", 4, "ghost"), ("many", 6, "instantiate")):
        layout = _outer(positions, 6, 6, n=10_000)
        chooser.keep(name, layout)
        assert chooser.kernels[name].startswith(kernel)


@pytest.mark.parametrize(("T", "kernel"), [(7, "ghost"), (9, "instantiate")])
def test_the_formula_decides_close_cases_of_few_examples(T, kernel, monkeypatch):  # noqa: N803
    monkeypatch.setattr(choosing, "_trial", _refuse_to_measure)
    assert _kernel(_outer(T=T, p=8, d=16, n=3)) == kernel


@pytest.mark.parametrize("mode", ["ghost", "instantiate"])
def test_a_mode_is_obeyed(mode):
    assert _kernel(_outer(T=64, p=2, d=2), mode=mode).startswith(mode)
    assert _kernel(_outer(T=1, p=64, d=64), mode=mode).startswith(mode)
    assert _kernel(_conv(), mode=mode).startswith(mode)


@pytest.mark.parametrize(
    ("costs", "expected"),
    [
        (
            [(1.0, 9), (9.0, 9), (1.5, 4), (2.0, 1)],
            "instantiate",
        ),  # the lightest of those that are fast enough
        ([(1.0, 9), (9.0, 9), (1.7, 4), (2.0, 1)], "ghost"),  # too slow, however little it keeps
        ([(1.4, 4), (1.2, 4), (1.0, 9), (1.1, 9)], "ghost-other"),  # of those that keep as little the faster
        ([(1.0, 4), (1.2, 4), (1.0, 9), (1.1, 9)], "ghost"),
    ],
)
def test_of_the_fast_kernels_the_one_that_keeps_least_is_chosen(scripted, costs, expected, monkeypatch):
    monkeypatch.setattr(choosing, "LITTLE_BYTES", 0)
    type(scripted).costs = dict(zip(_Scripted.kernels, costs, strict=True))
    chooser = KernelChooser()
    chooser.keep("w", scripted)
    (row,) = chooser.rows
    assert row.kernel == expected
    assert row.kept_bytes == 4 * scripted.costs[expected][1]
    assert row.seconds == pytest.approx({kernel: seconds for kernel, (seconds, _) in scripted.costs.items()})


def test_what_is_clear_by_memory_is_measured_where_memory_does_not_matter(monkeypatch):
    tried = []
    monkeypatch.setattr(
        choosing, "_trial", lambda _, kernel, ordered: tried.append(kernel) or choosing._Trial(1.0, 1)
    )
    _kernel(_outer(T=4, p=16, d=16))  # 2 T^2 / (p d) = 1/8
    assert tried[:4] == ["ghost", "instantiate"] * 2  # in turns
    monkeypatch.setattr(choosing, "_trial", _refuse_to_measure)
    assert _kernel(_outer(T=4, p=16, d=16, n=2**11 + 1)) == "ghost"  # more than 2 MiB
    assert _kernel(_outer(T=1, p=4, d=8)) == "ghost"  # one position


def test_of_little_the_fastest_is_chosen_and_not_taken_over_where_memory_matters(scripted, monkeypatch):
    type(scripted).costs = dict(zip(_Scripted.kernels, [(1.1, 1), (1.2, 2), (1.0, 9), (1.3, 2)], strict=True))
    chooser = KernelChooser()
    chooser.keep("w", scripted)
    assert chooser.kernels["w"] == "instantiate"
    monkeypatch.setattr(choosing, "LITTLE_BYTES", 0)
    chooser.keep("w", scripted)
    assert chooser.kernels["w"] == "ghost"


@pytest.mark.parametrize("kernel", _conv().kernels)
def test_a_kernel_is_fixed_by_parameter_whatever_the_mode(kernel, monkeypatch):
    monkeypatch.setattr(choosing, "_trial", _refuse_to_measure)
    for mode in ("mixed", "ghost", "instantiate"):
        assert _kernel(_conv(), mode=mode, w=kernel) == kernel


@pytest.mark.parametrize("family", ["ghost", "instantiate"])
def test_a_fixed_family_means_the_best_of_it(family):
    chooser = KernelChooser(fixed={"a": family})
    chooser.keep("a", _conv())
    chooser.keep("b", _conv())
    a, b = chooser.rows
    assert a.kernel.startswith(family)
    of_it = {kernel for kernel in _conv().kernels if kernel.startswith(family)}
    assert (a.seconds or {a.kernel: 0.0}).keys() == of_it  # the only one is not measured
    assert b.seconds.keys() == set(_conv().kernels)


@pytest.mark.parametrize("asked", ["ghost-row", "instantiate-patches", "", "fast"])
def test_a_kernel_that_the_layout_lacks_is_refused_by_name(asked):
    with pytest.raises(ConfigError, match=rf"layer\.weight has no kernel '{asked}'.* ghost, instantiate; "):
        KernelChooser(fixed={"layer.weight": asked}).keep("layer.weight", _outer(T=4, p=2, d=3))
    with pytest.raises(ConfigError, match=r"layer\.bias has no kernel 'ghost'"):
        KernelChooser(fixed={"layer.bias": "ghost"}).keep("layer.bias", Dense(torch.randn(2, 3)))


def _sum(model, chooser):
    losses = model(torch.randn(8, 2, 6, 6, generator=torch.Generator().manual_seed(0))).square().sum(1)
    return clipped_grad_sum(losses, trainable(model), max_grad_norm=0.5, chooser=chooser)


def test_kernels_of_one_chooser_fix_those_of_another_and_nothing_is_measured(monkeypatch):
    convolutions = nn.Conv2d(2, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, 8, 3, groups=2)
    model, first = nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(128, 3)), KernelChooser()
    clipped = _sum(model, first)
    monkeypatch.setattr(choosing, "_trial", _refuse_to_measure)
    second = KernelChooser(fixed=first.kernels)
    again = _sum(model, second)
    assert second.kernels == first.kernels
    assert second.kernels.keys() == trainable(model).keys()
    assert {row.decided for row in second.rows} == {"fixed"}
    assert all(torch.equal(again.grads[name], grad) for name, grad in clipped.grads.items())


LAYOUTS = {
    "dense": (Dense(torch.randn(8, 5)), ("dense", 1, 5, 1)),
    "a vector": (Dense(torch.randn(8)), ("dense", 1, 1, 1)),
    "outer": (_outer(T=7, p=5, d=3), ("outer", 7, 5, 3)),
    "rows": (Rows(torch.randint(9, (8, 6)), torch.randn(8, 6, 4), 50), ("rows", 6, 50, 4)),
    "conv": (_conv(), ("conv", 16, 8, 36)),
    "two images": (
        Conv(torch.randn(16, 8, 4, 4), torch.randn(16, 4, 4, 4), 2, GEOMETRY),
        ("conv", 32, 8, 36),
    ),
}


@pytest.mark.parametrize("case", LAYOUTS)
def test_a_row_tells_the_sizes_and_the_first_examples_of_a_layout_are_its_first_gradients(case):
    layout, expected = LAYOUTS[case]
    chooser, few = KernelChooser(), layout.first(2)
    chooser.keep("w", layout)
    (row,) = chooser.rows
    assert (row.layout, row.T, row.p, row.d) == expected
    assert row.p * row.d == layout.shape.numel()
    parts = layout.keep(row.kernel).parts
    assert row.kept_bytes * 8 == sum(part.numel() * part.element_size() for part in parts)
    assert (few.num_examples, few.signature) == (2, layout.signature)
    torch.testing.assert_close(few.instantiate(), layout.instantiate()[:2])


def test_the_table_tells_nothing_about_how_many_examples_there_are(monkeypatch):
    """Sizes of Poisson batches are raw data."""
    tables = []
    for n in (3, 5):
        chooser = KernelChooser()
        chooser.keep("w", _outer(T=4, p=3, d=4, n=n))
        tables.append(kernel_table(chooser.rows))
    assert tables[0] == tables[1]


def _strided(spatial):
    """More channels than the numbers that are squared at a time, in the largest."""
    size, two, none, one = (4, 2, 2)[:spatial], *((number,) * spatial for number in (2, 0, 1))
    x = torch.randn(3, 70, *(8, 5, 4)[:spatial])
    output = tuple((a - b) // 2 + 1 for a, b in zip(x.shape[2:], size, strict=True))
    return torch.randn(3, 5, *output), x, 1, Geometry(size, two, none, one, 1)


def _two_images(output, *geometry):
    return torch.randn(6, 6, *output), torch.randn(7, 4, 7, 8)[1:], 2, Geometry(*geometry)


CONVOLUTIONS = [
    _two_images((4, 6), (3, 2), (2, 1), (1, 0), (1, 2), 2),
    _two_images((3, 6), (3, 2), (2, 1), (0, 0), (1, 2), 2),
    _two_images((4, 4), (1, 1), (2, 2), (0, 0), (1, 1), 1),
    _two_images((3, 6), (4, 2), (2, 1), (1, 0), (1, 2), 2),  # rows of two phases side by side
    _two_images((4, 7), (2, 2), (2, 1), (1, 0), (2, 1), 1),  # rows of one phase, none left over
    *map(_strided, (1, 2, 3)),
]


@pytest.mark.parametrize("case", CONVOLUTIONS)
@pytest.mark.parametrize("channels_last", [False, True])
def test_all_kernels_of_a_convolution_give_what_its_gradients_give(case, channels_last):
    left, x, images, geometry = case
    if channels_last:  # which in four dimensions is a format of memory
        left, x = (part.movedim(1, -1).contiguous().movedim(-1, 1) for part in (left, x))
    layout, factors = (
        Conv(left.double(), x.double(), images, geometry),
        torch.tensor([0.5, 0.0, 2.0]).double(),
    )
    grads = layout.instantiate()
    for kernel in layout.kernels:
        kept = layout.keep(kernel)
        torch.testing.assert_close(kept.norm_squared, grads.flatten(1).square().sum(1), rtol=1e-6, atol=0)
        for counted in ([0, 1, 2], [0, 2], [1]):
            left_out = torch.tensor([n not in counted for n in range(3)])
            for rows in (1, 2, 3):
                found = kept.weighted_sum(factors + 1, Additions(rows, wide=False), left_out=left_out)
                torch.testing.assert_close(found, sum((factors[n] + 1) * grads[n] for n in counted))


def test_kernels_are_tried_on_a_part_of_the_batch_unless_it_is_little(monkeypatch):
    """What all of them need together would be the peak of the whole training."""
    sizes = []

    def trial(layout, _, ordered):
        sizes.append(layout.num_examples)
        return choosing._Trial(1.0, 1)

    monkeypatch.setattr(choosing, "_trial", trial)
    _kernel(_outer(T=8, p=8, d=16, n=20))
    assert set(sizes) == {20}
    sizes.clear()
    monkeypatch.setattr(choosing, "LITTLE_BYTES", 0)
    for n in (8, 20, 64):
        _kernel(_outer(T=8, p=8, d=16, n=n))
    assert set(sizes) == {8, 16}


@pytest.mark.parametrize(
    ("device", "threads", "resolution", "clock"),
    [
        ("cpu", 1, 1e-9, time.thread_time),  # without what other processes take
        ("cpu", 2, 1e-9, time.perf_counter),
        ("cuda", 1, 1e-9, time.perf_counter),
        ("cpu", 1, 0.0156, time.perf_counter),  # as coarse as that of Windows
    ],
)
def test_the_clock(device, threads, resolution, clock, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(time, "get_clock_info", lambda _: SimpleNamespace(resolution=resolution))
    assert clock_for(torch.device(device)) is clock
