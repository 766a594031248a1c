"""A user's own arrays in one NumPy .npz file: x_train, y_train, x_test, y_test, and public ones."""

import re
from collections.abc import Collection
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fl_dp.data.npz_files import Arrays, read_npz
from fl_dp.data.source import Source
from fl_dp.data.subgroups import Subgroups
from fl_dp.data.tensor_data import COLUMNS_OF_INTEGERS, Split, TensorData
from fl_dp.errors import DataError, located
from fl_dp.form import check_count

_MAX_CHANNELS = 4  # of an image: with a second axis this short, a longer last axis is a width
_PUBLIC = frozenset({"classes", "vocabulary"})
_NAMES = ("x_train", "y_train", "x_test", "y_test", "groups_train", "groups_test", "classes", "vocabulary")
_PREFIX = "subgroup_"  # `subgroup_NAME` names subgroups, `subgroup_NAME_test` has each record's index
_CODES = re.compile(rf"{_PREFIX}(.+)_(?:train|test)")
_SUBGROUPS = re.compile(rf"{_PREFIX}(.+)")


def load_npz(path: Path, split: Split) -> TensorData:
    """One split of the file at `path`.

    | array                    | form                                                                     |
    |--------------------------|--------------------------------------------------------------------------|
    | `x_train`, `x_test`      | uint8 images NHWC or NHW, floats (n, ...), or integers (n, T): tokens     |
    | `y_train`, `y_test`      | integer labels (n,), floats (n,) or (n, k), or of tokens the next (n, T)  |
    | `vocabulary`, of tokens  | one integer: how many tokens there are                                   |
    | `classes`, of labels     | one name per label; of columns or next tokens it may be absent           |
    | `groups_train`, optional | a name or number per record, by which it may be assigned to a client     |
    | `subgroup_NAME`, optional, and `subgroup_NAME_test` | subgroups' names, each record's index in them |

    The number of classes is public, and never derived from labels. Any other array is refused: one that says
    whose record it is must not be overlooked. DataError, which names the file, if it is missing or damaged,
    or if an array has another shape.
    """
    needed, welcome = {f"x_{split}", f"y_{split}"}, _PUBLIC | {f"groups_{split}"}

    def wanted(there: Collection[str]) -> list[str]:
        if missing := needed - set(there):
            raise DataError(f"{path}: expected arrays {', '.join(sorted(missing))}.")
        if unknown := [name for name in there if name not in _NAMES and not _SUBGROUPS.fullmatch(name)]:
            raise DataError(
                f"{path}: unknown arrays {', '.join(unknown)}; known are {', '.join(_NAMES)}, and for "
                "subgroups subgroup_NAME with subgroup_NAME_test. groups_train says whose record each is; "
                "leave out all other arrays."
            )
        with located(path):
            return sorted(needed | (welcome & set(there)) | _subgroup_arrays(there, split))

    arrays = read_npz(path, wanted)
    with located(f"{path}, split {split}"):
        vocabulary = _vocabulary(arrays)
        x = _inputs(f"x_{split}", arrays, vocabulary)
        y = _targets(f"y_{split}", arrays, tokens=vocabulary > 0)
        groups = _groups(f"groups_{split}", arrays)
        classes, subgroups = _classes(arrays, y, vocabulary), _subgroups_of(arrays)
        return TensorData(x, y, classes, vocabulary, groups, subgroups=subgroups)


def _vocabulary(arrays: Arrays) -> int:
    """0 if none is declared: nothing in the file is then a token."""
    declared = arrays.get("vocabulary", np.array(0))
    if declared.ndim or not _whole(declared) or ("vocabulary" in arrays and int(declared) < 1):
        raise DataError("vocabulary: expected one integer >= 1, the number of tokens.")
    check_count(int(declared), "tokens in the vocabulary")
    return int(declared)


