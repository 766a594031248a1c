"""Kits: what they believe, what they refuse, and what an old or a revoked one is worth."""

import json
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from kits.made import Made

from fl_dp.errors import ConfigError
from fl_dp.kits.keys import SigningKey
from fl_dp.kits.kit import (
    ServerKit,
    SiteKit,
    accept,
    believed,
    new_folder,
    new_site_kit,
    trusted_roster,
)
from fl_dp.kits.roster import Roster


def test_a_site_is_who_its_key_is(made: Made) -> None:
    kit = SiteKit.load(made.kit("north"))
    assert kit.name == "north"
    assert kit.roster.site_of(kit.key.public) is not None
    assert ServerKit.load(made.server).roster == kit.roster


def test_an_old_kit_that_is_replayed_is_refused(made: Made) -> None:
    """Whoever puts the roster of before back, at a site or at the server, is told so."""
    old = made.roster.read_bytes()
    made.again("north")
    accept(made.kit("north"), made.roster)
    (made.root / "old.json").write_bytes(old)
    for folder in (made.kit("north"), made.server):
        with pytest.raises(ConfigError, match="serial 1 is older than 2, which this kit has seen"):
            accept(folder, made.root / "old.json")
        assert trusted_roster(folder).serial == 2
        (folder / "roster.json").write_bytes(old)
        with pytest.raises(ConfigError, match="serial 1 is older than 2, which this kit has seen"):
            trusted_roster(folder)


def test_a_revoked_kit_is_refused_by_itself_and_unknown_to_the_server(made: Made) -> None:
    key = SiteKit.load(made.kit("south")).key.public
    made.again("north")
    assert ServerKit.load(made.server).roster.site_of(key) is None
    accept(made.kit("south"), made.roster)
    with pytest.raises(ConfigError, match="does not have this site's key"):
        SiteKit.load(made.kit("south"))


def test_a_kit_believes_one_authority(made: Made, tmp_path: Path) -> None:
    other = Made(tmp_path, tmp_path / "other")
    other.again()
    with pytest.raises(ConfigError, match="signed by another authority"):
        accept(made.kit("north"), other.roster)
    with pytest.raises(ConfigError, match="make a new kit for another federation"):
        accept(made.kit("north"), other.roster, other.authority.public)


def test_a_new_kit_has_to_be_told_which(made: Made, tmp_path: Path) -> None:
    new_site_kit(tmp_path / "new", "new")
    with pytest.raises(ConfigError, match="believes no authority yet"):
        accept(tmp_path / "new", made.roster)
    with pytest.raises(ConfigError, match="signed by another authority"):
        accept(tmp_path / "new", made.roster, SigningKey.generate().public)
    assert believed(tmp_path / "new") is None


def test_a_kit_belongs_to_one_federation_even_of_the_same_authority(made: Made) -> None:
    odd = made.signed(lambda body: body.update(federation="others", serial=9))
    (made.kit("north") / "roster.json").unlink()  # what is there now does not matter
    with pytest.raises(ConfigError, match="of the federation others, and the kit is of hospitals"):
        accept(made.kit("north"), odd)


def test_a_second_roster_of_one_serial_is_refused(made: Made) -> None:
    """The authority's folder was restored from a backup: two rosters would both be the newest."""
    odd = made.signed(lambda body: body.update(addresses=["evil.example.org:1"]))
    with pytest.raises(ConfigError, match="another roster of serial 1"):
        accept(made.kit("north"), odd)
    accept(made.kit("north"), made.roster)  # the same one again costs nothing


def test_a_roster_that_is_over_is_refused(made: Made) -> None:
    past = (datetime.now(UTC) - timedelta(seconds=5)).isoformat(timespec="seconds")
    odd = made.signed(lambda body: body.update(expires=past, serial=2))
    with pytest.raises(ConfigError, match="the roster ended on"):
        accept(made.kit("north"), odd)
    shutil.copy(odd, made.kit("north") / "roster.json")
    with pytest.raises(ConfigError, match="the roster ended on"):
        SiteKit.load(made.kit("north"))


@pytest.mark.parametrize(
    "content",
    [
        "", "{}", "[]", "7", '{"authority": 1, "federation": "a", "serial": 1}', "[" * 60000,
        json.dumps({"authority": "0" * 64, "federation": "..", "serial": 1}),
        json.dumps({"authority": "0" * 64, "federation": "hospitals", "serial": "1"}),
    ],
)  # fmt: skip
def test_damaged_trust_is_no_trust(content: str, made: Made) -> None:
    path = made.kit("north") / "trusted.json"
    path.write_text(content)
    for use in (lambda: trusted_roster(made.kit("north")), lambda: accept(made.kit("north"), made.roster)):
        with pytest.raises(ConfigError, match="is damaged; delete it, then accept"):
            use()
    path.unlink()
    with pytest.raises(ConfigError, match=r"trusted\.json is missing"):
        SiteKit.load(made.kit("north"))
    with pytest.raises(ConfigError, match="believes no authority yet"):
        accept(made.kit("north"), made.roster)


