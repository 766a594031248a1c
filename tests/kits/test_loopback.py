"""A machine's own federation: made when first needed, and made whole when that was stopped."""

from pathlib import Path

from fl_dp.kits.provision import loopback_server, loopback_site


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
