from pathlib import Path

import pytest

from fl_dp.errors import ConfigError
from fl_dp.launch.flower.tls import superlink_security, supernode_security


def test_no_tls_must_be_said() -> None:
    assert superlink_security(None, True) == supernode_security(None, True) == ["--insecure"]
    with pytest.raises(ConfigError, match="--certificates FOLDER, for TLS, or --insecure"):
        superlink_security(None, False)
    with pytest.raises(ConfigError, match="--root-certificates FILE, for TLS, or --insecure"):
        supernode_security(None, False)


def test_tls_and_no_tls_contradict(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="either"):
        superlink_security(tmp_path, True)


def test_every_certificate_must_be_there(tmp_path: Path) -> None:
    for name in ("ca.crt", "server.pem"):
        (tmp_path / name).touch()
    with pytest.raises(ConfigError, match=r"--certificates: .*server\.key not found"):
        superlink_security(tmp_path, False)
    (tmp_path / "server.key").touch()
    options = superlink_security(tmp_path, False)
    assert options[::2] == ["--ssl-ca-certfile", "--ssl-certfile", "--ssl-keyfile"]
    assert supernode_security(tmp_path / "ca.crt", False) == ["--root-certificates", str(tmp_path / "ca.crt")]
