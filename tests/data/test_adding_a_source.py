"""A data source is added by adding one file: shown with a copy of fl_dp that gets one more."""

from typing import Any

TABLE = '''\
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
'''

USE = """\
import os
from fl_dp.choices import SOURCES
from fl_dp.config.run import RunConfig
from fl_dp.errors import FlDpError
from fl_dp.launch.preflight import check_names, check_choices, check_parts, check_server, with_absolute_paths

print(" ".join(SOURCES.names()))
check_names(RunConfig(data="columns:table"))
config = with_absolute_paths(RunConfig(data="columns:table"))
print(config.data)
os.chdir("/")
check_server(config)
print(*check_parts(config))
for data, check in (
    ("colums:table", check_names), ("columns", check_choices), ("columns:table", check_server)
):
    try:
        check(RunConfig(data=data))
    except FlDpError as error:
        print(error)
"""


def test_one_file_is_listed_loaded_and_found_from_anywhere(copied: Any) -> None:
    copied.add("data/sources/columns.py", TABLE)
    table = copied.folder / "table"
    table.mkdir()
    (table / "train.csv").write_text("0.5,1.5,0\n-1,2,1\n0,0,1\n")
    (table / "test.csv").write_text("0.1,0.2,1\n")
    names, absolute, parts, unknown, without, elsewhere = copied.lines(USE)
    assert "columns" in names.split()
    assert absolute == f"columns:{table}"
    assert parts.startswith("the smallest part has 1 records")
    assert unknown.startswith("data = 'colums:table': expected ")
    assert " columns " in unknown
    assert without == "data = 'columns': columns takes an argument; write columns:PATH."
    assert elsewhere == "/table/test.csv: no such file."
