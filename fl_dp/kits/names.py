"""Names of sites and federations, and addresses, as used in reports, file names, URLs and signed texts."""

import ipaddress
import re

from fl_dp.errors import ConfigError

MOST_CHARACTERS = 64
_MOST_SHOWN = 80
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?")


def check_name(name: object, what: str) -> str:
    """The name; ConfigError unless it is a short word of letters and digits, with . _ - only inside it."""
    if not isinstance(name, str) or len(name) > MOST_CHARACTERS or not _NAME.fullmatch(name):
        shown = repr(name[:_MOST_SHOWN]) if isinstance(name, str) else type(name).__name__
        raise ConfigError(
            f"{what} {shown}: expected at most {MOST_CHARACTERS} letters, digits, '.', '_' or '-', "
            "the first and last a letter or digit."
        )
    return name


def split_address(address: str, where: str) -> tuple[str, int]:
    """Split 'host:port', with an IPv6 host in brackets; ConfigError for anything else."""
    host, colon, port = address.rpartition(":")
    if not (colon and _is_port(port) and _is_host(host)):
        raise ConfigError(
            f"{where}: {address[:_MOST_SHOWN]}: expected HOST:PORT, such as server.example.org:9092 or "
            "[2001:db8::1]:9092."
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 5 and 0 < int(text) < 2**16


def _is_host(text: str) -> bool:
    """A host's name, an IPv4 address, or an IPv6 address in brackets."""
    is_ipv6 = text.startswith("[") and text.endswith("]")
    if not is_ipv6 and not text.rpartition(".")[2].isdecimal():
        return _HOST.fullmatch(text) is not None and ".." not in text
    try:
        return ipaddress.ip_address(text[1:-1] if is_ipv6 else text).version == (6 if is_ipv6 else 4)
    except ValueError:
        return False
