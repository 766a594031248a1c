import pytest

from fl_dp.cli.server import split_address
from fl_dp.errors import ConfigError


def test_addresses() -> None:
    assert split_address("0.0.0.0:9092") == ("0.0.0.0", 9092)


@pytest.mark.parametrize("address", ["9092", ":9092", "host:", "host:x", "host:0", "host:65536"])
def test_a_bad_address_is_named(address: str) -> None:
    with pytest.raises(ConfigError, match="expected HOST:PORT"):
        split_address(address)
