"""The Triton kernel equals the definition: on a GPU where there is one, else in Triton's interpreter.

The interpreter must be asked for before triton is first imported, hence the process of its own. It
does not know bfloat16; that is left to GPUs.
"""

import os
import subprocess
import sys

import pytest
import torch

from fl_dp.engine.gradients.gram import gram_product

pytest.importorskip("triton")

GPU = torch.cuda.is_available()
DTYPES = [torch.float32, torch.float16, *([torch.bfloat16] if GPU else [])]
SHAPES = [(1, 3, 17), (5, 1, 1), (33, 17, 200), (130, 64, 3), (64, 3, 64)]  # T, p, d
VIEWS = ("plain", "transposed", "strided", "expanded")

CODE = """
import sys, torch
from fl_dp.engine.gradients.gram_triton import gram_product_triton
pairs = torch.load(sys.argv[1])
torch.save({key: gram_product_triton(*pair) for key, pair in pairs.items()}, sys.argv[2])
"""


def _view(kind, T, c):  # noqa: N803
    """(3, T, c) with the strides that views of activations and output gradients have."""
    if kind == "transposed":
        return torch.randn(3, c, T).transpose(1, 2)
    if kind == "strided":
        return torch.randn(T, 3, 2 * c)[:, :, ::2].transpose(0, 1)
    if kind == "expanded":
        return torch.randn(3, 1, c).expand(3, T, c)
    return torch.randn(3, T, c)


def _pairs():
    torch.manual_seed(0)
    shapes = {
        (shape, dtype): (
            torch.randn(3, shape[0], shape[1]).to(dtype),
            torch.randn(3, shape[0], shape[2]).to(dtype),
        )
        for shape in SHAPES
        for dtype in DTYPES
    }
    views = {kind: (_view(kind, 70, 5), _view(kind, 70, 3)) for kind in VIEWS}
    poisoned = {poison: (_view("plain", 70, 5), _view("plain", 70, 3)) for poison in ("nan", "inf")}
    for poison, (left, _) in poisoned.items():
        left[1, 66, 2] = float(poison)
    empty = {"empty": (torch.randn(0, 6, 5), torch.randn(0, 6, 3))}
    torch.manual_seed(0)
    left, right = torch.randn(3, 35, 40), torch.randn(3, 35, 9)
    cancelling = {"cancelling": (torch.cat([left, -1.001 * left], 1), torch.cat([right, right], 1))}
    mixed = {"mixed types": (_view("plain", 20, 5).half(), _view("plain", 20, 3))}
    return {**shapes, **views, **poisoned, **empty, **cancelling, **mixed}


@pytest.fixture(scope="module")
def pairs():
    return _pairs()


@pytest.fixture(scope="module")
def found(pairs, tmp_path_factory):
    """All results at once: a process takes seconds to start."""
    if GPU:
        from fl_dp.engine.gradients.gram_triton import gram_product_triton

        return {key: gram_product_triton(*(x.cuda() for x in pair)).cpu() for key, pair in pairs.items()}
    folder = tmp_path_factory.mktemp("triton")
    torch.save(pairs, folder / "pairs")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    command = [sys.executable, "-c", CODE, str(folder / "pairs"), str(folder / "found")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return torch.load(folder / "found")


def _exact(pair):
    left, right = (x.double() for x in pair)
    return torch.bmm(left.transpose(1, 2), right).square().sum((1, 2))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_equals_the_definition(found, pairs, shape, dtype):
    exact = _exact(pairs[shape, dtype])
    assert found[shape, dtype].dtype == torch.float32
    assert (found[shape, dtype] >= exact).all()
    torch.testing.assert_close(found[shape, dtype].double(), exact, rtol=2e-2, atol=0)


@pytest.mark.parametrize("kind", [*VIEWS, "mixed types"])
def test_views_of_any_strides_and_pairs_of_types(found, pairs, kind):
    torch.testing.assert_close(found[kind].double(), _exact(pairs[kind]), rtol=1e-2, atol=0)


def test_no_examples_give_no_norms(found):
    assert found["empty"].shape == (0,)


def test_is_rounded_up_where_terms_cancel_as_without_triton(found, pairs):
    assert (found["cancelling"] >= _exact(pairs["cancelling"])).all()
    torch.testing.assert_close(found["cancelling"], gram_product(*pairs["cancelling"]), rtol=0.5, atol=0)


@pytest.mark.parametrize("poison", ["nan", "inf"])
def test_values_that_are_not_finite_stay_with_their_example(found, pairs, poison):
    assert found[poison].isfinite().tolist() == [True, False, True]
    exact = _exact(pairs[poison])
    torch.testing.assert_close(found[poison][[0, 2]].double(), exact[[0, 2]], rtol=1e-2, atol=0)
