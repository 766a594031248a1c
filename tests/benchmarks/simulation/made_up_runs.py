"""Runs that were never made."""

from benchmarks.simulation.outcomes import Case, Outcome
from benchmarks.simulation.watch import Command, Seen


def seen(*counted, peak=2**30, training=0.5):
    return Seen((9.0, *counted, 9.0), 3.0, peak, 0.7, training, 0.1)


def case(contender, task, command=lambda folder: Command([], folder, 2)):
    return Case(contender, task, command)


def outcome(contender, task, *runs):
    return Outcome(case(contender, task), list(runs))
