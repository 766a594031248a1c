"""Sends a task that is a class in the driver's process, as in a notebook, to Ray's processes."""

import sys
from dataclasses import dataclass

from ray import cloudpickle

from fl_dp.errors import ConfigError
from fl_dp.tasks.load import GIVEN, give, task_class


@dataclass(frozen=True, slots=True)
class GivenTask:
    """The class, pickled by value if its module is not installed; paths: where its imports are found."""

    pickled: bytes
    paths: tuple[str, ...]

    def take(self) -> None:
        """Load the class in this process, under the name that it has in the driver's."""
        sys.path += [path for path in self.paths if path not in sys.path]  # at the end, as for task files
        give(cloudpickle.loads(self.pickled))


def given_task(name: str) -> GivenTask | None:
    """The class of that name, pickled; None for a name that every process can look up itself.

    ConfigError for a class that cannot be pickled.
    """
    if not name.startswith(GIVEN):
        return None
    kind = task_class(name)
    module = sys.modules.get(kind.__module__)
    by_value = module is not None and kind.__module__ != "__main__"
    try:
        if by_value:
            cloudpickle.register_pickle_by_value(module)
        return GivenTask(cloudpickle.dumps(kind), tuple(path for path in sys.path if path))
    except Exception as error:  # pickling the class's own parts may raise anything
        raise ConfigError(
            f"task = {name!r}: cannot be sent to Ray's processes ({type(error).__name__}: {error}); put it "
            "in a file of its own, and name that."
        ) from error
    finally:
        if by_value:
            cloudpickle.unregister_pickle_by_value(module)
