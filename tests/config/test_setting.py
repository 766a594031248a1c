"""Every setting says what it means."""

import re
from dataclasses import dataclass

import pytest

from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.config.setting import abouts_of, needed, setting
from fl_dp.config.values import key_of

KINDS = (RunConfig, ClientConfig)
ALL = [
    pytest.param(about, id=f"{kind.__name__}.{name}")
    for kind in KINDS
    for name, about in abouts_of(kind).items()
]


@pytest.mark.parametrize("about", ALL)
def test_a_meaning_is_a_phrase(about):
    assert 5 < len(about.meaning) < 200
    assert not about.meaning.endswith(".")
    assert about.group


def test_keys_that_a_meaning_names_are_there():
    """Of a meaning that speaks of other keys, such as `see sampling`."""
    for kind in KINDS:
        keys = {key_of(name) for name in abouts_of(kind)}
        for about in abouts_of(kind).values():
            for word in re.findall(r"\b(?:fit|min)-clients\b|\bmemory-mib\b", about.meaning):
                assert word in keys


def test_what_nobody_has_explained_is_refused():
    @dataclass
    class Silent:
        told: int = setting(1, "Group", "what it means")
        silent: int = 2

    with pytest.raises(TypeError, match=r"Silent\.silent: a setting needs its meaning"):
        abouts_of(Silent)


def test_a_client_must_be_told_two_things():
    assert needed(ClientConfig) == {"client", "ledger"}
    assert needed(RunConfig) == frozenset()
