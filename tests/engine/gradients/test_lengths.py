import pytest
import torch

from fl_dp.engine.gradients.lengths import squared_lengths, wide_type


@pytest.mark.parametrize("numbers", [0, 1, 1023, 1024, 1025, 5000])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_a_squared_length_is_the_sum_of_squares(numbers: int, dtype: torch.dtype) -> None:
    grads = torch.randn(3, numbers).to(dtype)
    found = squared_lengths(grads)
    assert found.dtype == wide_type(dtype)
    torch.testing.assert_close(found.double(), grads.double().square().sum(1), rtol=1e-5, atol=0)


def test_many_equal_numbers_are_all_counted() -> None:
    """One after the other in float32, the squares would end at the sum that one of them no longer changes."""
    grads = torch.full((1, 1), 0.5).expand(1, 2**28)
    assert squared_lengths(grads).item() == 2**26


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_what_is_not_finite_reaches_no_other_example(broken: float) -> None:
    grads = torch.ones(3, 2000)
    grads[1, 1500] = broken
    assert squared_lengths(grads).isfinite().tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
        (torch.complex64, torch.complex64),
    ],
)
def test_wide_types(narrow: torch.dtype, wide: torch.dtype) -> None:
    assert wide_type(narrow) == wide
