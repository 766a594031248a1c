"""Data sets by name: `digits`, torchvision's sets, `npz:PATH` and `folder:PATH`."""

from functools import lru_cache
from pathlib import Path

from fl_dp.config.run import DATA_SETS
from fl_dp.data.cifar_files import load_cifar
from fl_dp.data.mnist_files import load_mnist
from fl_dp.data.sources.digits import load_digits
from fl_dp.data.sources.folder import load_folder
from fl_dp.data.sources.npz import load_npz
from fl_dp.data.tensor_data import Split, TensorData
from fl_dp.errors import DataError


def load_data(name: str, root: Path, split: Split) -> TensorData:
    """One split of the data set `name`; loaded once per process, so do not write into its tensors.

    root: where torchvision's sets live; relative paths start from the working directory.
    Raises DataError that says which file is missing or wrong and what was expected.
    """
    return _load(name, root.expanduser().absolute(), Path.cwd(), split)


@lru_cache(maxsize=2)  # a simulation's process asks for the same train and test split thousands of times
def _load(name: str, root: Path, working_directory: Path, split: Split) -> TensorData:
    match name.split(":", 1):
        case ["digits"]:
            return load_digits(split)
        case ["mnist"]:
            return load_mnist("MNIST", root, split)
        case ["fashion_mnist"]:
            return load_mnist("FashionMNIST", root, split)
        case ["cifar10"]:
            return load_cifar("CIFAR10", root, split)
        case ["cifar100"]:
            return load_cifar("CIFAR100", root, split)
        case ["npz", path] if path:
            return load_npz(working_directory / Path(path).expanduser(), split)
        case ["folder", path] if path:
            return load_folder(working_directory / Path(path).expanduser(), split)
    raise DataError(f"data = {name!r}: unknown data set; expected {', '.join(DATA_SETS)}.")
