"""Who may hold a connection to the server's port: counted when it is accepted, before TLS, by source address.

A connection is a stranger's until a site of the roster has signed a request in it. Sites never make room for
strangers. Among strangers a newcomer takes the place of one that is drawn by chance: with every flood that
asks for nothing, a site still has a fair chance in each try. An address from which a site has signed before
has places of its own, which strangers at other addresses cannot take.
"""

import ipaddress
import random
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

OF_ADDRESS = 64  # connections of strangers at one address
OF_KNOWN_ADDRESS = 512  # the same, where a site has signed a request from there
OF_SITE = 32  # connections in which one site has signed; its oldest ends for another
_ADDRESSES_OF_SITE = 8  # that are known by it
_IPV6_NETWORK = 64  # bits: of one customer, who has all addresses in it


@dataclass(eq=False, slots=True)
class Place:
    """One connection. end: ends it. site: the key that has signed a request in it; empty before."""

    source: str
    end: Callable[[], None]
    site: str = ""


class _Drawn:
    """Places of which one can be drawn. Nothing of it takes longer the more there are."""

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
    """At most `most` connections. Half of them are for strangers, a quarter for those at sites' addresses.

    For one thread. rng: draws which stranger makes room.
    """

    def __init__(self, most: int, rng: random.Random | None = None) -> None:
        self.most = most
        self._rng = rng or random.SystemRandom()
        self._strangers: dict[str, list[Place]] = {}  # by source: those without a site
        self._strange, self._others = _Drawn(), _Drawn()  # the same, at unknown and at known sources
        self._sites: dict[str, list[Place]] = {}  # by key, the oldest first
        self._sources: dict[str, OrderedDict[str, None]] = {}  # by key: where it was last
        self._known: Counter[str] = Counter()  # sources, by how many sites

    def __len__(self) -> int:
        return len(self._strange) + len(self._others) + sum(map(len, self._sites.values()))

    def enter(self, address: str, end: Callable[[], None]) -> Place | None:
        """A place for a new connection, which may end another; None where there is none."""
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
        """The connection is over, or about to be."""
        groups, name = (self._sites, place.site) if place.site else (self._strangers, place.source)
        group = groups.get(name, [])
        if place in group:
            group.remove(place)
            if not place.site:
                self._drawn(name).remove(place)
            if not group:
                del groups[name]

    def sign(self, place: Place, site: str) -> None:
        """A site of the roster, by its key, has signed a request in this connection."""
        self._remember(site, place.source)
        if place.site or place not in self._strangers.get(place.source, []):
            return  # it is one already; or it has just been ended
        self.leave(place)
        place.site = site
        own = self._sites.setdefault(site, [])
        own.append(place)
        if len(own) > OF_SITE:
            self._end(own[0])

    def relieve(self) -> None:
        """End a part of the strangers' connections: the process has no descriptor left."""
        strangers = self._strange.all or self._others.all
        for place in self._rng.sample(strangers, (len(strangers) + 3) // 4):
            self._end(place)

    def _make_room(self, *, known: bool) -> bool:
        """End a stranger where the newcomer's kind has all its places, or where there is none left at all."""
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
        """One site more, or less, has signed at that source: its strangers may be others' from now on."""
        before = self._drawn(source)
        self._known[source] += more
        if not self._known[source]:
            del self._known[source]
        after = self._drawn(source)
        for place in self._strangers.get(source, []) if after is not before else ():
            before.remove(place)
            after.add(place)


def source_of(address: str) -> str:
    """Whose address it is: an IPv4 address, in whatever form, or the network of an IPv6 one."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is None:
            return str(ipaddress.ip_network((found, _IPV6_NETWORK), strict=False))
        found = found.ipv4_mapped
    return str(found)
