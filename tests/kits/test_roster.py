"""Rosters and join requests: signed whole, of the right types, whoever has written them."""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kits.made import Made, federation_in

from fl_dp.errors import ConfigError
from fl_dp.kits.keys import SigningKey
from fl_dp.kits.roster import (
    Roster,
    Site,
    check_name,
    expiry,
    read_bounded,
    read_join_request,
    split_address,
    write_join_request,
)

Body = dict[str, Any]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Its roster is read and never written."""
    return federation_in(tmp_path_factory.mktemp("made"))


def test_a_roster_contains_only_what_was_signed(made: Made) -> None:
    roster = Roster.read(made.roster, made.authority.public)
    assert Roster.read(made.signed(lambda body: None)) == roster
    with pytest.raises(ConfigError, match="signed by another authority"):
        Roster.read(made.roster, SigningKey.generate().public)
    assert [site.name for site in roster.sites] == ["north", "south"]
    assert roster.addresses == ("fl.example.org:9092",)
    assert roster.site_of(roster.sites[1].key) == roster.sites[1]
    assert roster.site_of("0" * 64) is None
    assert not roster.is_over()
    assert roster.is_over(datetime.now(UTC) + timedelta(days=366))


@pytest.mark.parametrize("field", ["federation", "serial", "expires", "server", "addresses", "sites"])
def test_no_field_can_be_changed_by_others(field: str, made: Made, tmp_path: Path) -> None:
    table = json.loads(made.roster.read_text())
    before = table["roster"][field]
    table["roster"][field] = before[:-1] if not isinstance(before, int) else before + 1
    (tmp_path / "changed").write_text(json.dumps(table))
    with pytest.raises(ConfigError, match="its signature is not valid"):
        Roster.read(tmp_path / "changed")


ODD: dict[str, Callable[[Body], object]] = {
    "an address that is a text": lambda body: body.update(addresses="fl.example.org:9092"),
    "no address": lambda body: body.update(addresses=[]),
    "an address with a user": lambda body: body.update(addresses=["a@b:1"]),
    "a serial that is true": lambda body: body.update(serial=True),
    "a serial of no size": lambda body: body.update(serial=2**63),
    "a serial of 0": lambda body: body.update(serial=0),
    "a date without a zone": lambda body: body.update(expires="2099-01-01T00:00:00"),
    "a date in another spelling": lambda body: body.update(expires="2099-01-01\x1b00:00:00+00:00"),
    "a date before all": lambda body: body.update(expires="0001-01-01T00:00:00+14:00"),
    "no certificate": lambda body: body.update(certificate="hello"),
    "a certificate with an accent": lambda body: body.update(certificate="\u00e9"),
    "a server without a key": lambda body: body.update(server="x" * 64),
    "names that differ in case": lambda body: body["sites"].append({"name": "NORTH", "key": "0" * 64}),
    "a key twice": lambda body: body["sites"].append({**body["sites"][0], "name": "other"}),
    "the server as a site": lambda body: body["sites"].append({"name": "other", "key": body["server"]}),
    "the authority as a site": lambda body: body["sites"].append({"name": "o", "key": body["authority"]}),
    "the authority as the server": lambda body: body.update(server=body["authority"]),
    "a site that climbs": lambda body: body["sites"].append({"name": "../x", "key": "0" * 64}),
    "sites in a table": lambda body: body.update(sites={"north": "0" * 64}),
    "a federation with an accent": lambda body: body.update(federation="h\u00f6spital"),
    "a field more": lambda body: body.update(more=1),
    "a field less": lambda body: body.pop("addresses"),
}


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_roster_is_refused_though_its_authority_has_signed_it(odd: str, made: Made) -> None:
    with pytest.raises(ConfigError):
        Roster.read(made.signed(ODD[odd]), made.authority.public)


NO_ROSTERS = [b"", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"roster": {}, "signature": 1}']


@pytest.mark.parametrize("content", NO_ROSTERS, ids=range(len(NO_ROSTERS)))
def test_invalid_rosters(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "roster.json").write_bytes(content)
    with pytest.raises(ConfigError, match="not a readable roster"):
        Roster.read(tmp_path / "roster.json")


def test_files_that_have_no_end_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, words in (
        (tmp_path / "pipe", "is not a regular file"),
        (tmp_path, r"is a folder; name the file\."),
        (Path("/dev/zero"), "is not a regular file"),
        (tmp_path / "none", "no such file"),
    ):
        with pytest.raises(ConfigError, match=words):
            read_bounded(path, 10)
    (tmp_path / "long").write_bytes(b"x" * 11)
    with pytest.raises(ConfigError, match="longer than 10 bytes"):
        read_bounded(tmp_path / "long", 10)
    assert read_bounded(tmp_path / "long", 11) == b"x" * 11


def test_a_join_request_is_signed_by_the_key_that_it_is_for(tmp_path: Path) -> None:
    key, other = SigningKey.generate(), SigningKey.generate()
    path = tmp_path / "north.join.json"
    write_join_request(path, "north", key)
    assert read_join_request(path) == Site("north", key.public)
    for change in ({"name": "south"}, {"key": other.public}, {"name": "../north"}, {"more": "1"}):
        table = json.loads(path.read_text())
        table["request"] |= change
        (tmp_path / "changed").write_text(json.dumps(table))
        with pytest.raises(ConfigError, match="its signature is not valid"):
            read_join_request(tmp_path / "changed")
    body = {"name": "north", "key": key.public}
    text = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
    table = {"request": body, "signature": key.sign("roster", text).hex()}  # of another purpose
    (tmp_path / "other").write_text(json.dumps(table))
    with pytest.raises(ConfigError, match="its signature is not valid"):
        read_join_request(tmp_path / "other")


def test_an_expiry_counts_days_from_now() -> None:
    assert expiry(2, datetime(2026, 12, 31, tzinfo=UTC)) == "2027-01-02T00:00:00+00:00"


NO_NAMES = ["", ".", "..", "a/b", "../a", "a b", "a\n", "-a", "a-", ".a", "n\u00f6rd", "a\0", 3, None, ["a"]]


def test_names() -> None:
    for name in ("a", "north", "St.Mary-2", "a" * 64):
        assert check_name(name, "site") == name


@pytest.mark.parametrize("name", [*NO_NAMES, "a" * 65, "x" * 10**6], ids=range(len(NO_NAMES) + 2))
def test_invalid_names(name: object) -> None:
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
        "",
        "9092",
        ":9092",
        "host:",
        "host:0",
        "host:65536",
        "host:\u0662",
        "host:" + "9" * 5000,
        "::1:9092",
        "[::1:9092",
        "::1]:9092",
        "[10.0.0.7]:9092",
        "[host]:9092",
        "user@host:9092",
        "host/path:9092",
        "a b:9092",
        "host\n:9092",
        "999.1.1.1:9092",
        "1.2.3:9092",
        "h\u00f6st:9092",
        "a..b:9092",
        "https://host:9092",
        "[fe80::1%eth0/x]:9092",
    ],
)
def test_invalid_addresses(address: str) -> None:
    with pytest.raises(ConfigError, match="expected HOST:PORT"):
        split_address(address, "addresses")
