"""A kit's folder: the owner's key, the roster, and the trusted authority.

site.key                 a site's          server.key, tls.key, tls.crt     the server's
roster.json              the newest accepted roster
trusted.json             the authority that signs rosters, and the highest serial seen
"""

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from fl_dp.durable_files import one_at_a_time
from fl_dp.errors import ConfigError
from fl_dp.kits.certificates import check_in_time, check_pair, check_text, load_certificate
from fl_dp.kits.keys import SigningKey, fingerprint, is_public_key, write_own
from fl_dp.kits.readme import site_text
from fl_dp.kits.roster import FILE, MOST_BYTES, Roster, check_name, read_bounded, write_join_request

SITE_KEY, SERVER_KEY = "site.key", "server.key"
TLS_KEY, TLS_CERTIFICATE = "tls.key", "tls.crt"
ROSTER, TRUSTED, README = FILE, "trusted.json", "README.txt"
AUTHORITY_KEY, CA_KEY = "authority.key", "ca.key"  # in no kit
WARN_DAYS = 30  # before a roster or certificate expires, so that no federation stops by surprise
_OWNER_ONLY = 0o700
_OURS = {SITE_KEY, SERVER_KEY, TLS_KEY, TRUSTED, ".lock", "authority"}  # in a kit, or where one provisions


@dataclass(frozen=True, slots=True)
class SiteKit:
    """A site's kit. name: the label that the roster binds to its key."""

    folder: Path
    name: str
    key: SigningKey
    roster: Roster

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The kit in `folder`; ConfigError if a part is missing, or the roster does not have this site."""
        _check_parts(folder)
        _check_whose(folder, SITE_KEY, SERVER_KEY, "the server's kit, and a site's")
        key = SigningKey.load(_part(folder, SITE_KEY, "fl-dp join-request"))
        roster = trusted_roster(folder)
        site = roster.site_of(key.public)
        if site is None:
            raise ConfigError(
                f"--kit {folder}: the roster (serial {roster.serial}) does not have this site's key; "
                "send the join request again, or ask the federation's authority."
            )
        return cls(folder, site.name, key, roster)


@dataclass(frozen=True, slots=True)
class ServerKit:
    folder: Path
    key: SigningKey
    roster: Roster

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The kit in `folder`; ConfigError if a part is missing, or the roster names another server."""
        _check_parts(folder)
        _check_whose(folder, SERVER_KEY, SITE_KEY, "a site's kit, and the server's")
        key = SigningKey.load(_part(folder, SERVER_KEY, "fl-dp provision"))
        roster = trusted_roster(folder)
        if roster.server != key.public:
            raise ConfigError(f"--kit {folder}: the roster names a server key other than {SERVER_KEY}.")
        check_in_time(_part(folder, TLS_CERTIFICATE, "fl-dp provision"))
        tls_key = _part(folder, TLS_KEY, "fl-dp provision")
        check_pair(folder / TLS_CERTIFICATE, tls_key, roster.certificate)
        return cls(folder, key, roster)

    @property
    def tls_certificate(self) -> Path:
        return self.folder / TLS_CERTIFICATE

    @property
    def tls_key(self) -> Path:
        return self.folder / TLS_KEY


def trusted_roster(folder: Path) -> Roster:
    """A kit's roster; ConfigError unless its authority signed it, it is the newest seen, and not expired."""
    _check_there(folder)
    trusted = believed(folder)
    if trusted is None:
        raise ConfigError(f"--kit {folder}: {TRUSTED} is missing; made by: fl-dp accept.")
    roster = Roster.read(_part(folder, ROSTER, "fl-dp accept"), trusted.authority)
    trusted.check(roster, folder / ROSTER)
    if roster.is_over():
        raise ConfigError(
            f"{folder / ROSTER}: the roster expired on {roster.expires}; ask the authority for a new one."
        )
    return roster


def accept(folder: Path, path: Path, authority: str | None = None) -> Roster:
    """Take the roster in `path` into the kit in `folder`; ConfigError if it cannot be trusted.

    authority: the key of the authority that a new kit is to trust; None: the kit trusts one already.
    """
    new_folder(folder)
    content = read_bounded(path, MOST_BYTES)
    with one_at_a_time(folder / ".lock"):
        trusted = believed(folder)
        known = trusted.authority if trusted else authority
        if known is None:
            raise ConfigError(f"{folder}: trusts no authority yet; name one: --authority KEY.")
        if authority is not None and authority != known:
            raise ConfigError(
                f"{folder}: trusts the authority {fingerprint(known)}, not {fingerprint(authority)}; "
                "make a new kit for another federation."
            )
        roster = Roster.parse(content, path, known)
        if roster.is_over():
            raise ConfigError(f"{path}: the roster expired on {roster.expires}; ask for a new one.")
        if trusted:
            trusted.check(roster, path)
            _check_not_another(folder, roster, path)
        write_own(folder / ROSTER, content)
        Trusted(roster.authority, roster.federation, roster.serial).write(folder)
    return roster


