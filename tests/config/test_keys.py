from fl_dp.config.keys import by_group, keys_of, toml_value
from fl_dp.config.run import RunConfig


def test_all_keys_are_there_once_and_those_of_a_group_together():
    keys = keys_of(RunConfig)
    assert {key.name for key in keys} == RunConfig().to_flat().keys()
    groups = [group for group, _ in by_group(keys)]
    assert len(groups) == len(set(groups))
    first, *others = by_group(keys, common_first=True)
    assert {"data", "clients", "rounds", "epsilon", "noise-multiplier"} <= {key.name for key in first[1]}
    named = [key.name for _, members in (first, *others) for key in members]
    assert sorted(named) == sorted(key.name for key in keys)


def test_values_as_toml():
    assert [toml_value(one) for one in (True, 'a "b"', 1, 0.5, float("inf"))] == [
        "true", '"a \\"b\\""', "1", "0.5", "inf",
    ]  # fmt: skip
