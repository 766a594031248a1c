"""Warnings before a kit's roster or certificates expire, so that no federation stops by surprise."""

from datetime import UTC, datetime, timedelta

from fl_dp.kits.certificates import check_text, load_certificate
from fl_dp.kits.kit import ServerKit, SiteKit

WARN_DAYS = 30


def ending(kit: SiteKit | ServerKit, now: datetime | None = None) -> tuple[str, ...]:
    """A line for each of the kit's roster and certificates that expires within WARN_DAYS."""
    ends = {
        "the roster ends on {}, in {} days; ask for a new one": datetime.fromisoformat(kit.roster.expires),
        "the authority's certificate ends on {}, in {} days; make a new federation by then": check_text(
            kit.roster.certificate
        ).not_valid_after_utc,
    }
    if isinstance(kit, ServerKit):
        words = "the server's certificate ends on {}, in {} days; ask for a new one"
        ends[words] = load_certificate(kit.tls_certificate).not_valid_after_utc
    now = now or datetime.now(UTC)
    return tuple(
        words.format(f"{end:%Y-%m-%d}", max(0, (end - now).days))
        for words, end in ends.items()
        if end - now < timedelta(days=WARN_DAYS)
    )
