"""Provisioning: from a federation.toml to rosters, again and again, and through a kill at any file."""

import shutil
from pathlib import Path

import pytest
from kits.made import Made

import fl_dp.durable_files
from fl_dp.errors import ConfigError
from fl_dp.kits import keys
from fl_dp.kits.kit import ServerKit, SiteKit, accept, new_site_kit
from fl_dp.kits.provision import Wishes, loopback_server, loopback_site, provision, with_site
from fl_dp.kits.roster import Roster, Site

GOOD = 'federation = "hospitals"\naddresses = ["fl.example.org:9092"]\n'


def wishes(folder: Path, text: str) -> Wishes:
    (folder / "federation.toml").write_text(text)
    return Wishes.read(folder / "federation.toml")


def test_a_file_for_provision_is_read(tmp_path: Path) -> None:
    shutil.copy(new_site_kit(tmp_path / "kit", "north"), tmp_path)
    found = wishes(tmp_path, GOOD + 'requests = ["north.join.json"]\nvalid-days = 7')
    assert (found.federation, found.addresses, found.days) == ("hospitals", ("fl.example.org:9092",), 7)
    assert [site.name for site in found.sites] == ["north"]
    with pytest.raises(ConfigError, match="two sites have the name north"):
        wishes(tmp_path, GOOD + 'requests = ["north.join.json", "./north.join.json"]')


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = ", "not a readable TOML file"),
        (GOOD + "more = 1", "unknown key 'more'"),
        (GOOD + "valid-days = 0", "expected 1 to 3650"),
        (GOOD + "valid-days = true", "expected 1 to 3650"),
        ('federation = "hospitals"', "name at least one HOST:PORT"),
        (GOOD.replace("fl.example.org", "0.0.0.0"), "name an address that sites can reach"),
        (GOOD.replace("fl.example.org", "::1"), "expected HOST:PORT"),
        (GOOD.replace('["fl.example.org:9092"]', '"fl.example.org:9092"'), "expected a list of strings"),
        (GOOD.replace('"hospitals"', '"../x"'), "expected at most 64 letters"),
        (GOOD.replace('"hospitals"', "3"), "expected at most 64 letters"),
        (GOOD + 'requests = ["/etc/passwd"]', "not a readable join request"),
        (GOOD + 'requests = ["/dev/zero"]', "is not a regular file"),
        (GOOD + 'requests = ["../none.json"]', "no such file"),
    ],
)
def test_invalid_files_for_provision(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=words):
        wishes(tmp_path, text)


def test_the_next_roster_is_newer_and_the_keys_stay_unless_they_were_stolen(made: Made) -> None:
    before, certificate = Roster.read(made.roster), (made.server / "tls.crt").read_bytes()
    after = made.again("north")
    assert (before.serial, after.serial) == (1, 2)
    assert (before.server, before.authority) == (after.server, after.authority)
    assert [site.name for site in after.sites] == ["north"]
    assert (made.server / "tls.crt").read_bytes() != certificate
    stolen = ServerKit.load(made.server).key.public
    made.roster.unlink()  # which does not set the serial back
    replaced = made.again("north", new_server_key=True)
    assert replaced.serial == 3
    assert stolen != replaced.server == ServerKit.load(made.server).key.public
    shutil.rmtree(made.server)
    assert made.again("north").serial == 4


def test_a_kit_that_has_gone_to_the_server_is_renewed_without_its_key(made: Made, tmp_path: Path) -> None:
    made.server.rename(tmp_path / "at-the-server")
    roster = made.again("north")
    assert not (made.server / "server.key").exists()
    for name in ("tls.key", "tls.crt"):
        shutil.copy(made.server / name, tmp_path / "at-the-server" / name)
    accept(tmp_path / "at-the-server", made.roster)
    assert ServerKit.load(tmp_path / "at-the-server").roster == roster


def test_sites_that_cannot_be_added(made: Made) -> None:
    evil = Site("evil", ServerKit.load(made.server).key.public)
    for federation, sites, words in (
        ("others", (), "holds the federation hospitals"),
        ("hospitals", (evil,), "two sites have the key"),
    ):
        with pytest.raises(ConfigError, match=words):
            provision(Wishes(federation, ("a:1",), sites, 9), made.folder)
    assert made.again("north").serial == 2  # nothing of it was kept


class StoppedError(Exception):
    """The process was killed here."""


@pytest.fixture
def stop_before(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """left: how many files are written whole before the process ends."""
    state, write = {"left": 10**6}, fl_dp.durable_files.write_whole

    def counted(*arguments: object, **options: object) -> None:
        if not state["left"]:
            raise StoppedError
        state["left"] -= 1
        write(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(keys, "write_whole", counted)
    return state


@pytest.mark.parametrize("first", [True, False])
def test_a_provision_that_is_killed_is_made_whole_by_the_next(
    first: bool, tmp_path: Path, stop_before: dict[str, int]
) -> None:
    new_site_kit(tmp_path / "north", "north")
    for files in range(40):
        federation = Made(tmp_path, tmp_path / f"fed{files}")
        seen = 0 if first else federation.again().serial
        stop_before["left"] = files
        try:
            federation.again("north")
        except StoppedError:
            stopped = True
        else:
            stopped = False
        stop_before["left"] = 10**6
        kept = federation.roster
        handed_out = Roster.read(kept).serial if kept.exists() else seen
        roster = federation.again("north")
        assert roster.serial > handed_out or not stopped
        assert ServerKit.load(federation.server).roster == Roster.read(kept) == roster
        if not stopped:
            break
    assert files > 5
    assert not stopped


def test_with_site_adds_it_once_and_repairs_an_interrupted_run(made: Made) -> None:
    new_site_kit(made.kit("west"), "west")
    key = keys.SigningKey.load(made.kit("west") / "site.key").public
    old = {name: (made.server / name).read_bytes() for name in ("roster.json", "trusted.json")}
    assert with_site(made.folder, Site("west", key)).serial == 2
    for name, content in old.items():
        (made.server / name).write_bytes(content)  # as if it had been killed before the server's part
    assert with_site(made.folder, Site("west", key)).serial == 2
    assert ServerKit.load(made.server).roster.site_of(key) == Site("west", key)
    with pytest.raises(ConfigError, match="two sites have the name west"):
        with_site(made.folder, Site("WEST", keys.SigningKey.generate().public))


def test_only_the_servers_key_and_certificate_are_made_here(made: Made) -> None:
    """The authority owns no site's identity."""
    site = (made.kit("north") / "site.key").read_bytes()
    assert all(site != path.read_bytes() for path in made.folder.rglob("*") if path.is_file())
    assert SiteKit.load(made.kit("north")).name == "north"
    assert all(path.stat().st_mode & 0o077 == 0 for path in made.folder.rglob("*") if path.suffix == ".key")


def test_keys_are_made_once(tmp_path: Path) -> None:
    server = loopback_server(tmp_path / "keys", 9092)
    assert server.roster.addresses == ("127.0.0.1:9092",)
    north = loopback_site(tmp_path / "keys", "north")
    assert loopback_site(tmp_path / "keys", "north").key.public == north.key.public
    again = loopback_server(tmp_path / "keys", 9092)
    assert again.key.public == server.key.public
    assert again.roster.site_of(north.key.public) is not None
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o700


def test_one_that_was_stopped_is_made_whole(tmp_path: Path) -> None:
    loopback_server(tmp_path, 9092)
    (tmp_path / "server" / "trusted.json").unlink()  # the last file that it writes
    assert loopback_server(tmp_path, 9092).roster.federation == "loopback"
