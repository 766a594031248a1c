"""What fl_dp uses of Flower's inside, which any release may change: the list is flower_inside.json.

After a move to another Flower, read what the failing test names, in both versions. Then write the list anew:

    PYTHONPATH=. python tests/federation/link/test_flower_inside.py
"""

import ast
import hashlib
import inspect
import json
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType

import pytest
from google.protobuf.message import Message

import fl_dp

HERE = Path(__file__).with_name("flower_inside.json")
PUBLIC = {"flwr.app", "flwr.clientapp", "flwr.serverapp", "flwr.serverapp.strategy"}


def used():
    """module.name of each import from a module of Flower that is not public."""
    found = set()
    for path in Path(fl_dp.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert not any(name.name.split(".")[0] == "flwr" for name in node.names), path
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "flwr":
                found |= {f"{node.module}.{one.name}" for one in node.names if node.module not in PUBLIC}
    return sorted(found)


def print_of(name):
    """What changes if the thing does: a message's fields, a value, or a digest of source."""
    module, _, attribute = name.rpartition(".")
    thing = getattr(import_module(module), attribute, None) or import_module(name)
    if isinstance(thing, type) and issubclass(thing, Message):
        return ", ".join(f"{field.name} {field.number} {field.type}" for field in thing.DESCRIPTOR.fields)
    if isinstance(thing, type):
        return digest(one for one in thing.__mro__ if one.__module__.startswith("flwr."))
    return digest([thing]) if isinstance(thing, ModuleType | FunctionType) else repr(thing)


def digest(things):
    source = "\n".join(inspect.getsource(one) for one in things)
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def test_the_list_has_all_that_is_used_and_nothing_else():
    assert used() == list(json.loads(HERE.read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", used())
def test_it_is_as_it_was_when_it_was_read(name):
    noted = json.loads(HERE.read_text(encoding="utf-8"))
    assert print_of(name) == noted[name], f"Flower has changed {name}"


if __name__ == "__main__":
    HERE.write_text(json.dumps({name: print_of(name) for name in used()}, indent=2) + "\n", encoding="utf-8")