def _inputs(name: str, arrays: Arrays, vocabulary: int) -> Tensor:
    x = arrays[name]
    if _whole(x) and x.ndim == 2:
        if not vocabulary:
            raise DataError(
                f"{name}: integers (n, T) are tokens, and the file declares no vocabulary; add the array "
                "vocabulary, one integer above every token. Write numbers that are not tokens as floats."
            )
        return torch.from_numpy(x.astype(np.int64, copy=False))
    if x.dtype == np.uint8 and x.ndim == 3:
        return torch.from_numpy(x).unsqueeze(1)
    images = x.dtype == np.uint8 and x.ndim == 4
    channels_first = images and x.shape[1] <= _MAX_CHANNELS < x.shape[3]
    if images and not channels_first:
        return torch.from_numpy(x).permute(0, 3, 1, 2).contiguous()
    if np.issubdtype(x.dtype, np.floating) and x.ndim >= 2:
        return _numbers(x)
    raise DataError(
        f"{name}: expected uint8 images (n, H, W) or (n, H, W, C), float numbers (n, ...), or integer tokens "
        f"(n, T), not {x.dtype} of shape {x.shape}."
        + (" Write x.transpose(0, 2, 3, 1): in a file bytes have channels last." if channels_first else "")
    )


def _targets(name: str, arrays: Arrays, *, tokens: bool) -> Tensor:
    y = arrays[name]
    if y.dtype.kind in "US":
        raise DataError(
            f"{name}: holds texts; write integers, each label's index in the array classes, from 0."
        )
    columns = y.ndim == 2 and not tokens and y.shape[1] != 1
    if y.dtype.kind in "iub" and columns:
        raise DataError(f"{name}: integers of shape {y.shape} are not classes (n,). {COLUMNS_OF_INTEGERS}")
    if y.dtype.kind in "iub" and y.ndim in (1, 2):
        return torch.from_numpy(y if y.dtype == np.bool_ else y.astype(np.int64, copy=False))
    if np.issubdtype(y.dtype, np.floating) and y.ndim in (1, 2):
        return _numbers(y)
    raise DataError(
        f"{name}: expected integer labels (n,), float numbers (n,) or (n, k), or of tokens the next ones "
        f"(n, T), not {y.dtype} of shape {y.shape}."
    )


def _classes(arrays: Arrays, y: Tensor, vocabulary: int) -> tuple[str, ...]:
    if (names := arrays.get("classes")) is not None:
        return tuple(str(name) for name in names.ravel())
    if y.is_floating_point():
        return ()
    if y.ndim == 2 and vocabulary:
        return tuple(map(str, range(vocabulary)))
    raise DataError(
        "integer labels are classes: expected the array classes, with a name for each, such as "
        'numpy.array(["no", "yes"]). Their number is public, and never taken from labels. Write numbers to '
        "predict as floats."
    )


def _groups(name: str, arrays: Arrays) -> tuple[str, ...]:
    groups = arrays.get(name)
    if groups is None:
        return ()
    if groups.ndim != 1 or not (_whole(groups) or groups.dtype.kind == "U"):
        raise DataError(
            f"{name}: expected names or integers (n,), not {groups.dtype} of shape {groups.shape}."
        )
    return tuple(map(str, groups.tolist()))


def _numbers(array: np.ndarray) -> Tensor:
    with np.errstate(over="ignore"):  # too large for float32 becomes inf, which TensorData refuses
        return torch.from_numpy(array.astype(np.float32, copy=False))


def _whole(array: np.ndarray) -> bool:
    return bool(np.issubdtype(array.dtype, np.integer))


def load_inputs(path: Path) -> Tensor:
    """The array `x`, or else `x_test`, of the file at `path`, to predict for. Raises as `load_npz`."""
    arrays = read_npz(path, lambda there: {"x", "x_test", "vocabulary"} & set(there))
    name = "x" if "x" in arrays else "x_test"
    if name not in arrays:
        raise DataError(f"{path}: expected an array x, or x_test.")
    with located(path):
        return _inputs(name, arrays, _vocabulary(arrays))


