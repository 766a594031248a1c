"""TLS or none: neither is a default of server.py and client.py, their user must say which."""

from pathlib import Path

from fl_dp.errors import ConfigError

AUTHORITY = "ca.crt"
_SERVER_FILES = {
    "--ssl-ca-certfile": AUTHORITY,
    "--ssl-certfile": "server.pem",
    "--ssl-keyfile": "server.key",
}
SERVER_FILES = ", ".join(_SERVER_FILES.values())


def superlink_security(certificates: Path | None, insecure: bool) -> list[str]:
    """A SuperLink's options for TLS with the files in the folder `certificates`, or for none."""
    if insecure == (certificates is not None):
        raise ConfigError("Say either --certificates FOLDER, for TLS, or --insecure.")
    if certificates is None:
        return ["--insecure"]
    files = {option: certificates / name for option, name in _SERVER_FILES.items()}
    for file in files.values():
        _require_file(file, "--certificates")
    return [word for option, file in files.items() for word in (option, str(file))]


def supernode_security(root_certificates: Path | None, insecure: bool) -> list[str]:
    """A SuperNode's options for TLS, checked against `root_certificates`, or for none."""
    if insecure == (root_certificates is not None):
        raise ConfigError("Say either --root-certificates FILE, for TLS, or --insecure.")
    if root_certificates is None:
        return ["--insecure"]
    _require_file(root_certificates, "--root-certificates")
    return ["--root-certificates", str(root_certificates)]


def _require_file(file: Path, option: str) -> None:
    if not file.is_file():
        raise ConfigError(f"{option}: {file} not found.")
