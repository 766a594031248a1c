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

# (3, t, c) with the strides that views of activations and output gradients have.
VIEWS = {
    "transposed": lambda t, c: torch.randn(3, c, t).transpose(1, 2),
    "strided": lambda t, c: torch.randn(t, 3, 2 * c)[:, :, ::2].transpose(0, 1),
    "expanded": lambda t, c: torch.randn(3, 1, c).expand(3, t, c),
}

CODE = """
import sys, torch
from fl_dp.engine.gradients.gram_triton import gram_product_triton
pairs = torch.load(sys.argv[1])
torch.save({key: gram_product_triton(*pair)[0] for key, pair in pairs.items()}, sys.argv[2])
"""


def _pair(t, p, d, n=3):
    return torch.randn(n, t, p), torch.randn(n, t, d)


@pytest.fixture(scope="module")
def pairs():
    torch.manual_seed(0)
    made = {
        (*shape, dtype): tuple(x.to(dtype) for x in _pair(*shape)) for shape in SHAPES for dtype in DTYPES
    }
    made |= {kind: (view(70, 5), view(70, 3)) for kind, view in VIEWS.items()}
    for poison in ("nan", "inf"):
        made[poison] = _pair(70, 5, 3)
        made[poison][0][1, 66, 2] = float(poison)
    left, right = _pair(35, 40, 9)
    made["cancelling"] = (torch.cat([left, -1.001 * left], 1), torch.cat([right, right], 1))
    left, right = _pair(20, 5, 3)
    return made | {"mixed types": (left.half(), right), "empty": _pair(6, 5, 3, n=0)}


@pytest.fixture(scope="module")
def found(pairs, tmp_path_factory):
    """All results at once: a process takes seconds to start."""
    if GPU:
        from fl_dp.engine.gradients.gram_triton import gram_product_triton

        return {key: gram_product_triton(*(x.cuda() for x in pair))[0].cpu() for key, pair in pairs.items()}
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


ORDINARY = [*((*shape, dtype) for shape in SHAPES for dtype in DTYPES), *VIEWS, "mixed types", "empty"]


@pytest.mark.parametrize("case", ORDINARY, ids=str)
def test_equals_the_definition_and_is_rounded_up(found, pairs, case):
    exact = _exact(pairs[case])
    assert found[case].dtype == torch.float32
    assert (found[case] >= exact).all()
    torch.testing.assert_close(found[case].double(), exact, rtol=2e-2, atol=0)


def test_is_rounded_up_where_terms_cancel_as_without_triton(found, pairs):
    assert (found["cancelling"] >= _exact(pairs["cancelling"])).all()
    torch.testing.assert_close(found["cancelling"], gram_product(*pairs["cancelling"])[0], rtol=0.5, atol=0)


@pytest.mark.parametrize("poison", ["nan", "inf"])
def test_values_that_are_not_finite_stay_with_their_example(found, pairs, poison):
    assert found[poison].isfinite().tolist() == [True, False, True]
    exact = _exact(pairs[poison])
    torch.testing.assert_close(found[poison][[0, 2]].double(), exact[[0, 2]], rtol=1e-2, atol=0)
