"""What ends soon is said, with its day; before that, nothing."""

from datetime import UTC, datetime, timedelta

from kits.made import Made

from fl_dp.kits.kit import ServerKit, SiteKit, ending


def test_what_ends_within_30_days_is_said(made: Made) -> None:
    now = datetime.now(UTC)
    site, server = SiteKit.load(made.kit("north")), ServerKit.load(made.server)
    assert ending(site) == ending(server) == ()
    assert ending(server, now + timedelta(days=334)) == ()
    soon = now + timedelta(days=336)
    assert [line.split(" ends on ")[0] for line in ending(server, soon)] == [
        "the roster",
        "the server's certificate",
    ]
    assert len(ending(site, soon)) == 1
    assert f"{now + timedelta(days=365):%Y-%m-%d}, in 28 days" in ending(site, soon)[0]
    late = ending(site, now + timedelta(days=3640))
    assert any("the authority's certificate" in line for line in late)
