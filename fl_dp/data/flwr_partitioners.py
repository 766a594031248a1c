"""flwr_datasets.partitioner, without what `import flwr_datasets` brings along."""

import importlib
import importlib.util
import sys
from types import ModuleType


def import_partitioners() -> ModuleType:
    """The module `flwr_datasets.partitioner`.

    The package's own __init__ imports its plotting (Matplotlib, seaborn, SciPy's statistics), which
    takes 1.4 s of the 2.1 s and writes font caches into the user's home; every Flower message starts
    a fresh client process, so it would be paid each time. An empty parent package stands in for it
    while the partitioners are imported; it is then taken away, so that a later
    `import flwr_datasets` works as ever.
    """
    name = "flwr_datasets"
    spec = importlib.util.find_spec(name)
    if name in sys.modules or spec is None:
        return importlib.import_module(f"{name}.partitioner")
    stand_in = ModuleType(name)
    stand_in.__path__ = list(spec.submodule_search_locations or ())
    sys.modules[name] = stand_in
    try:
        return importlib.import_module(f"{name}.partitioner")
    finally:
        del sys.modules[name]
