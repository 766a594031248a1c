"""A site's end: it believes its own server, and says what became of the connection."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from federation.link.wired import Federation
from flwr.app import ConfigRecord, RecordDict
from flwr.proto.fleet_pb2 import PullMessagesResponse
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.proto.message_pb2 import ObjectTree

from fl_dp.errors import FederationError
from fl_dp.federation.link import link_grid
from fl_dp.federation.link.site_link import LinkLostError, LinkRefusedError, SiteLink
from fl_dp.kits.keys import SigningKey
from fl_dp.kits.kit import SiteKit
from fl_dp.kits.loopback import loopback_server, loopback_site


def test_no_port_is_opened_at_a_site(federation: Federation) -> None:
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


def test_an_instruction_that_the_server_has_not_signed_is_not_followed(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = federation.joined("north")
    monkeypatch.setattr(federation.grid, "_key", SigningKey.generate())
    federation.ask("north")
    with pytest.raises(FederationError, match="the instruction lacks the signature"):
        link.next_message()


def test_nor_one_that_was_made_for_another_site(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = federation.joined("north")
    signed = link_grid.signed

    def for_south(content: RecordDict, bearing: Any, key: Any) -> RecordDict:
        return signed(content, replace(bearing, site=federation.site("south").key), key)

    monkeypatch.setattr(link_grid, "signed", for_south)
    federation.ask("north")
    with pytest.raises(FederationError, match="lacks the signature"):
        link.next_message()


def test_nor_one_that_was_changed_on_the_way(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    link = federation.joined("north")
    signed = link_grid.signed

    def changed(content: RecordDict, bearing: Any, key: Any) -> RecordDict:
        whole = signed(content, bearing, key)
        whole["plan"] = ConfigRecord({"steps": 30})
        return whole

    monkeypatch.setattr(link_grid, "signed", changed)
    federation.ask("north")
    with pytest.raises(FederationError, match="lacks the signature"):
        link.next_message()


def test_a_server_that_is_not_there_is_lost(federation: Federation) -> None:
    link = SiteLink(federation.sites["north"], "127.0.0.1:1")
    with pytest.raises(LinkLostError):
        link.join()
    link.close()


def test_another_server_at_the_address_is_not_spoken_to(federation: Federation, tmp_path: Any) -> None:
    """Its certificate is of another authority."""
    loopback_server(tmp_path, 1)
    kit: SiteKit = loopback_site(tmp_path, "north")
    link = SiteLink(kit, federation.address)
    with pytest.raises(LinkLostError, match="CERTIFICATE_VERIFY_FAILED"):
        link.join()
    link.close()


def test_a_refusal_says_why(federation: Federation) -> None:
    north = federation.sites["north"]
    stranger = replace(north, key=SigningKey.generate())
    link = SiteLink(stranger, federation.address)
    with pytest.raises(LinkRefusedError, match="not a site of this federation") as refused:
        link.join()
    assert not refused.value.is_over
    assert not refused.value.has_lapsed
    link.close()


def test_who_has_joined_elsewhere_since_is_told(federation: Federation) -> None:
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
    import flwr.app.message.message as flower

    true = flower.now

    def late() -> Any:
        import datetime

        return true() + datetime.timedelta(seconds=250)

    message_id = federation.ask("north")
    message = link.next_message()
    assert message is not None
    monkeypatch.setattr(flower, "now", late)
    link.answer(message, RecordDict({"report": ConfigRecord({"ok": True})}))
    (reply,) = federation.grid.pull_messages([message_id])
    assert reply.has_content()


def test_a_kit_whose_roster_has_ended_is_known_by_itself(federation: Federation) -> None:
    kit = federation.sites["north"]
    assert not federation.link("north").kit_has_ended
    over = replace(kit, roster=replace(kit.roster, expires="2020-01-01T00:00:00+00:00"))
    link = SiteLink(over, federation.address)
    assert link.kit_has_ended
    link.close()
    assert federation.hub.here() == []


@pytest.mark.parametrize("trees", [0, 1])
def test_bytes_that_are_no_message_do_not_end_a_site(
    federation: Federation, monkeypatch: pytest.MonkeyPatch, trees: int
) -> None:
    link = federation.joined("north")
    answer = PullMessagesResponse(
        messages_list=[ProtoMessage()], message_object_trees=[ObjectTree() for _ in range(trees)]
    )
    monkeypatch.setattr(link._client, "PullMessages", lambda request: answer)
    with pytest.raises((FederationError, LinkRefusedError)):
        link.next_message()
