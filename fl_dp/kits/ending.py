"""Words before something of a kit ends: nobody should learn of it from a federation that has stopped."""

from datetime import UTC, datetime, timedelta

from fl_dp.kits.certificates import check_text, load_certificate
from fl_dp.kits.kit import ServerKit, SiteKit

WARN_DAYS = 30


def ending(kit: SiteKit | ServerKit, now: datetime | None = None) -> tuple[str, ...]:
    """A line for each of the kit's roster and certificates that ends within WARN_DAYS."""
    ends = {
        "roster": datetime.fromisoformat(kit.roster.expires),
        "authority's certificate": check_text(kit.roster.certificate).not_valid_after_utc,
    }
    if isinstance(kit, ServerKit):
        ends["server's certificate"] = load_certificate(kit.tls_certificate).not_valid_after_utc
    now = now or datetime.now(UTC)
    return tuple(
        f"the {what} ends on {end:%Y-%m-%d}, in {max(0, (end - now).days)} days; ask for a new one"
        for what, end in ends.items()
        if end - now < timedelta(days=WARN_DAYS)
    )
