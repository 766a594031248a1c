"""Limits the connections to the server's port, by source address, when they are accepted, before TLS.

A connection is a stranger's until a site of the roster has signed a request in it. No site's connection makes
room for a stranger. Among strangers, a new connection replaces one drawn at random, so a site has a fair
chance in each try even during a flood of idle connections. Addresses from which a site has signed before have
their own places, which strangers at other addresses cannot take.
"""

import ipaddress
import random
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

OF_ADDRESS = 64  # connections of strangers at one address
OF_KNOWN_ADDRESS = 512  # the same, if a site has signed a request from there
OF_SITE = 32  # connections in which one site has signed; a new one ends its oldest
_ADDRESSES_OF_SITE = 8  # remembered for each site
_IPV6_NETWORK = 64  # bits of the prefix: one customer has all addresses in such a network


@dataclass(eq=False, slots=True)
class Place:
    """One connection. end: closes it. site: the key that has signed a request in it; empty before."""

    source: str
    end: Callable[[], None]
    site: str = ""


class _Drawn:
    """A set of places from which one can be drawn at random. All operations take constant time."""

    def __init__(self) -> None:
        self.all: list[Place] = []
        self._at: dict[Place, int] = {}

    def __len__(self) -> int:
        return len(self.all)

    def add(self, place: Place) -> None:
        self._at[place] = len(self.all)
        self.all.append(place)

    def remove(self, place: Place) -> None:
        at, last = self._at.pop(place), self.all.pop()
        if last is not place:
            self.all[at], self._at[last] = last, at


class Places:
    """At most `most` connections: half for strangers at unknown addresses, a quarter for strangers at known.

    Not thread-safe. rng: draws the stranger that makes room.
    """

    def __init__(self, most: int, rng: random.Random | None = None) -> None:
        self.most = most
        self._rng = rng or random.SystemRandom()
        self._strangers: dict[str, list[Place]] = {}  # by source: those without a site
        self._strange, self._others = _Drawn(), _Drawn()  # the same, at unknown and at known sources
        self._sites: dict[str, list[Place]] = {}  # by key, the oldest first
        self._sources: dict[str, OrderedDict[str, None]] = {}  # by key: its last sources
        self._known: Counter[str] = Counter()  # by source: the number of sites that signed from there

    def __len__(self) -> int:
        return len(self._strange) + len(self._others) + sum(map(len, self._sites.values()))

    def enter(self, address: str, end: Callable[[], None]) -> Place | None:
        """A place for a new connection, which may end another one; None if there is no room."""
        source = source_of(address)
        known = source in self._known
        here = self._strangers.get(source, [])
        if len(here) >= (OF_KNOWN_ADDRESS if known else OF_ADDRESS):
            self._end(self._rng.choice(here))
        elif not self._make_room(known=known):
            return None
        place = Place(source, end)
        self._strangers.setdefault(source, []).append(place)
        self._drawn(source).add(place)
        return place

    def leave(self, place: Place) -> None:
        """Free the place of a connection that has ended, or is about to."""
        groups, name = (self._sites, place.site) if place.site else (self._strangers, place.source)
        group = groups.get(name, [])
        if place in group:
            group.remove(place)
            if not place.site:
                self._drawn(name).remove(place)
            if not group:
                del groups[name]

    def sign(self, place: Place, site: str) -> None:
        """Note that a site of the roster has signed a request in this connection. site: its key."""
        self._remember(site, place.source)
        if place.site or place not in self._strangers.get(place.source, []):
            return  # already a site's, or just ended
        self.leave(place)
        place.site = site
        own = self._sites.setdefault(site, [])
        own.append(place)
        if len(own) > OF_SITE:
            self._end(own[0])

    def relieve(self) -> None:
        """End a quarter of the strangers' connections when the process has no descriptor left."""
        strangers = self._strange.all or self._others.all
        for place in self._rng.sample(strangers, (len(strangers) + 3) // 4):
            self._end(place)

    def _make_room(self, *, known: bool) -> bool:
        """End a stranger's connection if the newcomer's kind, or the whole, is full. False: no room."""
        strange, others = self._strange, self._others
        own, most = (others, self.most // 4) if known else (strange, self.most // 2)
        if len(own) >= most:
            victims = own
        elif len(self) < self.most:
            return True
        else:
            victims = others if known and not strange else strange
        if victims:
            self._end(self._rng.choice(victims.all))
        return bool(victims)

    def _drawn(self, source: str) -> _Drawn:
        return self._others if source in self._known else self._strange

    def _end(self, place: Place) -> None:
        self.leave(place)
        place.end()

    def _remember(self, site: str, source: str) -> None:
        sources = self._sources.setdefault(site, OrderedDict())
        if source in sources:
            sources.move_to_end(source)
            return
        sources[source] = None
        self._count(source, 1)
        if len(sources) > _ADDRESSES_OF_SITE:
            self._count(sources.popitem(last=False)[0], -1)

    def _count(self, source: str, more: int) -> None:
        """Count one more, or one fewer, site at that source; its strangers may change their kind by that."""
        before = self._drawn(source)
        self._known[source] += more
        if not self._known[source]:
            del self._known[source]
        after = self._drawn(source)
        for place in self._strangers.get(source, []) if after is not before else ():
            before.remove(place)
            after.add(place)


def source_of(address: str) -> str:
    """What connections are counted by: the IPv4 address, even if written as IPv6, or the IPv6 network."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is None:
            return str(ipaddress.ip_network((found, _IPV6_NETWORK), strict=False))
        found = found.ipv4_mapped
    return str(found)
