import pytest

from fl_dp.data.sizes import parse_sizes
from fl_dp.errors import ConfigError


def test_sizes_are_integers_separated_by_commas() -> None:
    assert parse_sizes("100, 50,25,1") == (100, 50, 25, 1)


@pytest.mark.parametrize("text", ["", "a", "1,0", "1,-2", "1;2", "1,"])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="partition-sizes"):
        parse_sizes(text)
