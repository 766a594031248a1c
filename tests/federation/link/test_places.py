"""Who may hold a connection, by rules alone: no sockets."""

import random
import time

import pytest

from fl_dp.federation.link import places
from fl_dp.federation.link.places import OF_ADDRESS, OF_SITE, Place, Places, source_of


class Port:
    """Places for `most`, and which connections have been ended."""

    def __init__(self, most: int) -> None:
        self.places, self.ended = Places(most, random.Random(0)), 0

    def enter(self, address: str) -> Place | None:
        return self.places.enter(address, self._end)

    def site(self, address: str, key: str) -> Place:
        place = self.enter(address)
        assert place is not None
        self.places.sign(place, key)
        return place

    def _end(self) -> None:
        self.ended += 1


def many(number: int) -> list[str]:
    return [f"10.0.{one // 250}.{one % 250}" for one in range(number)]


def test_strangers_have_half_of_the_places_and_a_newcomer_takes_one_of_theirs() -> None:
    port = Port(100)
    assert all(port.enter(address) for address in many(1000))
    assert (len(port.places), port.ended) == (50, 950)
    assert port.site("10.9.9.9", "key").site == "key"


def test_one_address_has_no_more_than_its_part() -> None:
    port = Port(10_000)
    for _ in range(1000):
        assert port.enter("10.0.0.1")
    assert len(port.places) == OF_ADDRESS


def test_a_site_keeps_its_connection_and_its_address_in_a_flood() -> None:
    port = Port(100)
    ends: list[str] = []
    place = port.places.enter("10.0.0.1", lambda: ends.append("the site's"))
    assert place is not None
    port.places.sign(place, "key")
    for address in many(500) * 2:
        port.enter(address)  # among them its own
    again = port.places.enter("10.0.0.1", lambda: ends.append("its next"))
    assert again is not None
    for address in many(500)[2:]:
        port.enter(address)
    assert ends == []


def test_a_site_behind_the_address_of_a_flood_has_a_chance_in_each_try() -> None:
    """Its first request takes as long as 100 newcomers of the flood."""
    port, tries, reached = Port(4096), 200, 0
    port.site("10.0.0.1", "key")
    for _ in range(tries):
        place = port.enter("10.0.0.1")
        assert place is not None
        for _ in range(100):
            port.enter("10.0.0.1")
        port.places.sign(place, "another")
        reached += place.site == "another"
    assert reached > tries // 2


def test_one_site_holds_so_many_connections_and_its_oldest_ends_for_another() -> None:
    port = Port(1000)
    ends: list[int] = []
    for one in range(OF_SITE + 3):
        place = port.places.enter("10.0.0.1", lambda one=one: ends.append(one))
        assert place is not None
        port.places.sign(place, "key")
    assert ends == [0, 1, 2]
    assert len(port.places) == OF_SITE


def test_a_site_makes_few_addresses_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise one site with a key could keep the places of all others."""
    port = Port(1000)
    for address in many(100):
        port.places.leave(port.site(address, "key"))
    assert len(port.places._known) == places._ADDRESSES_OF_SITE
    assert (port.places._strangers, port.places._sites) == ({}, {})  # of those that left nothing is kept


def test_closed_connections_are_not_counted() -> None:
    port = Port(100)
    place = port.enter("10.0.0.1")
    assert place is not None
    port.places.leave(place)
    port.places.leave(place)
    port.places.sign(place, "key")  # its request was under way
    assert (len(port.places), place.site) == (0, "")


def test_a_part_of_the_strangers_goes_when_descriptors_are_short() -> None:
    port = Port(1000)
    port.site("10.1.1.1", "key")
    for address in many(40):
        port.enter(address)
    port.places.relieve()
    assert (port.ended, len(port.places)) == (10, 31)


def test_where_descriptors_are_short_strangers_at_sites_addresses_go_last() -> None:
    port = Port(1000)
    port.site("10.1.1.1", "key")
    for address in ("10.1.1.1",) * 8 + ("10.2.2.2",):
        port.enter(address)
    port.places.relieve()
    assert "10.2.2.2" not in port.places._strangers
    assert (port.ended, len(port.places)) == (1, 9)
    port.places.relieve()
    assert (port.ended, len(port.places)) == (3, 7)


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8::1:2:3:4", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_a_source_is_one_address_or_one_network_of_ipv6(address: str, source: str) -> None:
    assert source_of(address) == source


def test_a_flood_takes_no_longer_to_enter_the_more_strangers_are_there() -> None:
    """All of them were looked at for each newcomer: a third of the server's time under ten thousand."""
    seconds = []
    for most in (100, 20_000):
        port = Port(most)
        addresses = many(most)
        for address in addresses:
            port.enter(address)
        begun = time.perf_counter()
        for address in addresses[:100]:
            port.enter(address)
        seconds.append(time.perf_counter() - begun)
    assert seconds[1] < 20 * seconds[0]  # 300 times as long, before


def test_strangers_are_counted_anew_where_a_site_signs_and_where_it_was_long_ago() -> None:
    """At a site's address they leave the others' half, and come back to it when the address is forgotten."""
    port = Port(100)
    for address in many(40):
        port.enter(address)
    for address in many(places._ADDRESSES_OF_SITE + 1):  # the first one is forgotten with the last one
        port.site(address, "key")
    assert (len(port.places._strange), len(port.places._others)) == (32, 8)
    port.places.relieve()
    assert (len(port.places._strange), len(port.places._others)) == (24, 8)
