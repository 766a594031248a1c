"""A folder with train.csv and test.csv: features, and the label behind them."""

import numpy as np
import torch

from fl_dp.data.source import Location, Source
from fl_dp.data.tensor_data import Split, TensorData
from fl_dp.errors import DataError


def load(location: Location, split: Split) -> TensorData:
    file = location.path / f"{split}.csv"
    if not file.exists():
        raise DataError(f"{file}: no such file.")
    table = torch.from_numpy(np.loadtxt(file, delimiter=",", ndmin=2))
    return TensorData(table[:, :-1].float(), table[:, -1].long(), ("no", "yes"))


SOURCE = Source(load, argument="PATH", is_path=True)
