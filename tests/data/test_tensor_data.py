import hashlib

import pytest
import torch

from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import DataError

TWO = ("a", "b")


def images(n: int = 3) -> TensorData:
    x = torch.arange(n * 4, dtype=torch.uint8).reshape(n, 1, 2, 2)
    return TensorData(x, torch.arange(n) % 2, TWO)


def test_images_are_scaled_by_constants() -> None:
    x = torch.tensor([0, 51, 204, 255], dtype=torch.uint8).reshape(1, 1, 2, 2)
    inputs, labels = TensorData(x, torch.tensor([1]), TWO).batch(torch.tensor([0, 0]))
    torch.testing.assert_close(
        inputs, torch.tensor([-1, -0.6, 0.6, 1]).reshape(1, 1, 2, 2).repeat(2, 1, 1, 1)
    )
    assert inputs.dtype == torch.float32
    assert labels.tolist() == [1, 1]


def test_a_batch_does_not_change_the_data() -> None:
    for data in (images(), TensorData(torch.ones(2, 3), torch.zeros(2, dtype=torch.int64), TWO)):
        before = data.fingerprint()
        data.batch(torch.tensor([0, 1]))[0].zero_()
        assert data.fingerprint() == before


def test_features_pass_as_they_are() -> None:
    x = torch.randn(4, 5)
    inputs, _ = TensorData(x, torch.zeros(4, dtype=torch.int64), TWO).batch(torch.tensor([2, 0]))
    assert torch.equal(inputs, x[[2, 0]])


def test_an_empty_poisson_draw_is_an_empty_batch() -> None:
    inputs, labels = images().batch(torch.empty(0, dtype=torch.int64))
    assert inputs.shape == (0, 1, 2, 2)
    assert labels.shape == (0,)


def test_length_and_shapes() -> None:
    data = images(3)
    assert (len(data), data.input_shape, data.num_classes) == (3, (1, 2, 2), 2)


def test_a_subset_keeps_the_classes_and_the_order_asked_for() -> None:
    part = images(3).subset(torch.tensor([2, 0]))
    assert part.classes == TWO
    assert torch.equal(part.x, images(3).x[[2, 0]])
    assert part.y.tolist() == [0, 0]


def test_fingerprint_is_the_sha256_of_dtype_shape_and_contents() -> None:
    content = b"torch.uint8 (1, 1, 2, 2)\n" + bytes((0, 1, 2, 3)) + b"torch.int64 (1,)\n" + bytes(8)
    assert images(1).fingerprint() == hashlib.sha256(content).hexdigest()


def test_fingerprint_does_not_depend_on_chunks_or_strides(monkeypatch: pytest.MonkeyPatch) -> None:
    data = images(7)
    strided = TensorData(data.x.transpose(2, 3).contiguous().transpose(2, 3), data.y, TWO)
    whole = data.fingerprint()
    monkeypatch.setattr("fl_dp.data.tensor_data._ROWS_PER_CHUNK", 2)
    assert data.fingerprint() == strided.fingerprint() == whole


def test_fingerprint_sees_one_bit_one_label_and_the_shape() -> None:
    data = images(3)
    x, y = data.x.clone(), data.y.clone()
    x[2, 0, 1, 1] ^= 1
    y[0] = 1
    others = (
        TensorData(x, data.y, TWO),
        TensorData(data.x, y, TWO),
        TensorData(data.x.mT.reshape(3, 1, 1, 4), data.y, TWO),
    )
    assert len({other.fingerprint() for other in (data, *others)}) == 4


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (torch.zeros(2, 4, dtype=torch.float64), [0, 1], "float32 features"),
        (torch.zeros(2, 1, 2, 2), [0, 1], "uint8 images"),
        (torch.zeros(2, 2, 2, dtype=torch.uint8), [0, 1], "uint8 images"),
        (torch.zeros(2, 4), [0], "each of 2 examples"),
        (torch.zeros(2, 4), [0.0, 1.0], "int64 label"),
        (torch.zeros(0, 4), [], "at least one example"),
        (torch.zeros(2, 4), [0, 2], "label in 0 to 1"),
        (torch.zeros(2, 4), [-1, 0], "label in 0 to 1"),
        (torch.tensor([[float("nan")]]), [0], "finite"),
        (torch.tensor([[float("inf")]]), [0], "finite"),
    ],
)
def test_what_does_not_fit_together_is_refused(x: torch.Tensor, y: list[int], words: str) -> None:
    labels = torch.tensor(y) if y else torch.zeros(0, dtype=torch.int64)
    with pytest.raises(DataError, match=words):
        TensorData(x, labels, TWO)
