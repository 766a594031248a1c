"""What an algorithm may be asked for, and which parameters are a site's own."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fl_dp.errors import ConfigError
from fl_dp.records import RoundPlan
from fl_dp.training.local_algorithm import algorithm_of, check_algorithm, has_own_models, personal_names
from fl_dp.training.trainer import update_of

NAMES = ("trunk.weight", "trunk.bias", "head.weight", "head.bias")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("fedavg:0.1", 0.1, 0.5, "sgd"), "fedavg takes no argument"),
        (("fedprox", 0.0, 0.5, "sgd"), "write fedprox:PULL"),
        (("fedprox:0", 0.0, 0.5, "sgd"), "without a pull this is fedavg"),
        (
            ("mr-mtl:2.1", 2.1, 0.5, "sgd"),
            r"pull times learning-rate = 0.5 is above 1, .* a pull of at most 2",
        ),
        (("fedprocks", 0.0, 0.5, "sgd"), "expected .*fedavg or .*mr-mtl"),
    ],
)
def test_a_pull_that_does_nothing_or_overshoots_is_refused(
    given: tuple[str, float, float, str], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        check_algorithm(*given)


def test_what_can_be_is_let_be() -> None:
    for given in (("fedavg", 0.0, 9.0, "sgd"), ("fedprox:2", 2.0, 0.5, "sgd"), ("mr-mtl", 0.0, 9.0, "sgd")):
        check_algorithm(*given)
    check_algorithm("mr-mtl:30", 30.0, 0.5, "adam")  # whose steps are of another length


def test_personal_parameters_are_those_that_patterns_name() -> None:
    assert personal_names("", NAMES) == frozenset()
    assert personal_names("head.*", NAMES) == {"head.weight", "head.bias"}
    assert personal_names("!trunk.*", NAMES) == {"head.weight", "head.bias"}
    with pytest.raises(ConfigError, match=r"personal = .*: .tail.*. matches no trained parameter"):
        personal_names("tail.*", NAMES)
    with pytest.raises(ConfigError, match=r"leaves no parameter that is shared; .*mr-mtl"):
        personal_names("*", NAMES)


def test_who_has_a_model_of_its_own() -> None:
    names = ("fedavg", "fedprox", "mr-mtl")
    assert [name for name in names if has_own_models(name, "")] == ["mr-mtl"]
    assert has_own_models("fedavg", "head.*")


def test_an_update_is_none_where_a_number_is_bad_that_would_stay_at_the_client() -> None:
    """Else a client would go on from it in the next round."""
    plan = RoundPlan("run", 1, "own", 1, 8, 0.1, 0.0, 1.0, 1.0, personal="head.*")
    parameters = {name: torch.zeros(2) for name in NAMES}
    trainer: Any = SimpleNamespace(algorithm=algorithm_of(plan, parameters))
    update = update_of(trainer)
    assert update is not None
    assert update.keys() == {"trunk.weight", "trunk.bias"}
    parameters["head.bias"][0] = torch.nan
    assert update_of(trainer) is None


def test_what_is_kept_does_not_change_when_the_model_does() -> None:
    plan = RoundPlan("run", 1, "own", 1, 8, 0.1, 0.0, 1.0, 1.0, local_algorithm="mr-mtl")
    parameters = {name: torch.zeros(2) for name in NAMES}
    kept = algorithm_of(plan, parameters).kept()
    parameters["head.bias"] += 1
    assert kept.keys() == set(NAMES)
    assert not kept["head.bias"].any()
