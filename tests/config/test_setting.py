"""Every setting says what it means."""

from dataclasses import dataclass

import pytest

from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.config.setting import abouts_of, setting


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
