import hashlib
import time
from typing import Any

import numpy as np
import pytest
import torch

from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import DataError
from fl_dp.form import Form

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


def test_batches_are_rows_in_the_order_asked_for() -> None:
    x = torch.randn(4, 5)
    inputs, _ = TensorData(x, torch.zeros(4, dtype=torch.int64), TWO).batch(torch.tensor([2, 0]))
    assert torch.equal(inputs, x[[2, 0]])
    inputs, labels = images().batch(torch.empty(0, dtype=torch.int64))  # of an empty Poisson draw
    assert (inputs.shape, labels.shape) == ((0, 1, 2, 2), (0,))


def test_a_subset_keeps_the_classes_and_the_order_asked_for() -> None:
    part = images(3).subset(torch.tensor([2, 0]))
    assert (len(part), part.form.input_shape, part.classes) == (2, (1, 2, 2), TWO)
    assert torch.equal(part.x, images(3).x[[2, 0]])
    assert part.y.tolist() == [0, 0]


def test_fingerprint_is_the_sha256_of_dtype_shape_and_sorted_records() -> None:
    records = [bytes(8) + bytes((0, 1, 2, 3)), (1).to_bytes(8, "little") + bytes((4, 5, 6, 7))]
    digests = sorted(hashlib.sha256(record).digest() for record in records)
    assert images(2).record_digests() == digests
    content = b"torch.uint8 (2, 1, 2, 2) torch.int64\n" + b"".join(digests)
    assert images(2).fingerprint() == hashlib.sha256(content).hexdigest()


def test_fingerprint_does_not_depend_on_chunks_strides_or_order(monkeypatch: pytest.MonkeyPatch) -> None:
    data = images(7)
    strided = TensorData(data.x.transpose(2, 3).contiguous().transpose(2, 3), data.y, TWO)
    shuffled = data.subset(torch.tensor([3, 6, 0, 2, 5, 1, 4]))
    whole = data.fingerprint()
    monkeypatch.setattr("fl_dp.data.tensor_data._RECORDS_PER_CHUNK", 2)
    assert data.fingerprint() == strided.fingerprint() == shuffled.fingerprint() == whole


def test_sixty_thousand_images_are_fingerprinted_in_less_than_half_a_second() -> None:
    x = torch.randint(0, 256, (60_000, 1, 28, 28), dtype=torch.uint8)
    data = TensorData(x, torch.zeros(60_000, dtype=torch.int64), TWO)
    started = time.process_time()
    data.fingerprint()
    assert time.process_time() - started < 0.5  # 0.09 s was measured on one core


def test_fingerprint_sees_one_bit_one_label_the_shape_and_each_record() -> None:
    data = images(3)
    x, y = data.x.clone(), data.y.clone()
    x[2, 0, 1, 1] ^= 1
    y[0] = 1
    without, twice = data.subset(torch.arange(2)), data.subset(torch.tensor([0, 1, 2, 2]))
    others = (
        TensorData(x, data.y, TWO),
        TensorData(data.x, y, TWO),
        TensorData(data.x, data.y.roll(1), TWO),  # the same labels of other records
        TensorData(data.x.mT.reshape(3, 1, 1, 4), data.y, TWO),
        without,
        twice,
    )
    assert len({other.fingerprint() for other in (data, *others)}) == 7
    assert set(without.record_digests()) < set(data.record_digests()) == set(twice.record_digests())


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (torch.zeros(2, 4, dtype=torch.float64), [0, 1], r"float32 features.*Write x\.float\(\)"),
        (torch.zeros(2), [0, 1], "float32 features"),
        (torch.zeros(2, 2, 2, dtype=torch.uint8), [0, 1], "uint8 images"),
        (torch.zeros(2, 4), [0], "each of 2 examples"),
        (torch.zeros(2, 4), [0.0, 1.0], "or none, not 2: the labels are floats.* use integers"),
        (torch.zeros(2, 3, dtype=torch.int64), [0, 1], "vocabulary = 0"),
        (torch.zeros(0, 4), [], "at least one example"),
        (torch.zeros(2, 4), [0, 2], "label in 0 to 1"),
        (torch.zeros(2, 4), [-1, 0], "label in 0 to 1"),
        (torch.tensor([[float("nan")]]), [0], "finite"),
        (torch.tensor([[float("inf")]]), [0], "finite"),
        (torch.zeros(2, 4), [[0, 1], [1, 0]], r"not torch.int64 of shape \(2, 2\).*y\.argmax\(1\).*y\.float"),
        (torch.zeros(2, 4), [[0.5, 1.0, 0.0]], r"not torch.float32 of shape \(1, 3\)\.$"),
        (torch.zeros(2, 4), [[True, False]] * 2, r"shape \(2, 2\)\. Convert one-hot"),
    ],
)
def test_what_does_not_fit_together_is_refused(x: torch.Tensor, y: list[int], words: str) -> None:
    labels = torch.tensor(y) if y else torch.zeros(0, dtype=torch.int64)
    with pytest.raises(DataError, match=words):
        TensorData(x, labels, TWO)


