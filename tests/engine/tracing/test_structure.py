"""Whatever holds tensors is looked through, and comes back as what it was."""

import weakref
from collections import OrderedDict, UserDict, namedtuple
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch

from fl_dp.engine.tracing.structure import map_tensors, tensors

Pair = namedtuple("Pair", "left right")


@dataclass(frozen=True)
class Frozen:
    x: torch.Tensor
    name: str = "x"


ONE, TWO = torch.ones(2), torch.zeros(3)


def _double(tensor):
    return tensor * 2


def test_tensors_are_found_with_their_paths_in_order():
    assert [path for path, _ in tensors(ONE)] == [""]
    structure = ({"a": ONE, "b": [None, Pair(3, TWO)]}, Frozen(ONE), "text", MappingProxyType({1: TWO}))
    assert [path for path, _ in tensors(structure)] == ["[0]['a']", "[0]['b'][1].right", "[1].x", "[3][1]"]


def test_every_tensor_is_changed_and_types_stay():
    structure = [
        (ONE,),
        {"a": ONE},
        OrderedDict(b=TWO),
        Pair(ONE, 1),
        Frozen(ONE),
        ONE,
        MappingProxyType({"c": ONE}),
    ]
    changed = map_tensors(lambda tensor: tensor * 2, structure)
    assert [type(part) for part in changed[:-1]] == [type(part) for part in structure[:-1]]
    assert isinstance(changed[-1], Mapping)
    pairs = list(zip(tensors(changed), tensors(structure), strict=True))
    assert all(torch.equal(new, old * 2) for (_, new), (_, old) in pairs)
    assert torch.equal(ONE, torch.ones(2))


def test_what_holds_no_tensor_is_passed_on_as_it_is():
    other = {"flag": True, "size": torch.Size([1, 2]), "nothing": None, "list": [1, "a"]}
    assert map_tensors(_double, other) is other


def test_a_tensor_in_several_places_stays_one():
    query, (key, value) = map_tensors(_double, (ONE, (ONE, ONE)))
    assert query is key is value


def test_tensors_that_are_made_on_request_are_not_taken_for_one_another():
    """One that was gone would leave its identity to the next one, which would then count as changed."""

    class Lazy(UserDict):
        def __getitem__(self, key):
            return super().__getitem__(key).clone()

    given = []

    def change(tensor):
        assert all(one() is not None for one in given)
        given.append(weakref.ref(tensor))
        return tensor + 1

    map_tensors(change, [Lazy(x=ONE), Lazy(x=TWO)])
    assert len(given) == 2
