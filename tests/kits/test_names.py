"""Names and addresses that can stand in a path, a URL and a signed text."""

import pytest

from fl_dp.errors import ConfigError
from fl_dp.kits.roster import check_name, split_address

NO_NAMES = ["", ".", "..", "a/b", "../a", "a b", "a\n", "-a", "a-", ".a", "n\u00f6rd", "a\0", 3, None, ["a"]]


def test_names() -> None:
    for name in ("a", "north", "St.Mary-2", "a" * 64):
        assert check_name(name, "site") == name


@pytest.mark.parametrize("name", [*NO_NAMES, "a" * 65, "x" * 10**6], ids=range(len(NO_NAMES) + 2))
def test_what_is_no_name(name: object) -> None:
    """A long one is not said whole."""
    with pytest.raises(ConfigError, match="expected at most 64 letters") as caught:
        check_name(name, "site")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [
        ("fl.example.org:9092", "fl.example.org", 9092),
        ("10.0.0.7:1", "10.0.0.7", 1),
        ("[::1]:9092", "::1", 9092),
        ("[2001:db8::1]:65535", "2001:db8::1", 65535),
        ("localhost:80", "localhost", 80),
    ],
)
def test_addresses(address: str, host: str, port: int) -> None:
    assert split_address(address, "addresses") == (host, port)


@pytest.mark.parametrize(
    "address",
    [
        "", "9092", ":9092", "host:", "host:0", "host:65536", "host:\u0662", "host:" + "9" * 5000, "::1:9092",
        "[::1:9092", "::1]:9092", "[10.0.0.7]:9092", "[host]:9092", "user@host:9092", "host/path:9092",
        "a b:9092", "host\n:9092", "999.1.1.1:9092", "1.2.3:9092", "h\u00f6st:9092", "a..b:9092",
        "https://host:9092", "[fe80::1%eth0/x]:9092",
    ],
)  # fmt: skip
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(ConfigError, match="expected HOST:PORT"):
        split_address(address, "addresses")
