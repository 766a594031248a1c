"""Loads the user's own code by the name in a site's settings: `my_file.py:NAME` or `package.module:NAME`.

The name is from the site's own disk. A server's name is compared with it, and never loaded.
"""

import functools
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from torch import nn

from fl_dp.config.task import task_file
from fl_dp.data.files_read import State, state_of
from fl_dp.errors import ConfigError, FlDpError, TaskError, TaskNameError
from fl_dp.form import Form


def own_function(name: str) -> Callable[[Form], nn.Module]:
    """The function that `model = NAME` means: from the data's form to a model.

    ConfigError if there is none, TaskError for code that cannot be imported.
    """
    module, (_, function) = imported("model", name), task_file(name)
    found = getattr(module, function, None)
    if not callable(found):
        raise ConfigError(
            f"model = {name!r}: it has no {function} that can be called; expected a function of the data's "
            "form that returns a torch.nn.Module."
        )
    make: Callable[[Form], nn.Module] = found
    return make


def own_parts(name: str) -> Callable[..., Any]:
    """The function that `strategy = NAME` means: like `federation.server.strategy.usual_parts`.

    ConfigError if there is none, TaskError for code that cannot be imported. The function's own errors also
    become a ConfigError.
    """
    function = task_file(name)[1]
    if not function:
        raise no_parts(name, "it does not name a function")
    found = getattr(imported("strategy", name), function, None)
    if not callable(found):
        raise no_parts(name, f"it has no {function} that can be called")
    try:
        inspect.signature(found).bind(*range(4))
    except TypeError as error:
        raise no_parts(name, str(error)) from error

    @functools.wraps(found)
    def make(*given: Any) -> Any:
        try:
            return found(*given)
        except FlDpError:
            raise
        except Exception as error:  # the user's own code may raise anything
            raise no_parts(name, f"it raised {type(error).__name__}: {error}") from error

    return make


def no_parts(name: str, why: str) -> ConfigError:
    """The error about `strategy = NAME`."""
    return ConfigError(
        f"strategy = {name!r}: {why}; expected FILE.py:NAME, a function (config, run, shared, on_registered) "
        "that makes StrategyParts. Flower's strategies are values of server-optimizer, aggregation and "
        "local-algorithm here (docs/migrating.md)."
    )


def imported(key: str, name: str) -> ModuleType:
    """The module that `name` means, imported once per process. key: the setting, for errors."""
    file, _ = task_file(name)
    try:
        if file is None:
            return importlib.import_module(name.rpartition(":")[0])
        path = file.expanduser().absolute()
        if path.is_file():
            _import_anew(path.parent)
            return _from_file(path)
    except (Exception, SystemExit) as error:  # also fl_dp's own errors: the user's code may have raised them
        raise TaskError(f"{key} = {name!r}: cannot be imported: {type(error).__name__}: {error}") from error
    raise TaskNameError(f"{key} = {str(path)!r}: no such file.")


_PREFIX = "fl_dp_task_"  # of a module by its file's path


def package_depth(module: str) -> int:
    """How many folders above its file the package of an imported module begins; 0 for a single file."""
    return 0 if module.startswith(_PREFIX) else module.count(".")


_seen: dict[Path, State] = {}  # the modules of each folder


def _import_anew(folder: Path) -> None:
    """Drop the folder's imported modules if a file of it has changed: others may have imported from it."""
    state = state_of(sorted(folder.glob("*.py")))
    before, _seen[folder] = _seen.get(folder, ()), state
    if set(before) <= set(state):
        return
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and name != "__main__" and Path(file).parent == folder:
            del sys.modules[name]
            with suppress(OSError):  # a compiled file is matched only by the edit's second and the size
                Path(importlib.util.cache_from_source(file)).unlink(missing_ok=True)
    importlib.invalidate_caches()


class _SourceLoader(SourceFileLoader):
    """Always compiles the source: a compiled file is matched only by the edit's second and the size."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _from_file(file: Path) -> ModuleType:
    """The module in `file`, imported once per process unless it changes. It can import files beside it."""
    content = blake2b(str(file).encode() + b"\0" + file.read_bytes(), digest_size=8)
    name = f"{_PREFIX}{content.hexdigest()}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file, loader=_SourceLoader(name, str(file)))
    assert spec is not None
    assert spec.loader is not None
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))  # at the end: nothing there shadows what is installed
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # as an import does: dataclasses and pickles look there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
