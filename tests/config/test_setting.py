"""Every setting says what it means; every number has a least and a greatest, and is held to them."""

import dataclasses
import math
from dataclasses import dataclass

import pytest

from fl_dp.config.client import ClientConfig
from fl_dp.config.flat import Auto
from fl_dp.config.run import RunConfig
from fl_dp.config.setting import abouts_of, accepted_by, setting
from fl_dp.errors import ConfigError


def ranges_of(kind):
    return {name: one.bounds for name, one in accepted_by(kind).items() if one.kind in (int, float)}


KINDS = {RunConfig: {}, ClientConfig: {"client": "a", "ledger": "l"}}
NUMBERS = [
    pytest.param(kind, needed, field, bounds, id=f"{kind.__name__}.{field}")
    for kind, needed in KINDS.items()
    for field, bounds in ranges_of(kind).items()
]


def test_every_number_has_a_range():
    """What has no annotation at all is found by the default's type."""
    for kind in KINDS:
        numbers = {one.name for one in dataclasses.fields(kind) if type(one.default) in (int, float)}
        assert numbers <= ranges_of(kind).keys()
        assert len(numbers) > 10


@pytest.mark.parametrize(("kind", "needed", "field", "bounds"), NUMBERS)
def test_beyond_its_range_a_number_is_refused_by_name(kind, needed, field, bounds):
    key, whole = field.replace("_", "-"), type(getattr(kind, field, None)) is int
    beyond = [bounds.least - 1, *([bounds.least] if bounds.open else [])]
    beyond += [bounds.most * 2 + 1] if bounds.most < math.inf else []
    for value in [*beyond, *([10**20, 2**63] if whole else [math.nan])]:
        flat = {**needed, key: int(value) if whole else float(value)}
        with pytest.raises(ConfigError, match=rf"^{key} = .*: expected "):
            kind.from_flat(flat)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("seed = 9223372036854775808", "seed = 9223372036854775808: expected an integer from 0"),
        (f"seed = {'9' * 400}", "seed = a number of more than 30 digits: expected"),
        (f"seed = {'9' * 5000}", "not a readable TOML file"),
        (f"epsilon = {'9' * 400}", "epsilon = a number of more than 30 digits: expected a number > 0"),
        ("round-timeout = 1e300", r"round-timeout = 1e\+300: expected a number > 0 and <= 1e\+08"),
        (f"data = {'[' * 5000}", "brackets are nested too deeply"),
        ("data = 'a", "not a readable TOML file"),
        ("seed = 2020-01-01", "seed = .*: expected an integer from 0"),
    ],
)
def test_a_file_with_such_numbers_is_refused_by_its_name(tmp_path, text, words):
    file = tmp_path / "run.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=rf"run\.toml(, line 1)?: .*{words}"):
        RunConfig.from_toml(file)


def test_a_number_without_a_range_is_refused():
    @dataclass
    class Wrong:
        number: int | Auto = setting(0, "Group", "what it means")

    with pytest.raises(TypeError, match=r"Wrong\.number: a number needs a range"):
        accepted_by(Wrong)


@pytest.mark.parametrize("kind", [RunConfig, ClientConfig])
def test_a_meaning_is_a_phrase(kind):
    for name, about in abouts_of(kind).items():
        assert 5 < len(about.meaning) < 200, name
        assert not about.meaning.endswith("."), name
        assert about.group, name


def test_what_nobody_has_explained_is_refused():
    @dataclass
    class Silent:
        told: int = setting(1, "Group", "what it means")
        silent: int = 2

    with pytest.raises(TypeError, match=r"Silent\.silent: a setting needs its meaning"):
        abouts_of(Silent)
