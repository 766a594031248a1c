"""Settings of a setting: TOML, in one line, and nothing behind it."""

import pytest

from fl_dp.config.inline import LONGEST, inline_table
from fl_dp.errors import ConfigError


def test_it_is_what_stands_inside_an_inline_table():
    text = "betas=[0.9,0.99], weight_decay=0.01, amsgrad=true"
    assert inline_table("k", text) == {"betas": [0.9, 0.99], "weight_decay": 0.01, "amsgrad": True}
    assert inline_table("k", "") == {}


@pytest.mark.parametrize(
    "text", ["betas", "a=", "a=1}\nb={", "a=1}, other={", "a=1 # }", "x" * (LONGEST + 1)]
)
def test_everything_else_is_refused(text):
    with pytest.raises(ConfigError, match=r"^optimizer-settings = "):
        inline_table("optimizer-settings", text)
