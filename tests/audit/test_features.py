"""Audits of a model on features: their canaries are features too."""

import pytest
import torch

from fl_dp.audit.canaries import in_persons
from fl_dp.audit.mislabelled import MislabelledRecords
from fl_dp.audit.settings import first_records, own_model, own_part, spare_records
from fl_dp.config.run import RunConfig
from fl_dp.data.fixed_features import features_of
from fl_dp.data.tensor_data import TensorData

pytest.importorskip("kymatio")

CONFIG = RunConfig(features="scatter:1", model="norm-linear")


def test_mislabelled_records_stand_among_records_of_their_kind() -> None:
    part = own_part(CONFIG)
    assert isinstance(part, TensorData)
    few, spare = first_records(part, 10), first_records(spare_records(CONFIG), 4)
    audit = MislabelledRecords(own_model(CONFIG, part), few, spare)
    together = audit.data(torch.tensor([True, False, True, False]))
    assert isinstance(together, TensorData)
    assert together.form == few.form == audit.data(torch.zeros(4, dtype=torch.bool)).form
    inputs, labels = together.batch(torch.arange(12))
    assert torch.equal(inputs[:10], few.batch(torch.arange(10))[0])
    assert torch.equal(inputs[10:], spare.batch(torch.tensor([0, 2]))[0])
    assert (labels[10:] != spare.y[[0, 2]]).all()
    arrays = {name: one.detach().numpy() for name, one in audit.model.named_parameters()}
    assert audit.scores(arrays, arrays).tolist() == [0.0] * 4


def test_persons_that_are_made_up_have_them() -> None:
    x = torch.arange(2 * 64).reshape(2, 1, 8, 8).to(torch.uint8)
    records = TensorData(x, torch.tensor([0, 1]), ("a", "b")).with_features(features_of("scatter:1"))
    made = in_persons(records, 2)
    assert torch.equal(made.batch(torch.tensor([0, 7]))[0], records.batch(torch.tensor([0, 1]))[0])
