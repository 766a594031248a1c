"""One copy of the data: parts are views of it, and the same records as a client's own."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

from fl_dp.data.files_read import FilesRead
from fl_dp.data.fixed_features import FixedFeatures
from fl_dp.data.persons import PersonData
from fl_dp.data.tensor_data import TensorData
from fl_dp.simulation.actor.shared_data import SharedData, SharedParts

PARTS = [np.array([5, 1]), np.array([0, 2, 3]), np.array([4])]


def data() -> TensorData:
    return TensorData(torch.arange(24.0).reshape(6, 4), torch.arange(6) % 2, ("a", "b"))


def test_parts_hold_the_records_of_their_indices():
    shared = SharedData.of(data(), PARTS)
    assert len(shared) == 3
    parts = SharedParts(shared)
    for number, indices in enumerate(PARTS):
        expected = data().subset(torch.from_numpy(indices))
        assert parts[number].x.equal(expected.x)
        assert parts[number].y.equal(expected.y)
        assert parts[number].fingerprint() == expected.fingerprint()


def test_parts_are_views_of_memory_that_may_not_be_written(recwarn):
    shared = SharedData.of(data(), PARTS)
    for array in (shared.x, shared.y):
        array.flags.writeable = False  # as in Ray's store
    parts = SharedParts(shared)
    assert parts[1].x.data_ptr() == shared.x[2:].ctypes.data
    assert not recwarn


def test_arrays_travel_out_of_band():
    """So that Ray keeps them once on a machine and copies none of it into a process."""
    x = torch.zeros(100_000, 4)
    shared = SharedData.of(
        TensorData(x, torch.zeros(100_000, dtype=torch.int64), ("a",)), [np.arange(100_000)]
    )
    buffers: list[pickle.PickleBuffer] = []
    inline = pickle.dumps(shared, protocol=5, buffer_callback=buffers.append)
    assert len(inline) < 2000
    assert sum(len(buffer.raw()) for buffer in buffers) >= shared.x.nbytes + shared.y.nbytes


def test_persons_stay_together_and_are_the_clients_own():
    records = replace(data(), groups=("b", "a", "b", "a", "c", "c"))
    shared = SharedData.of(PersonData(records, 2), [np.array([3, 1, 0, 2]), np.array([4, 5])])
    parts = SharedParts(shared)
    own = PersonData(records.subset(torch.tensor([3, 1, 0, 2])), 2)
    assert parts[0] is parts[0]
    assert isinstance(parts[0], PersonData)
    assert (len(parts[0]), len(parts[1])) == (2, 1)
    assert parts[0].most == 2
    assert parts[0].fingerprint() == own.fingerprint()
    assert parts[1].records.groups == ("c", "c")
    for found, expected in zip(parts[0].batch(torch.arange(2)), own.batch(torch.arange(2)), strict=True):
        assert found.equal(expected)


def test_features_are_computed_once_for_all_and_change_no_record(monkeypatch):
    pytest.importorskip("kymatio")
    computed: list[int] = []
    compute = FixedFeatures.of
    monkeypatch.setattr(FixedFeatures, "of", lambda own, x: (computed.append(len(x)), compute(own, x))[1])
    pixels = torch.arange(6 * 64, dtype=torch.int64).remainder(251).to(torch.uint8).reshape(6, 1, 8, 8)
    plain = TensorData(pixels, torch.arange(6) % 2, ("a", "b"))
    shared = SharedData.of(plain.with_features(FixedFeatures("scatter:1")), PARTS).with_inputs()
    read = FilesRead(())
    without = SharedParts(SharedData.of(plain, PARTS))
    parts = SharedParts(pickle.loads(pickle.dumps(shared)), [None, read, None])
    for number, indices in enumerate(PARTS):
        own = plain.subset(torch.from_numpy(indices))
        wanted = compute(FixedFeatures("scatter:1"), own.x)
        assert torch.equal(parts[number].batch(torch.arange(len(own)))[0], wanted)
        assert parts[number].fingerprint() == own.fingerprint() == without[number].fingerprint()
    assert computed == [6]
    driver = SharedParts(replace(shared, inputs=None))  # registers, and trains nobody
    assert driver[1].fingerprint() == without[1].fingerprint()
    assert driver[1].form == parts[1].form
    assert [part.read for part in (parts[0], parts[1], driver[1])] == [None, read, None]
    assert computed == [6]


def test_the_same_records_are_known_by_every_bit_of_them_and_by_their_parts():
    first = SharedData.of(data(), PARTS)
    again = pickle.loads(pickle.dumps(SharedData.of(data(), PARTS)))
    assert first.holds_the_same(replace(again, inputs=np.zeros(1)))
    zero = np.zeros_like(first.x)
    for one, other in [
        (first, SharedData.of(data(), PARTS[::-1])),
        (first, replace(first, bounds=np.array([0, 1, 5, 6]))),
        (first, replace(first, y=1 - first.y)),
        (first, replace(first, x=first.x.view(np.int32))),
        (first, replace(first, classes=("a", "c"))),
        (first, replace(first, features=FixedFeatures("scatter:1"))),
        (replace(first, x=zero), replace(first, x=-zero)),
    ]:
        assert not one.holds_the_same(other)
    nothing = replace(first, x=zero * np.nan)
    assert nothing.holds_the_same(replace(nothing, x=nothing.x.copy()))
