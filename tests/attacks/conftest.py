"""Attacks on whole federations take the clients and grids that the federation's and simulation's tests have.

Makes `moving` importable.
"""

import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
import torch
from federation.link.wired import keys, linked


def _tests_of(floor: str) -> ModuleType:
    """The conftest of another folder of tests, as a module of its own."""
    spec = spec_from_file_location(f"{floor}_in_attacks", Path(__file__).parents[1] / floor / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


sys.path.insert(0, str(Path(__file__).parent))
_federation, _simulation = _tests_of("federation"), _tests_of("simulation")

_flower_task = _federation._flower_task
real_client = _federation.real_client
fakes = _federation.fakes
fake_ray = _simulation.fake_ray
federation = _simulation.federation

__all__ = ["keys", "linked"]


@pytest.fixture
def random_state() -> Iterator[None]:
    """Torch's, as it was: for searches that seed it."""
    state = torch.get_rng_state()
    yield
    torch.set_rng_state(state)