def test_a_number_of_classes_is_refused_by_name() -> None:
    with pytest.raises(DataError, match="classes = 10: expected a name for each"):
        TensorData(torch.zeros(2, 4), torch.tensor([0, 1]), 10)  # type: ignore[arg-type]


def test_what_a_notebook_shows_of_data_holds_no_record() -> None:
    data = TensorData(torch.tensor([[0.125], [0.375]]), torch.tensor([0, 1]), TWO)
    assert repr(data) == "TensorData(2 records, numbers of shape (1,) to 2 classes)"


@pytest.mark.parametrize("shape", [(2, 32, 32, 3), (2, 28, 28, 1), (2, 5, 64, 4)])
@pytest.mark.parametrize("make", [torch.zeros, np.zeros, lambda shape: torch.zeros(shape, dtype=torch.uint8)])
def test_channels_last_are_refused_with_the_transposition(shape: tuple[int, ...], make: Any) -> None:
    """They would be trained as images of 32 channels."""
    x = make(shape)
    with pytest.raises(DataError, match=r"channels first.*transpose\(0, 3, 1, 2\).*permute\(0, 3, 1, 2\)"):
        TensorData(x, torch.tensor([0, 1]), TWO)
    first = torch.as_tensor(x).permute(0, 3, 1, 2)
    first = first if first.dtype == torch.uint8 else first.float()
    assert TensorData(first, torch.tensor([0, 1]), TWO).form.input_shape == (shape[3], *shape[1:3])


@pytest.mark.parametrize("shape", [(2, 3, 32, 3), (2, 3, 4, 4), (2, 22, 16, 16), (2, 8, 8, 2), (2, 9, 3)])
def test_other_numbers_are_no_images_with_channels_last(shape: tuple[int, ...]) -> None:
    assert TensorData(torch.zeros(shape), torch.tensor([0, 1]), TWO).form.input_shape == shape[1:]


@pytest.mark.parametrize(
    "y", [[[0], [1]], torch.tensor([[0], [1]], dtype=torch.int16), [False, True], [[False], [True]]]
)
def test_labels_whose_meaning_is_certain_become_int64(y: Any) -> None:
    data = TensorData(torch.zeros(2, 4), torch.as_tensor(y), TWO)
    assert (data.y.tolist(), data.y.dtype) == ([0, 1], torch.int64)
    with pytest.raises(DataError, match=r"label in 0 to|not torch\.bool of shape"):
        TensorData(torch.zeros(2, 4), torch.as_tensor(y), TWO[:1])  # bools are of two classes


def test_next_tokens_of_one_place_stay_tokens() -> None:
    tokens = torch.tensor([[0], [1]])
    assert TensorData(tokens, tokens, TWO, vocabulary=2).form.targets == "tokens"