@dataclass(frozen=True, slots=True)
class Trusted:
    """Which rosters a kit trusts: this authority's, of this federation, from this serial on."""

    authority: str
    federation: str
    serial: int

    def check(self, roster: Roster, path: Path) -> None:
        """ConfigError for a roster of another federation, or older than the newest that was seen."""
        if roster.serial < self.serial:
            raise ConfigError(
                f"{path}: serial {roster.serial} is older than {self.serial}, which this kit has seen; "
                "ask the authority for the newest."
            )
        if roster.federation != self.federation:
            raise ConfigError(
                f"{path}: of the federation {roster.federation}, but the kit is of {self.federation}; make a "
                "new kit for another federation."
            )

    def write(self, folder: Path) -> None:
        write_own(folder / TRUSTED, json.dumps(asdict(self)).encode())


def believed(folder: Path) -> Trusted | None:
    """What the kit in `folder` trusts; None before its first roster. ConfigError if the file is damaged."""
    path = folder / TRUSTED
    if not path.exists():
        return None
    try:
        table: dict[str, Any] = json.loads(read_bounded(path, 2**16))
        trusted = Trusted(**table)
        sound = is_public_key(trusted.authority) and type(trusted.serial) is int
        check_name(trusted.federation, "federation")
    except (ValueError, TypeError, RecursionError):
        sound = False
    if not sound:
        raise ConfigError(
            f"{path}: is damaged; delete it, then accept the newest roster again, and compare its "
            "authority's fingerprint as for the first time."
        )
    return trusted


def new_site_kit(folder: Path, name: str) -> Path:
    """Make a site's key in a new kit; returns the join request to send. ConfigError if a kit is there."""
    check_name(name, "site")
    new_folder(folder)
    request = folder / f"{name}.join.json"
    if (folder / SITE_KEY).exists() and (folder / README).exists():
        raise ConfigError(f"{folder}: holds a key already, which a kit must keep; name a new folder.")
    key = SigningKey.generate()
    key.save(folder / SITE_KEY)
    write_join_request(request, name, key)
    write_own(folder / README, site_text(name).encode())  # last: without it, an unfinished kit is made anew
    return request


def own_folder(folder: Path) -> None:
    """Make a folder that only its owner may enter, or close an existing one to others."""
    folder.mkdir(mode=_OWNER_ONLY, parents=True, exist_ok=True)
    folder.chmod(_OWNER_ONLY)


def new_folder(folder: Path) -> None:
    """`own_folder`; ConfigError for a folder with other files, which should not be closed to others."""
    try:
        found = {path.name for path in folder.iterdir()} if folder.exists() else set()
        if found and not found & _OURS:
            raise ConfigError(f"{folder}: holds other files; name a new folder.")
        own_folder(folder)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be created or entered: {error.strerror}.") from None


def _check_not_another(folder: Path, roster: Roster, path: Path) -> None:
    """ConfigError for another roster with the same serial as the kit's: the authority was set back."""
    if (folder / ROSTER).exists():
        before = Roster.read(folder / ROSTER, roster.authority)
        if before.serial == roster.serial and before != roster:
            raise ConfigError(
                f"{path}: not the roster of serial {roster.serial} that this kit has; the authority has to "
                "make a newer one."
            )


def _check_there(folder: Path) -> None:
    if not folder.is_dir():
        why = "is a file; a kit is a folder" if folder.exists() else "no such folder"
        raise ConfigError(
            f"--kit {folder}: {why}. Sites make theirs with fl-dp join-request, a "
            "server's is from fl-dp provision."
        )


def _check_whose(folder: Path, key: str, other: str, what: str) -> None:
    """ConfigError for the wrong kind of kit. what: for the message, whose it is and whose is needed."""
    if not (folder / key).exists() and (folder / other).exists():
        raise ConfigError(f"--kit {folder}: this is {what} is needed: it holds {other}, and no {key}.")


def _check_parts(folder: Path) -> None:
    """ConfigError if there is no kit, or if it holds a key of the authority."""
    _check_there(folder)
    for name in (AUTHORITY_KEY, CA_KEY):
        if (folder / name).exists():
            raise ConfigError(f"--kit {folder}: {name} is the authority's; keep it offline, and in no kit.")


def _part(folder: Path, name: str, maker: str) -> Path:
    path = folder / name
    if not path.is_file():
        raise ConfigError(f"--kit {folder}: {name} is missing; made by: {maker}.")
    return path


def ending(kit: SiteKit | ServerKit, now: datetime | None = None) -> tuple[str, ...]:
    """A line for each of the kit's roster and certificates that expires within WARN_DAYS."""
    ends = {
        "the roster expires on {}, in {} days; ask for a new one": datetime.fromisoformat(kit.roster.expires),
        "the authority's certificate expires on {}, in {} days; make a new federation by then": check_text(
            kit.roster.certificate
        ).not_valid_after_utc,
    }
    if isinstance(kit, ServerKit):
        words = "the server's certificate expires on {}, in {} days; ask for a new one"
        ends[words] = load_certificate(kit.tls_certificate).not_valid_after_utc
    now = now or datetime.now(UTC)
    return tuple(
        words.format(f"{end:%Y-%m-%d}", max(0, (end - now).days))
        for words, end in ends.items()
        if end - now < timedelta(days=WARN_DAYS)
    )
