"""Runs all checks, one after the other; whatever the files hold, each ends with findings."""

from collections.abc import Iterator

from fl_dp.choices import CHECKS
from fl_dp.errors import FlDpError
from fl_dp.verify.check import Check, Checked, Evidence
from fl_dp.verify.findings import Found


def checked(evidence: Evidence) -> Iterator[Checked]:
    """The findings of each of our checks, in order. No other package's check runs: the verdict is ours."""
    checks = {name: CHECKS.load(name, Check) for name in CHECKS.built_in()}
    for name, check in sorted(checks.items(), key=lambda one: one[1].place):
        found = Found()
        evidence.progress(f"checking {name}")
        try:
            check.run(evidence, found)
        except FlDpError as error:
            found.differs(str(error).rstrip("."), "", "it could not be checked any further")
        yield Checked(name, found.all(), dict(found.signed))