def test_arrays_are_refused_with_the_line_that_makes_tensors_of_them() -> None:
    x, y = torch.zeros(2, 4), torch.tensor([0, 1])
    for first, second, word in ((x.numpy(), y, "x"), (x, y.numpy(), "y"), (x, [0, 1], "y")):
        with pytest.raises(DataError, match=rf"{word}: expected a tensor.*torch\.as_tensor\({word}\)"):
            TensorData(first, second, TWO)  # type: ignore[arg-type]


def test_numbers_of_any_rank_and_numbers_as_targets() -> None:
    windows = TensorData(torch.zeros(4, 128, 6), torch.zeros(4), ())
    assert windows.form == Form((128, 6), 1, "numbers")
    assert TensorData(torch.zeros(4, 3), torch.zeros(4, 1), ("age",)).y.shape == (4,)  # losses see one shape
    several = TensorData(torch.zeros(4, 3), torch.zeros(4, 2), ("fever", "cough"))
    assert several.form == Form((3,), 2, "numbers")
    assert several.form.output_shape == (2,)
    for targets, words in (
        (torch.zeros(4, 0), "0 names of columns"),
        (torch.full((4,), torch.nan), "finite"),
    ):
        with pytest.raises(DataError, match=words):
            TensorData(torch.zeros(4, 3), targets, ())


def test_tokens_and_next_tokens() -> None:
    tokens = torch.tensor([[0, 4, 2], [1, 1, 3]])
    sentences = TensorData(tokens, torch.tensor([0, 1]), TWO, vocabulary=5)
    assert sentences.form == Form((3,), 2, "class", 5)
    assert sentences.batch(torch.tensor([1]))[0].dtype == torch.int64
    following = torch.tensor([[4, 2, -100], [1, 3, -100]])
    text = TensorData(tokens, following, tuple("abcde"), vocabulary=5)
    assert text.form == Form((3,), 5, "tokens", 5)
    assert text.form.output_shape == (3, 5)
    two = torch.tensor([0, 1])
    for x, y, classes, vocabulary, words in (
        (tokens, two, TWO, 4, "every token in 0 to 3"),
        (tokens, following, "abcd", 5, "every label in 0 to 3"),
        (torch.zeros(2, 3), two, TWO, 5, "vocabulary = 5"),
        (tokens, following[:, :2], "abcde", 5, "one int64 label for each of 2"),
    ):
        with pytest.raises(DataError, match=words):
            TensorData(x, y, tuple(classes), vocabulary=vocabulary)


def test_groups_and_raw_digests_follow_their_records() -> None:
    x, y = torch.arange(6.0).view(3, 2), torch.tensor([0, 1, 0])
    data = TensorData(x, y, TWO, groups=("ann", "bob", "ann"), raw=(b"1", b"2", b"3"))
    part = data.subset(torch.tensor([2, 0]))
    assert (part.groups, part.raw) == (("ann", "ann"), (b"3", b"1"))
    with pytest.raises(DataError, match="groups of 3 records, or none, not of 2"):
        TensorData(x, y, TWO, groups=("ann", "bob"))
    with pytest.raises(DataError, match="raw of 3 records, or none, not of 1"):
        TensorData(x, y, TWO, raw=(b"1",))


def test_what_a_record_has_spent_goes_by_its_raw_form_where_there_is_one() -> None:
    """Another range of a column, or another order of columns, is no other record."""
    x, y, raw = torch.arange(6.0).view(3, 2), torch.tensor([0, 1, 0]), (b"1", b"2", b"3")
    data, scaled = TensorData(x, y, TWO, raw=raw), TensorData(x / 7, 1 - y, TWO, raw=raw)
    assert data.fingerprint() == scaled.fingerprint()
    assert data.record_digests() == scaled.record_digests() == [b"1", b"2", b"3"]
    assert TensorData(x, y, TWO, raw=(b"1", b"2", b"4")).fingerprint() != data.fingerprint()
    assert TensorData(x, y, TWO).fingerprint() != data.fingerprint()
