"""Whether anything was trained at all."""

from fl_dp.verify.check import Check, Evidence, Found


def _run(evidence: Evidence, found: Found) -> None:
    found.agrees(f"{sum(1 for _ in evidence.rounds())} rounds were run")


CHECK = Check(place=99, run=_run)
