"""A kit's folder: a key of one's own, the roster, and which authority's rosters are believed.

site.key                 a site's          server.key, tls.key, tls.crt     the server's
roster.json              the newest that was accepted
trusted.json             the authority that signs rosters, and the highest serial seen
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from fl_dp.durable_files import one_at_a_time, write_whole
from fl_dp.errors import ConfigError
from fl_dp.kits.certificates import check_in_time
from fl_dp.kits.keys import SigningKey, fingerprint, is_public_key
from fl_dp.kits.names import check_name
from fl_dp.kits.roster import Roster, Site, write_join_request

SITE_KEY, SERVER_KEY = "site.key", "server.key"
TLS_KEY, TLS_CERTIFICATE = "tls.key", "tls.crt"
ROSTER, TRUSTED = "roster.json", "trusted.json"
_OWNER_ONLY = 0o700


@dataclass(frozen=True, slots=True)
class SiteKit:
    """What a site joins with. name: the label that the roster binds to its key."""

    folder: Path
    name: str
    key: SigningKey
    roster: Roster

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The kit in `folder`; ConfigError if a part is missing, or the roster does not have this site."""
        key = SigningKey.load(_part(folder, SITE_KEY, "fl-dp join-request"))
        roster = trusted_roster(folder)
        site = roster.site_of(key.public)
        if site is None:
            raise ConfigError(
                f"--kit {folder}: the roster (serial {roster.serial}) does not have this site's key; "
                "send the join request again, or ask who provisions the federation."
            )
        return cls(folder, site.name, key, roster)


@dataclass(frozen=True, slots=True)
class ServerKit:
    """What a server serves with."""

    folder: Path
    key: SigningKey
    roster: Roster

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The kit in `folder`; ConfigError if a part is missing, or the roster names another server."""
        key = SigningKey.load(_part(folder, SERVER_KEY, "fl-dp provision"))
        roster = trusted_roster(folder)
        if roster.server != key.public:
            raise ConfigError(f"--kit {folder}: the roster names another server's key than {SERVER_KEY}.")
        check_in_time(_part(folder, TLS_CERTIFICATE, "fl-dp provision"))
        _part(folder, TLS_KEY, "fl-dp provision")
        return cls(folder, key, roster)

    @property
    def tls_certificate(self) -> Path:
        return self.folder / TLS_CERTIFICATE

    @property
    def tls_key(self) -> Path:
        return self.folder / TLS_KEY


def trusted_roster(folder: Path) -> Roster:
    """The roster of a kit; ConfigError unless its authority signed it, it is the newest seen, and in time."""
    authority, serial = _trusted(folder)
    roster = Roster.read(_part(folder, ROSTER, "fl-dp accept"), authority)
    if roster.serial < serial:
        raise ConfigError(
            f"{folder / ROSTER}: serial {roster.serial} is older than {serial}, which this kit has seen; "
            "put the newest back."
        )
    if roster.is_over():
        raise ConfigError(
            f"{folder / ROSTER}: the roster ended on {roster.expires}; ask who provisions for a new one."
        )
    return roster


def accept(folder: Path, path: Path, authority: str | None = None) -> Roster:
    """Take the roster in `path` into the kit in `folder`; ConfigError if it may not be believed.

    authority: whose rosters this kit is to believe from now on; None: whom it believes already.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(folder / ".lock"):
        known, serial = _trusted(folder) if (folder / TRUSTED).exists() else (authority, 0)
        if known is None:
            raise ConfigError(f"{folder}: believes no authority yet; say which: --authority KEY.")
        if authority is not None and authority != known:
            raise ConfigError(
                f"{folder}: believes the authority {fingerprint(known)}, not {fingerprint(authority)}; "
                "make a new kit for another federation."
            )
        roster = Roster.read(path, known)
        if roster.serial < serial:
            raise ConfigError(f"{path}: serial {roster.serial}; this kit has seen {serial}, which is newer.")
        if roster.is_over():
            raise ConfigError(f"{path}: the roster ended on {roster.expires}; ask for a new one.")
        _check_same(folder, roster, serial)
        content = path.read_bytes()
        write_whole(folder / ROSTER, lambda file: file.write(content))
        trust(folder, roster.authority, roster.serial)
    return roster


def trust(folder: Path, authority: str, serial: int) -> None:
    """Believe rosters of `authority` from `serial` on."""
    content = json.dumps({"authority": authority, "serial": serial}).encode()
    write_whole(folder / TRUSTED, lambda file: file.write(content))


def new_site_kit(folder: Path, name: str) -> Path:
    """Make a site's key in a new kit; returns the join request to send. ConfigError where one is."""
    check_name(name, "site")
    own_folder(folder)
    if (folder / SITE_KEY).exists():
        raise ConfigError(f"{folder}: holds a key already; a site keeps its key.")
    key = SigningKey.generate()
    key.save(folder / SITE_KEY)
    request = folder / f"{name}.join.json"
    write_join_request(request, name, key)
    return request


def own_folder(folder: Path) -> None:
    """Make a folder that only its owner may enter."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(_OWNER_ONLY)


def check_own_key(folder: Path, roster: Roster) -> Site:
    """The site whose key the kit has; ConfigError if the roster has no such site."""
    key = SigningKey.load(_part(folder, SITE_KEY, "fl-dp join-request"))
    site = roster.site_of(key.public)
    if site is None:
        raise ConfigError(f"{folder}: the roster does not have the key of this kit; send its join request.")
    return site


def _check_same(folder: Path, roster: Roster, serial: int) -> None:
    """ConfigError if a newer roster is of another federation: keys belong to one."""
    if serial and (folder / ROSTER).exists():
        before = Roster.read(folder / ROSTER, roster.authority)
        if before.federation != roster.federation:
            raise ConfigError(
                f"{folder}: a kit of {before.federation}, the roster is of {roster.federation}; "
                "make a new kit for another federation."
            )


def _trusted(folder: Path) -> tuple[str, int]:
    path = _part(folder, TRUSTED, "fl-dp accept")
    try:
        table: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        authority, serial = table["authority"], table["serial"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}; accept the newest roster anew.") from None
    if not is_public_key(authority) or type(serial) is not int:
        raise ConfigError(f"{path}: cannot be read; accept the newest roster anew.")
    return authority, serial


def _part(folder: Path, name: str, maker: str) -> Path:
    path = folder / name
    if not path.is_file():
        raise ConfigError(f"--kit {folder}: {name} is missing; made by: {maker}.")
    return path
