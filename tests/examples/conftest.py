"""Files of an example as modules, by their names: those of other examples are called so, too."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

SCHOOLS = Path(__file__).parents[2] / "examples" / "schools"


@pytest.fixture
def of_schools(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    monkeypatch.setattr(sys, "path", [str(SCHOOLS), *sys.path])
    for name in ("made_up", "prepare", "choose", "measure"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module


@pytest.fixture
def made_up(of_schools: Callable[[str], ModuleType]) -> ModuleType:
    return of_schools("made_up")


@pytest.fixture
def prepare(of_schools: Callable[[str], ModuleType]) -> ModuleType:
    return of_schools("prepare")


@pytest.fixture
def choose(of_schools: Callable[[str], ModuleType]) -> ModuleType:
    return of_schools("choose")
