"""Features stand in the place of records for models, and nowhere else: what a record is stays the same."""

import logging

import pytest
import torch
from torch import Tensor

from fl_dp.choices import Choices
from fl_dp.data import fixed_features
from fl_dp.data.fixed_features import Features, features_of
from fl_dp.data.persons import PersonData
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError, DataError

TWO = ("a", "b")


def halves(x: Tensor, argument: str) -> Tensor:
    return x.float()[:, :, : x.shape[2] // 2] * float(argument)


def shape(record: tuple[int, ...], argument: str) -> tuple[int, ...]:
    match record:
        case (channels, height, width):
            return channels, height // 2, width
    raise ValueError("expected images")


KINDS = {
    "halves": Features(halves, shape, argument="FACTOR", default="2"),
    "beside": Features(lambda x, _: x.float() - x.float().mean(dim=0), lambda record, _: record),
    "endless": Features(lambda x, _: x.float() / x.float().amin(dim=(1, 2, 3), keepdim=True), lambda r, _: r),
    "wrong": Features(lambda x, _: x.float(), lambda record, _: (1, 1, 1)),
}


@pytest.fixture(autouse=True)
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Some features by name; how many records each call was given."""
    given: list[int] = []

    def load(self: Choices, value: str, kind: type) -> object:
        self.check(value)
        return KINDS[value.partition(":")[0]]

    monkeypatch.setattr(Choices, "names", lambda self: tuple(KINDS))
    monkeypatch.setattr(Choices, "load", load)
    counted = Features(lambda x, a: (given.append(len(x)), halves(x, a))[1], shape, "FACTOR", "2")
    monkeypatch.setitem(KINDS, "halves", counted)
    return given


def images(n: int = 3, features: str = "") -> TensorData:
    x = torch.arange(n * 8, dtype=torch.uint8).reshape(n, 1, 4, 2)
    return TensorData(x, torch.arange(n) % 2, TWO).with_features(features_of(features))


def test_a_model_is_given_features_and_not_scaled_pixels() -> None:
    data = images(3, "halves:3")
    assert data.form.input_shape == (1, 2, 2)
    inputs, labels = data.batch(torch.tensor([2, 0]))
    assert torch.equal(inputs, data.x[[2, 0], :, :2].float() * 3)
    assert inputs.dtype == torch.float32
    assert labels.tolist() == [0, 0]
    assert images().inputs.dtype == torch.uint8


def test_records_are_the_same_ones_for_a_ledger(computed: list[int]) -> None:
    plain, data = images(), images(3, "halves")
    assert data.fingerprint() == plain.fingerprint()
    assert data.record_digests() == plain.record_digests()
    part = torch.tensor([2, 1])
    assert data.subset(part).fingerprint() == plain.subset(part).fingerprint()
    files = TensorData(plain.x, plain.y, TWO, raw=(b"0", b"1", b"2"))
    assert files.with_features(features_of("halves")).fingerprint() == files.fingerprint()
    assert computed == []  # and they cost nothing there


def test_the_same_of_persons() -> None:
    plain = TensorData(images().x, images().y, TWO, groups=("p", "q", "p"))
    data = plain.with_features(features_of("halves"))
    assert PersonData(data, 2).fingerprint() == PersonData(plain, 2).fingerprint()
    inputs, _, shares = PersonData(data, 2).batch(torch.tensor([1, 0]))
    assert inputs.shape == (2, 2, 1, 2, 2)
    assert torch.equal(inputs[1], data.inputs[[0, 2]])
    assert shares.tolist() == [[1.0, 0.0], [0.5, 0.5]]


def test_they_are_computed_once_and_a_part_takes_its_own(computed: list[int]) -> None:
    data = images(5, "halves")
    data.subset(torch.tensor([4, 0])).batch(torch.tensor([1]))
    tried = [3, 1, 1, 1]
    assert computed == [*tried, 2]  # of the part alone
    first = data.batch(torch.tensor([0]))[0]
    assert computed == [*tried, 2, *tried, 5]
    part = data.subset(torch.tensor([3, 0]))
    assert torch.equal(part.batch(torch.tensor([1]))[0], first)
    assert computed == [*tried, 2, *tried, 5]


def test_large_sets_are_computed_piece_by_piece(
    computed: list[int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "fl_dp")
    wanted = images(5, "halves").inputs
    computed.clear()
    monkeypatch.setattr(fixed_features, "_RECORDS", 2)
    assert torch.equal(images(5, "halves").inputs, wanted)
    assert computed[4:] == [2, 2, 1]
    assert "computing features halves:2, 0 MiB" in caplog.text


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("beside", ConfigError, "depend on other records, so no epsilon would hold"),
        ("endless", DataError, r"features = 'endless': expected finite numbers \(1, "),
        ("wrong", DataError, r"features = 'wrong': expected finite numbers \(1, "),
    ],
)
def test_what_are_no_features_of_one_record_is_refused(name: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        _ = images(3, name).inputs
    rows = TensorData(torch.zeros(2, 3), torch.tensor([0, 1]), TWO)  # before any is read
    with pytest.raises(DataError, match=r"halves:2' cannot be computed for .* shape \(3,\): expected images"):
        rows.with_features(features_of("halves"))


def test_features_change_no_record_and_learn_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = torch.ones(1, requires_grad=True)
    monkeypatch.setitem(
        KINDS, "in place", Features(lambda x, _: x.bitwise_not_().float() * weight, lambda record, _: record)
    )
    data = images(3, "in place")
    before = data.fingerprint()
    assert not data.inputs.requires_grad
    assert data.fingerprint() == before == images().fingerprint()