def _subgroup_arrays(there: Collection[str], split: Split) -> set[str]:
    """The arrays of subgroups to read: none for training; DataError unless names and codes come in pairs."""
    if split == "train":
        return set()
    coded = {match[1] for name in there if (match := _CODES.fullmatch(name))}
    bare = (name for name in there if not _CODES.fullmatch(name))
    named = {match[1] for name in bare if (match := _SUBGROUPS.fullmatch(name))}
    if alone := sorted(coded - named):
        raise DataError(
            f"subgroup_{alone[0]}_test: expected the array subgroup_{alone[0]} beside it, the names of the "
            "subgroups: they are public, and never counted in records."
        )
    wanted = {f"{_PREFIX}{name}_test" for name in named}
    if missing := sorted(wanted - set(there)):
        raise DataError(
            f"expected the array {missing[0]}, for each test record the index of its subgroup in "
            f"{missing[0].removesuffix('_test')}."
        )
    return wanted | {f"{_PREFIX}{name}" for name in named}


def _subgroups_of(arrays: Arrays) -> tuple[Subgroups, ...]:
    """Subgroups of the test records, sorted by name."""
    found = sorted(match[1] for name in arrays if (match := _CODES.fullmatch(name)))
    return tuple(
        _subgroups(name, arrays[f"{_PREFIX}{name}"], arrays[f"{_PREFIX}{name}_test"]) for name in found
    )


def _subgroups(name: str, labels: np.ndarray, codes: np.ndarray) -> Subgroups:
    if labels.dtype.kind not in "Uiu" or labels.ndim != 1 or not len(labels):
        raise DataError(
            f"{_PREFIX}{name}: expected names of subgroups (k,), not {labels.dtype} of shape {labels.shape}."
        )
    if codes.dtype.kind not in "iu" or codes.ndim != 1:
        raise DataError(
            f"{_PREFIX}{name}_test: expected integers (n,), each record's index in {_PREFIX}{name} from 0, "
            f"not {codes.dtype} of shape {codes.shape}."
        )
    return Subgroups(name, tuple(map(str, labels.tolist())), torch.from_numpy(codes.astype(np.int64)))


def write_npz(path: Path, train: TensorData | None, test: TensorData | None) -> None:
    """Writes a file from which `load_npz` reads the same records; DataError for fields without an array."""
    arrays: dict[str, np.ndarray] = {}
    for split, data in (("train", train), ("test", test)):
        if data is None:
            continue
        if lost := [name for name in ("raw", "sites", "features") if getattr(data, name)]:
            raise DataError(f"data: {' and '.join(lost)} cannot be passed in memory; name their file.")
        images = data.x.dtype == torch.uint8
        arrays |= {f"x_{split}": (data.x.permute(0, 2, 3, 1) if images else data.x).numpy()}
        arrays |= {f"y_{split}": data.y.numpy(), "classes": np.array(data.classes, dtype=np.str_)}
        if not data.classes:
            del arrays["classes"]
        if data.vocabulary:
            arrays["vocabulary"] = np.array(data.vocabulary)
        if data.groups:
            arrays[f"groups_{split}"] = np.array(data.groups)
        for one in data.subgroups if split == "test" else ():
            arrays[f"{_PREFIX}{one.name}"] = np.array(one.labels)
            arrays[f"{_PREFIX}{one.name}_test"] = one.codes.numpy()
    np.savez(path, **arrays)  # type: ignore[arg-type]


SOURCE = Source(
    lambda location, split: load_npz(location.path, split),
    argument="PATH",
    is_path=True,
    inputs=lambda location: load_inputs(location.path),
    lines=lambda path: map(np.ndarray.tobytes, read_npz(path, lambda there: ["x_train"])["x_train"]),
)
