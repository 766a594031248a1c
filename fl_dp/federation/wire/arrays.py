"""A model's weights as named arrays in messages, checked before anything uses them."""

import hashlib
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord
from flwr.common.constant import SType
from numpy.lib import format as npy
from torch import nn

from fl_dp.errors import ConfigError
from fl_dp.schema import some_names
from fl_dp.training.local_algorithm import personal_names
from fl_dp.training.trainer import as_arrays, trainable

NDArray = np.ndarray[Any, np.dtype[Any]]

_MOST_DIMENSIONS = 32
_TYPES = frozenset(
    ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool", "complex64")
)


@dataclass(frozen=True, slots=True)
class ArraySpec:
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def specs(arrays: Mapping[str, NDArray]) -> dict[str, ArraySpec]:
    """The specs that arrays must meet to replace `arrays`."""
    return {name: ArraySpec(array.shape, array.dtype) for name, array in arrays.items()}


def state_arrays(model: nn.Module) -> dict[str, NDArray]:
    """Parameters and buffers by name, each tied parameter only once, under its first name.

    After averaging, its second name would still hold the old value and undo the round.
    """
    first = {name for name, _ in model.named_parameters()}
    tied = {name for name, _ in model.named_parameters(remove_duplicate=False)} - first
    return {
        name: tensor.detach().cpu().numpy().copy()  # copied: the model trains on, the message must not change
        for name, tensor in model.state_dict().items()
        if name not in tied
    }


def shared_specs(model: nn.Module, personal: str) -> dict[str, ArraySpec]:
    """The specs of the trained parameters that leave a client. personal: patterns of those that never do."""
    all_of_them = specs(as_arrays(trainable(model)))
    own = personal_names(personal, tuple(all_of_them))
    return {name: spec for name, spec in all_of_them.items() if name not in own}


def load_arrays(model: nn.Module, arrays: Mapping[str, NDArray]) -> None:
    """Copy `arrays`, complete as from `state_arrays`, into the model."""
    # strict=False: the further names of tied parameters are not among the arrays
    model.load_state_dict({name: torch.tensor(array) for name, array in arrays.items()}, strict=False)


def encode(arrays: Mapping[str, NDArray]) -> ArrayRecord:
    return ArrayRecord({name: _encode_one(np.asarray(array)) for name, array in arrays.items()})


def decode(record: ArrayRecord, expected: Mapping[str, ArraySpec]) -> dict[str, NDArray]:
    """The record's arrays (read-only views); ConfigError unless names, shapes, types and sizes are as
    expected and all values finite. Nothing is parsed or allocated on the sender's word.
    """
    if set(record) != set(expected):
        missing = some_names(set(expected) - set(record))
        unknown = some_names(set(record) - set(expected))
        raise ConfigError(f"arrays do not match the model: missing {missing}, unknown {unknown}.")
    return {name: _decode_one(name, record[name], spec) for name, spec in expected.items()}


def declared_specs(record: ArrayRecord) -> dict[str, ArraySpec]:
    """The specs that the record declares, for callers without a model; `decode` checks the content by them.

    ConfigError for a type or a shape that no weights have.
    """
    if any(len(array.shape) > _MOST_DIMENSIONS for array in record.values()):
        raise ConfigError(f"an array of more than {_MOST_DIMENSIONS} dimensions, which no weights have.")
    unknown = sorted({array.dtype for array in record.values()} - _TYPES)
    if unknown:
        raise ConfigError(f"arrays of type {unknown[0][:20]!r}, which no weights have.")
    return {name: ArraySpec(tuple(array.shape), np.dtype(array.dtype)) for name, array in record.items()}


def digest_of(weights: Mapping[str, NDArray]) -> str:
    """SHA-256 over names, types, shapes and values, in hex."""
    digest = hashlib.sha256()
    for name, array in weights.items():
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
    return digest.hexdigest()


def _encode_one(array: NDArray) -> Array:
    """As Flower's own Array(array), but with one copy of the values instead of two."""
    values = np.ascontiguousarray(array).reshape(array.shape)  # reshape: it makes a scalar one-dimensional
    header = _npy_header(ArraySpec(array.shape, array.dtype), fortran_order=False)
    return Array(
        dtype=str(array.dtype),
        shape=array.shape,
        stype=SType.NUMPY,
        data=b"".join((header, values.data.cast("B") if values.size else b"")),
    )


def _decode_one(name: str, array: Array, spec: ArraySpec) -> NDArray:
    if (array.shape, array.dtype) != (spec.shape, str(spec.dtype)):
        raise ConfigError(
            f"array {name!r}: {array.shape} {array.dtype!r}, expected {spec.shape} {spec.dtype}."
        )
    for fortran_order in (False, True):
        header = _npy_header(spec, fortran_order)
        if array.data.startswith(header):
            break
    else:
        raise ConfigError(f"array {name!r}: not in NumPy's format for {spec.shape} {spec.dtype}.")
    if len(array.data) - len(header) != math.prod(spec.shape) * spec.dtype.itemsize:
        raise ConfigError(f"array {name!r}: its data are not as long as {spec.shape} {spec.dtype} takes.")
    values = np.frombuffer(array.data, spec.dtype, offset=len(header))
    values = values.reshape(spec.shape, order="F" if fortran_order else "C")
    if not np.isfinite(values).all():
        raise ConfigError(f"array {name!r}: holds values that are not finite.")
    return values


def _npy_header(spec: ArraySpec, fortran_order: bool) -> bytes:
    """The header before the values in NumPy's format; compared, so that no sender's header is parsed."""
    stream = io.BytesIO()
    descr = npy.dtype_to_descr(spec.dtype)
    npy.write_array_header_1_0(stream, {"descr": descr, "fortran_order": fortran_order, "shape": spec.shape})
    return stream.getvalue()


def below(prefix: str, arrays: Mapping[str, NDArray]) -> dict[str, NDArray]:
    """The arrays whose names begin with the prefix, by the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
