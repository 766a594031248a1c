"""A table of the user's own in one Parquet file, with a public schema file that says what its columns are."""

from torch import Tensor

from fl_dp.data.source import Location, Source
from fl_dp.data.tables.files import read_parquet
from fl_dp.data.tables.source import schema_file, schema_of, table_data, table_inputs
from fl_dp.data.tensor_data import Split, TensorData


def _load(location: Location, split: Split) -> TensorData:
    return table_data(location, read_parquet(location.path), schema_of(location), split)


def _inputs(location: Location) -> Tensor:
    schema = schema_of(location)
    return table_inputs(location, read_parquet(location.path), schema)


SOURCE = Source(
    _load,
    argument="PATH",
    is_path=True,
    form=lambda location: schema_of(location).form,
    meaning=lambda location: schema_of(location).meaning,
    schema_file=schema_file,
    inputs=_inputs,
)
