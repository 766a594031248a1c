"""A running server goes on with the newest roster of its kit, and with no other."""

import json
import ssl
from contextlib import closing
from dataclasses import replace
from http.client import HTTPSConnection
from pathlib import Path
from types import SimpleNamespace

import pytest

from fl_dp.errors import ConfigError
from fl_dp.federation.link.hub import Hub
from fl_dp.kits.keys import SigningKey
from fl_dp.kits.kit import ROSTER
from fl_dp.kits.provision import loopback_server, loopback_site
from fl_dp.launch import serving
from fl_dp.launch.serving import _RosterWatch
from fl_dp.reporting.run_folder import claim_folder


@pytest.fixture
def running(tmp_path: Path) -> tuple[Path, Hub, _RosterWatch]:
    kit = loopback_server(tmp_path, 1)
    hub = Hub(kit.roster)
    newest = _RosterWatch(kit.folder, hub)
    newest.look()
    return tmp_path, hub, newest


def test_a_site_that_is_added_since_is_let_in(running):
    folder, hub, newest = running
    before = hub.roster
    site = loopback_site(folder, "north")
    assert hub.roster.site_of(site.key.public) is None
    newest.look()
    assert hub.roster.site_of(site.key.public) is not None
    served = Hub(before)  # the roster was read before it was served: seen in a real start
    _RosterWatch(newest._folder, served).look()
    assert served.roster.site_of(site.key.public) is not None


def test_one_that_is_gone_or_cannot_be_believed_is_not_taken(running, caplog):
    folder, hub, newest = running
    before, file = hub.roster, folder / "server" / ROSTER
    for content in (b"", b"{}", b"not json"):
        file.write_bytes(content)
        newest.look()
        assert caplog.text.count("the roster was refused") == 1
        caplog.clear()
    key = SigningKey.load(folder / "authority" / "authority.key")
    replace(before, serial=before.serial + 1, server=SigningKey.generate().public).save(file, key)
    newest.look()  # it names another server
    file.unlink()
    newest.look()
    assert hub.roster == before


def test_a_site_is_revoked_although_the_servers_certificate_has_ended(running):
    folder, hub, newest = running
    site = loopback_site(folder, "north")
    newest.look()
    key = SigningKey.load(folder / "authority" / "authority.key")
    (folder / "server" / "tls.crt").unlink()  # as bad as one that has ended
    without = replace(hub.roster, serial=hub.roster.serial + 1, sites=())
    without.save(folder / "server" / ROSTER, key)
    newest.look()
    assert hub.roster.site_of(site.key.public) is None


@pytest.mark.parametrize("error", [ConfigError("cannot be read: Too many open files."), OSError(24, "same")])
def test_one_that_could_not_be_read_is_tried_again(running, monkeypatch, error):
    """Else a site that uses up the server's files would outlive its own revocation."""
    folder, hub, newest = running
    site = loopback_site(folder, "north")
    tried: list[Path] = []

    def load(kit: Path) -> None:
        tried.append(kit)
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(serving, "trusted_roster", load)
        newest.look()
        newest.look()
    assert len(tried) == 1  # and not as often as it looks
    assert hub.roster.site_of(site.key.public) is None
    monkeypatch.setattr(serving.time, "monotonic", lambda: newest._again)
    newest.look()
    assert hub.roster.site_of(site.key.public) is not None


def _refused(port: int, certificate: str) -> None:
    """Ask as a stranger does."""
    trust = ssl.create_default_context(cadata=certificate)
    with closing(HTTPSConnection("127.0.0.1", port, context=trust, timeout=60)) as connection:
        connection.request("POST", "/v1/fleet/activate-node")
        assert connection.getresponse().status == 401


@pytest.mark.parametrize("logged", [True, False])
def test_a_server_keeps_what_its_operator_wants(tmp_path, logged):
    kit, folder = loopback_server(tmp_path / "keys", 1), claim_folder(tmp_path / "run")
    with serving.serving(kit, folder, "127.0.0.1", 0, security=logged) as served:
        served.look()
        _refused(served.port, kit.roster.certificate)
    log, security = folder.log("server").read_text(), folder.log("security")
    assert " INFO roster " in log
    assert "not signed" not in log
    if not logged:
        assert not security.exists()
        return
    (event,) = map(json.loads, security.read_text().splitlines())
    assert {
        "event": "request refused",
        "message": "not signed",
        "source": "127.0.0.1",
    }.items() <= event.items()
    assert security.stat().st_mode & 0o777 == 0o600


def test_who_is_waited_for_is_named_whenever_it_is_said(monkeypatch):
    said, done = [], []
    told = SimpleNamespace(say=said.append, doing=lambda words, said: done.append(words))
    roster = SimpleNamespace(
        federation="study", sites=[SimpleNamespace(name=name) for name in ("north", "south")]
    )
    here = iter([["north"], ["north"], ["north", "south"]])
    hub = SimpleNamespace(roster=roster)
    served = SimpleNamespace(sites_here=lambda: next(here), hub=hub, look=lambda: None)
    monkeypatch.setattr(serving, "_POLL_SECONDS", 0)
    serving._wait_for_sites(2, served, told)
    assert done == ["1 of 2 sites are connected: north; waiting for south"] * 2
    assert len(said) == 1
    roster.sites, here = roster.sites[:1], iter([["north"], ["north", "south"]])
    serving._wait_for_sites(2, served, told)
    assert done[-1].startswith(
        "1 of 2 sites are connected: north; the roster has 1 site and min-clients is 2, so"
    )
    roster.federation, here = "loopback", iter([["north"], ["north", "south"]])  # its roster grows
    serving._wait_for_sites(2, served, told)
    assert done[-1] == "1 of 2 sites are connected: north"
