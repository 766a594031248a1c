"""TLS certificates: for the server's own names and loopback, by one authority, within its time."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from fl_dp.errors import ConfigError
from fl_dp.kits.certificates import check_in_time, check_pair, load_certificate, make_authority, make_server


def pair(folder: Path, names: list[str], days: float = 365, of: float = 3650) -> Path:
    make_authority("hospitals", of, folder / "ca.crt", folder / "ca.key")
    make_server(names, days, folder / "ca.crt", folder / "ca.key", folder / "tls.crt", folder / "tls.key")
    return folder / "tls.crt"


def test_a_server_is_known_by_its_names_and_on_loopback(tmp_path: Path) -> None:
    found = load_certificate(pair(tmp_path, ["fl.example.org", "2001:db8::1"]))
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["fl.example.org", "localhost"]
    assert names.get_values_for_type(x509.IPAddress) == [
        ipaddress.ip_address(one) for one in ("2001:db8::1", "127.0.0.1", "::1")
    ]
    authority = load_certificate(tmp_path / "ca.crt")
    found.verify_directly_issued_by(authority)
    assert not found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length == 0


def test_a_certificate_ends_with_its_authoritys(tmp_path: Path) -> None:
    ends = check_in_time(pair(tmp_path, ["a"], days=365, of=10))
    assert ends == load_certificate(tmp_path / "ca.crt").not_valid_after_utc
    assert ends < datetime.now(UTC) + timedelta(days=11)


def test_an_expired_one_is_refused_with_the_way_to_another(tmp_path: Path) -> None:
    path = pair(tmp_path, ["a"])
    later = datetime.now(UTC) + timedelta(days=366)
    with pytest.raises(ConfigError, match="make a new one: fl-dp provision"):
        check_in_time(path, later)
    with pytest.raises(ConfigError, match="make a new one: a new federation"):
        check_in_time(path, later, remedy="a new federation")


def test_an_invalid_certificate_and_a_key_that_others_may_read_are_refused(tmp_path: Path) -> None:
    path, authority = pair(tmp_path, ["a"]), (tmp_path / "ca.crt").read_text()
    check_pair(path, tmp_path / "tls.key", authority)
    (tmp_path / "tls.key").chmod(0o640)
    with pytest.raises(ConfigError, match="other users can read or change this key"):
        check_pair(path, tmp_path / "tls.key", authority)
    path.write_text("hello")
    with pytest.raises(ConfigError, match="not a readable certificate"):
        load_certificate(path)
