import tomllib

import pytest

from fl_dp.config.client import ClientConfig
from fl_dp.config.keys import by_group, keys_of, toml_value
from fl_dp.config.run import RunConfig


@pytest.mark.parametrize("kind", [RunConfig, ClientConfig])
def test_every_default_is_toml_of_the_same_value(kind):
    for key in keys_of(kind):
        if key.default:
            read = tomllib.loads(f"value = {key.default}")["value"]
            assert read == getattr(kind, key.name.replace("-", "_"))
            assert type(read) is type(getattr(kind, key.name.replace("-", "_")))


def test_all_keys_are_there_once_and_those_of_a_group_together():
    keys = keys_of(RunConfig)
    assert {key.name for key in keys} == RunConfig().to_flat().keys()
    groups = [group for group, _ in by_group(keys)]
    assert len(groups) == len(set(groups))
    first, *others = by_group(keys, common_first=True)
    assert {"data", "clients", "rounds", "epsilon", "noise-multiplier"} <= {key.name for key in first[1]}
    named = [key.name for _, members in (first, *others) for key in members]
    assert sorted(named) == sorted(key.name for key in keys)


def test_choices_stand_in_the_place_of_a_type():
    expected = {key.name: key.expected for key in keys_of(RunConfig)}
    assert expected["weights"] == "declared, uniform, noise"
    assert "lenet-gn" in expected["model"]
    assert expected["image-mode"] == "L, RGB"
    assert expected["rounds"] == "an integer from 1 to 1000000"


def test_values_as_toml():
    assert [toml_value(one) for one in (True, 'a "b"', 1, 0.5, float("inf"))] == [
        "true", '"a \\"b\\""', "1", "0.5", "inf",
    ]  # fmt: skip
