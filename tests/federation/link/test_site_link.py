"""A site's end: it trusts only its own server, and reports the state of the connection."""

import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import flwr.app.message.message as flower
import pytest
from federation.link.wired import REPORT, Federation, Front
from flwr.app import ConfigRecord, RecordDict
from flwr.proto.fleet_pb2 import PullMessagesResponse
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.proto.message_pb2 import ObjectTree

from fl_dp.errors import FederationError
from fl_dp.federation.link import door, link_grid, listener
from fl_dp.federation.link.listener import listening
from fl_dp.federation.link.signed_message import Bearing, signed
from fl_dp.federation.link.site_link import LinkLostError, LinkRefusedError, SiteLink
from fl_dp.kits.certificates import make_server
from fl_dp.kits.keys import SigningKey
from fl_dp.kits.kit import ROSTER, accept
from fl_dp.kits.provision import loopback_server, loopback_site
from fl_dp.kits.roster import Roster


def test_no_port_is_opened_at_a_site(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "LONG_POLL", 0.01)

    def listening() -> int:
        """Sockets of this process that listen."""
        inodes = set()
        for name in os.listdir("/proc/self/fd"):
            try:
                inodes.add(os.readlink(f"/proc/self/fd/{name}"))
            except FileNotFoundError:
                continue
        tables = [Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
        lines = [line for table in tables for line in table]
        return sum(f"socket:[{line.split()[9]}]" in inodes for line in lines if line.split()[3] == "0A")

    before = listening()
    assert before >= 1  # the server's, in this same process
    link = federation.joined("north")
    link.beat()
    assert link.next_message() is None
    assert listening() == before


def by_another_key(content: RecordDict, bearing: Bearing, key: SigningKey) -> RecordDict:
    return signed(content, bearing, SigningKey.generate())


def for_another_site(content: RecordDict, bearing: Bearing, key: SigningKey) -> RecordDict:
    return signed(content, replace(bearing, site=SigningKey.generate().public), key)


def changed_on_the_way(content: RecordDict, bearing: Bearing, key: SigningKey) -> RecordDict:
    return RecordDict({**signed(content, bearing, key), "plan": ConfigRecord({"steps": 30})})


@pytest.mark.parametrize("forged", [by_another_key, for_another_site, changed_on_the_way])
def test_an_instruction_that_the_server_has_not_signed_for_this_site_is_not_followed(
    federation: Federation, monkeypatch: pytest.MonkeyPatch, forged: Any
) -> None:
    link = federation.joined("north")
    monkeypatch.setattr(link_grid, "signed", forged)
    federation.ask("north")
    with pytest.raises(FederationError, match="the instruction lacks the signature"):
        link.next_message()


def test_a_server_that_is_not_there_is_lost(federation: Federation) -> None:
    with (
        closing(SiteLink(federation.sites["north"], "127.0.0.1:1")) as link,
        pytest.raises(LinkLostError),
    ):
        link.join()


def test_another_server_at_the_address_is_not_spoken_to(federation: Federation, tmp_path: Path) -> None:
    """Its certificate is of another authority."""
    loopback_server(tmp_path, 1)
    with pytest.raises(LinkLostError, match="CERTIFICATE_VERIFY_FAILED"):
        federation.link("north", loopback_site(tmp_path, "north")).join()


def test_a_refusal_says_why(federation: Federation) -> None:
    stranger = replace(federation.sites["north"], key=SigningKey.generate())
    with pytest.raises(LinkRefusedError, match="not a site of this federation") as refused:
        federation.link("stranger", stranger).join()
    assert not refused.value.is_over
    assert not refused.value.has_lapsed


def test_a_site_that_has_joined_elsewhere_since_is_told(federation: Federation) -> None:
    first = federation.joined("north")
    federation.joined("north")
    with pytest.raises(LinkRefusedError, match="joined again since") as refused:
        first.beat()
    assert refused.value.has_lapsed


def test_the_times_of_a_reply_are_the_servers_own(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flower compares them: a site whose clock is off would be late before it began."""
    link = federation.joined("north")
    message = federation.asked("north", link)
    late = flower.now() + timedelta(seconds=250)
    monkeypatch.setattr(flower, "now", lambda: late)
    link.answer(message, REPORT)
    assert federation.reply_to(message).has_content()


def test_a_kit_whose_roster_has_ended_is_known_by_itself_and_so_is_a_newer_one(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = federation.sites["north"]
    over = replace(kit, roster=replace(kit.roster, expires="2020-01-01T00:00:00+00:00"))
    link = federation.link("north", over)
    assert not link.kit_has_ended
    link.join()
    monkeypatch.setattr(Roster, "is_over", lambda roster: True)
    assert federation.link("north").kit_has_ended


@pytest.fixture
def changing(tmp_path: Path) -> Iterator[tuple[Federation, Path]]:
    """A federation whose keys and roster may change, and their folder."""
    loopback_server(tmp_path, 1)
    sites = {"north": loopback_site(tmp_path, "north")}
    made = Federation(loopback_server(tmp_path, 1), sites)
    with listening(made.door, made.server, "127.0.0.1", 0) as made.port, closing(made):
        yield made, tmp_path


def accepted(federation: Federation, folder: Path, **changes: Any) -> Roster:
    """North's kit has a newer roster, which says other things."""
    key = SigningKey.load(folder / "authority" / "authority.key")
    before = Roster.read(federation.sites["north"].folder / ROSTER)
    newer = replace(before, serial=before.serial + 1, **changes)
    newer.save(folder / "newer.json", key)
    return accept(federation.sites["north"].folder, folder / "newer.json")


def test_a_stolen_key_that_the_new_roster_lacks_is_refused(
    changing: tuple[Federation, Path],
) -> None:
    """The client runs on; it believed whom the roster named when it was started."""
    thief, folder = changing
    link = thief.joined("north")
    asked = thief.asked("north", link)
    thief.ask("north")
    accepted(thief, folder, server=SigningKey.generate().public)
    with pytest.raises(FederationError, match="another server than the one that asked"):
        link.answer(asked, REPORT)
    with pytest.raises(FederationError, match="the instruction lacks the signature"):
        link.next_message()


def test_nothing_is_accepted_while_the_roster_cannot_be_read(changing: tuple[Federation, Path]) -> None:
    federation, _ = changing
    link = federation.joined("north")
    roster = federation.sites["north"].folder / ROSTER
    content = roster.read_bytes()
    roster.write_bytes(b"{}")
    federation.ask("north")
    for use in (link.next_message, link.join, link.join):
        with pytest.raises(FederationError, match="this site's kit cannot be used"):
            use()
    roster.write_bytes(content)
    link.join()


def test_the_addresses_of_a_roster_are_tried_in_turn_and_so_are_those_of_a_newer_one(
    changing: tuple[Federation, Path],
) -> None:
    federation, folder = changing
    kit = federation.sites["north"]
    with closing(SiteLink(kit)) as link:
        with pytest.raises(LinkLostError):
            link.join()
        accepted(federation, folder, addresses=("127.0.0.1:1", "127.0.0.1:2", federation.address))
        link.join()
        assert federation.answer("north", link).has_content()
        link.join()  # at the address that has answered
        accepted(federation, folder, addresses=("127.0.0.1:1",))
        with pytest.raises(LinkLostError):
            link.join()


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize(("host", "reached"), [("::1", ["[::1]"]), ("::", ["[::1]", "127.0.0.1"])])
def test_a_server_is_reached_by_ipv6(keys: Front, host: str, reached: list[str]) -> None:
    """Everywhere is IPv4 as well."""
    made = Federation(keys.server, keys.sites)
    with closing(made), listening(made.door, made.server, host, 0) as port:
        for one in reached:
            with closing(SiteLink(keys.sites["north"], f"{one}:{port}")) as link:
                link.join()
                assert made.answer("north", link).has_content()


def test_a_new_certificate_is_served_by_the_server_that_runs(
    changing: tuple[Federation, Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Half of it, or another authority's, is not taken; connections that are there stay."""
    federation, folder = changing
    monkeypatch.setattr(listener, "_LOOK_SECONDS", 0.0)
    caplog.set_level("INFO", "fl_dp")
    link, kit = federation.joined("north"), federation.server

    def served() -> bytes | None:
        trust = ssl.create_default_context(cadata=kit.roster.certificate)
        with (
            socket.create_connection(("127.0.0.1", federation.port), timeout=5) as plain,
            trust.wrap_socket(plain, server_hostname="127.0.0.1") as made,
        ):
            return made.getpeercert(binary_form=True)

    before, key = served(), kit.tls_key.read_bytes()
    authority = folder / "authority"
    make_server([], 9, authority / "ca.crt", authority / "ca.key", kit.tls_certificate, kit.tls_key)
    new = kit.tls_key.read_bytes()
    kit.tls_key.write_bytes(key)
    assert served() == before
    assert caplog.text.count("the new certificate is not used") == 1
    kit.tls_key.write_bytes(new)
    after = served()
    assert after == ssl.PEM_cert_to_DER_cert(kit.tls_certificate.read_text())
    assert after != before
    assert caplog.text.count("a new certificate is used from now on") == 1
    link.beat()


@pytest.mark.parametrize("trees", [0, 1])
def test_an_invalid_message_does_not_end_a_site(
    federation: Federation, monkeypatch: pytest.MonkeyPatch, trees: int
) -> None:
    link = federation.joined("north")
    answer = PullMessagesResponse(messages_list=[ProtoMessage()], message_object_trees=[ObjectTree()] * trees)
    monkeypatch.setattr(link._client, "PullMessages", lambda request: answer)
    with pytest.raises((FederationError, LinkRefusedError)):
        link.next_message()
