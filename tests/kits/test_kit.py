"""Kits: what they believe, what they refuse, and what an old or a revoked one is worth."""

import json
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kits.made import Made

from fl_dp.errors import ConfigError
from fl_dp.kits.keys import SigningKey
from fl_dp.kits.kit import (
    ServerKit,
    SiteKit,
    accept,
    believed,
    ending,
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
    for folder, secret in ((made.server, "server.key, tls.key."), (made.kit("north"), "site.key.")):
        assert f"Secret:      {secret}" in (folder / "README.txt").read_text()


def test_an_old_kit_that_is_replayed_is_refused(made: Made) -> None:
    """A site or server whose older roster is put back is told so."""
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
    new_site_kit(tmp_path / "new", "new")  # which has to be told which
    with pytest.raises(ConfigError, match="trusts no authority yet"):
        accept(tmp_path / "new", made.roster)
    with pytest.raises(ConfigError, match="signed by another authority"):
        accept(tmp_path / "new", made.roster, SigningKey.generate().public)
    assert believed(tmp_path / "new") is None


PAST = (datetime.now(UTC) - timedelta(seconds=5)).isoformat(timespec="seconds")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"federation": "others", "serial": 9}, "of the federation others, but the kit is of hospitals"),
        # the authority's folder was restored from a backup: two rosters would both be the newest
        ({"addresses": ["evil.example.org:1"]}, "not the roster of serial 1"),
        ({"expires": PAST, "serial": 2}, "the roster expired on"),
    ],
)
def test_another_roster_than_the_next_is_refused(made: Made, changes: dict[str, Any], words: str) -> None:
    odd = made.signed(lambda body: body.update(changes))
    accept(made.kit("north"), made.roster)  # the same one again costs nothing
    with pytest.raises(ConfigError, match=words):
        accept(made.kit("north"), odd)
    if "serial" in changes:  # whatever lies in the kit now
        shutil.copy(odd, made.kit("north") / "roster.json")
        for use in (lambda: SiteKit.load(made.kit("north")), lambda: accept(made.kit("north"), odd)):
            with pytest.raises(ConfigError, match=words):
                use()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        "[]",
        "7",
        '{"authority": 1, "federation": "a", "serial": 1}',
        "[" * 60000,
        json.dumps({"authority": "0" * 64, "federation": "..", "serial": 1}),
        json.dumps({"authority": "0" * 64, "federation": "hospitals", "serial": "1"}),
    ],
)
def test_damaged_trust_is_no_trust(content: str, made: Made) -> None:
    path = made.kit("north") / "trusted.json"
    path.write_text(content)
    for use in (lambda: trusted_roster(made.kit("north")), lambda: accept(made.kit("north"), made.roster)):
        with pytest.raises(ConfigError, match="is damaged; delete it, then accept"):
            use()
    path.unlink()
    with pytest.raises(ConfigError, match=r"trusted\.json is missing"):
        SiteKit.load(made.kit("north"))
    with pytest.raises(ConfigError, match="trusts no authority yet"):
        accept(made.kit("north"), made.roster)


def test_accept_stopped_between_its_two_files_is_made_whole_by_the_next(made: Made) -> None:
    made.again("north")
    shutil.copy(made.roster, made.kit("north") / "roster.json")  # and was killed
    assert trusted_roster(made.kit("north")).serial == 2
    assert accept(made.kit("north"), made.roster).serial == 2
    trusted = believed(made.kit("north"))
    assert trusted is not None
    assert trusted.serial == 2


def test_a_servers_kit_of_mixed_parts_is_refused(made: Made, tmp_path: Path) -> None:
    other = Made(tmp_path, tmp_path / "other")
    other.again()
    before = (made.server / "tls.key").read_bytes()
    made.again("north")
    mixed = [
        ({"tls.key": before}, r"not the key of tls\.crt"),
        (
            {"server.key": (other.server / "server.key").read_bytes()},
            "the roster names a server key other than",
        ),
        (
            {name: (other.server / name).read_bytes() for name in ("tls.key", "tls.crt")},
            "an authority other than the roster",
        ),
        *(
            ({name: (made.folder / "authority" / name).read_bytes()}, "keep it offline, and in no kit")
            for name in ("authority.key", "ca.key")
        ),
    ]
    for files, words in mixed:
        kit = Path(shutil.copytree(made.server, tmp_path / "kit", dirs_exist_ok=True))
        for name, content in files.items():
            (kit / name).write_bytes(content)
            (kit / name).chmod(0o600)
        with pytest.raises(ConfigError, match=words):
            ServerKit.load(kit)
        shutil.rmtree(kit)
    ServerKit.load(made.server)


def test_files_and_folders_are_their_owners_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = tmp_path / "deep" / "kit"
        new_site_kit(folder, "north")
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


def test_a_kit_keeps_its_key_and_one_that_was_begun_is_begun_anew(tmp_path: Path) -> None:
    new_site_kit(tmp_path / "kit", "north")
    key = (tmp_path / "kit" / "site.key").read_bytes()
    with pytest.raises(ConfigError, match="holds a key already"):
        new_site_kit(tmp_path / "kit", "south")
    assert (tmp_path / "kit" / "site.key").read_bytes() == key
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
    with pytest.raises(ConfigError, match="cannot be created or entered"):
        new_folder(tmp_path / "file" / "kit")


def test_a_missing_kit_and_one_of_another_owner_have_different_messages(made: Made, tmp_path: Path) -> None:
    for load in (SiteKit.load, ServerKit.load, trusted_roster):
        with pytest.raises(ConfigError, match="nope: no such folder"):
            load(tmp_path / "nope")
        with pytest.raises(ConfigError, match=r"site\.key: is a file; a kit is a folder"):
            load(made.kit("north") / "site.key")
    with pytest.raises(ConfigError, match=r"this is a site's kit, and the server's is needed: .*site\.key"):
        ServerKit.load(made.kit("north"))
    with pytest.raises(ConfigError, match="this is the server's kit, and a site's is needed"):
        SiteKit.load(made.server)
    with pytest.raises(ConfigError, match=r"is a folder; name the file in it: .*north.*/roster\.json\."):
        Roster.read(made.kit("north"))


def test_an_end_within_30_days_is_reported(made: Made) -> None:
    now = datetime.now(UTC)
    site, server = SiteKit.load(made.kit("north")), ServerKit.load(made.server)
    assert ending(site) == ending(server) == ()
    assert ending(server, now + timedelta(days=334)) == ()
    soon = now + timedelta(days=336)
    assert [line.split(" expires on ")[0] for line in ending(server, soon)] == [
        "the roster",
        "the server's certificate",
    ]
    assert len(ending(site, soon)) == 1
    assert f"{now + timedelta(days=365):%Y-%m-%d}, in 28 days" in ending(site, soon)[0]
    late = ending(site, now + timedelta(days=3640))
    assert any("the authority's certificate" in line for line in late)