def test_accept_stopped_between_its_two_files_is_made_whole_by_the_next(made: Made) -> None:
    made.again("north")
    shutil.copy(made.roster, made.kit("north") / "roster.json")  # and was killed
    assert trusted_roster(made.kit("north")).serial == 2
    assert accept(made.kit("north"), made.roster).serial == 2
    trusted = believed(made.kit("north"))
    assert trusted is not None
    assert trusted.serial == 2


def test_the_authoritys_keys_are_in_no_kit(made: Made) -> None:
    for name in ("authority.key", "ca.key"):
        stray = made.server / name
        shutil.copy(made.folder / "authority" / name, stray)
        with pytest.raises(ConfigError, match="belongs offline, and in no kit"):
            ServerKit.load(made.server)
        stray.unlink()
    ServerKit.load(made.server)


def test_a_servers_kit_of_mixed_parts_is_refused(made: Made) -> None:
    key = (made.server / "tls.key").read_bytes()
    made.again("north")
    (made.server / "tls.key").write_bytes(key)
    with pytest.raises(ConfigError, match=r"not the key of tls\.crt"):
        ServerKit.load(made.server)
    SigningKey.generate().save(made.server / "server.key")
    with pytest.raises(ConfigError, match="the roster names another server's key"):
        ServerKit.load(made.server)


def test_another_federations_certificate_is_refused(made: Made, tmp_path: Path) -> None:
    other = Made(tmp_path, tmp_path / "other")
    other.again()
    for name in ("tls.key", "tls.crt"):
        shutil.copy(other.server / name, made.server / name)
    with pytest.raises(ConfigError, match="of another authority than the roster's"):
        ServerKit.load(made.server)


def test_a_link_to_a_key_that_others_may_read_is_refused(made: Made) -> None:
    key = made.kit("north") / "site.key"
    open_key = made.root / "open.key"
    key.rename(open_key)
    open_key.chmod(0o644)
    key.symlink_to(open_key)
    with pytest.raises(ConfigError, match="others may read this key"):
        SiteKit.load(made.kit("north"))


def test_files_and_folders_are_their_owners_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = tmp_path / "deep" / "kit"
        new_site_kit(folder, "north")
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


def test_a_kit_keeps_its_key(tmp_path: Path) -> None:
    new_site_kit(tmp_path / "kit", "north")
    key = (tmp_path / "kit" / "site.key").read_bytes()
    with pytest.raises(ConfigError, match="holds a key already"):
        new_site_kit(tmp_path / "kit", "south")
    assert (tmp_path / "kit" / "site.key").read_bytes() == key


def test_a_kit_that_was_begun_is_begun_anew(tmp_path: Path) -> None:
    new_site_kit(tmp_path / "kit", "north")
    (tmp_path / "kit" / "README.txt").unlink()
    (tmp_path / "kit" / "north.join.json").unlink()
    assert new_site_kit(tmp_path / "kit", "north").is_file()


def test_a_folder_with_other_things_is_left_as_it_is(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    (home / "letters.txt").write_text("dear")
    with pytest.raises(ConfigError, match="holds other files"):
        new_folder(home)
    assert home.stat().st_mode & 0o777 == 0o755
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be made or entered"):
        new_folder(tmp_path / "file" / "kit")


def test_a_kit_that_is_not_there_and_one_of_somebody_else_are_told_apart(made: Made, tmp_path: Path) -> None:
    for load in (SiteKit.load, ServerKit.load, trusted_roster):
        with pytest.raises(ConfigError, match="nope: no such folder"):
            load(tmp_path / "nope")
        with pytest.raises(ConfigError, match=r"site\.key: is a file; a kit is a folder"):
            load(made.kit("north") / "site.key")
    with pytest.raises(
        ConfigError, match=r"this is a site's kit, and the server's is needed: it holds site\.key"
    ):
        ServerKit.load(made.kit("north"))
    with pytest.raises(ConfigError, match="this is the server's kit, and a site's is needed"):
        SiteKit.load(made.server)


def test_a_folder_is_no_roster_and_the_file_in_it_is_named(made: Made) -> None:
    with pytest.raises(ConfigError, match=r"is a folder; name the file in it: .*north.*/roster\.json\."):
        Roster.read(made.kit("north"))
