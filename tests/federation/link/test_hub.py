from dataclasses import replace

from federation.link.wired import Federation
from flwr.common.constant import Status

from fl_dp.federation.link.signed_request import digest_of


def test_the_run_is_under_way_and_has_no_token_that_could_be_taken(federation: Federation) -> None:
    state = federation.hub.state
    assert state.get_run_status({federation.hub.run_id})[federation.hub.run_id].status == Status.RUNNING
    assert not state.task_token_store  # type: ignore[attr-defined]
    assert not state.task_token_to_task_id  # type: ignore[attr-defined]


def test_a_newer_roster_ends_the_stay_of_a_site_that_it_lacks_or_names_otherwise(
    federation: Federation,
) -> None:
    hub, north, south = federation.hub, federation.site("north"), federation.site("south")
    nodes = {site: hub.join(site) for site in (north, south)}
    hub.use(replace(hub.roster, serial=hub.roster.serial + 1, sites=(north,)))
    assert hub.here() == [nodes[north]]
    assert federation.grid.sites == {"north"}  # by which the server marks who was revoked
    assert hub.node_of(south) is None
    assert hub.site_of(nodes[south]) is None
    hub.use(replace(hub.roster, sites=(replace(north, name="south"), south)))
    assert hub.here() == []


def test_each_joining_is_another_node(federation: Federation) -> None:
    hub, north = federation.hub, federation.site("north")
    nodes = [hub.join(north) for _ in range(3)]
    assert len(set(nodes)) == 3
    assert hub.here() == nodes[-1:]
    assert list(hub.state.nodes) == nodes[-1:]  # type: ignore[attr-defined]
    assert len(hub.state.node_public_key_to_node_id) == 1  # type: ignore[attr-defined]


def test_the_rights_of_a_node_end_with_it(federation: Federation) -> None:
    hub, north = federation.hub, federation.site("north")
    before, after = hub.join(north), 0
    wanted = frozenset((digest_of(b"one"), digest_of(b"two")))
    first = hub.begin_upload("first", before, "root", wanted)
    second = hub.begin_upload("second", before, "root", wanted)
    stored = [hub.store(one.session, before, digest_of(b"one"), b"one") for one in (first, second)]
    assert stored == [False, True]  # one reply at a time
    after = hub.join(north)
    assert not hub.store(second.session, after, digest_of(b"two"), b"two")
    assert not hub.store(second.session, before, digest_of(b"two"), b"two")
    assert not hub.may_read(before, "anything")


def test_a_whole_reply_outlives_its_node_once(federation: Federation) -> None:
    """So that a site whose connection is lost then has not paid in vain; nor can it pile replies up."""
    hub, north = federation.hub, federation.site("north")
    wanted = digest_of(b"one")
    for number in range(5):
        node = hub.join(north)
        upload = hub.begin_upload(str(number), node, "root", frozenset((wanted,)))
        assert hub.store(upload.session, node, wanted, b"one")
        hub.leave(north)
        assert [one for one in map(str, range(5)) if hub.answered(one)] == [str(number)]
