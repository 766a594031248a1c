"""What clients were charged, from round to round and at the end: charges never shrink."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from fl_dp.accounting.events import merge
from fl_dp.clean_text import clean
from fl_dp.errors import ConfigError
from fl_dp.records import Entry, total_steps
from fl_dp.reporting.reports import ClientReport, RoundReport, Summary
from fl_dp.reporting.wording import counted
from fl_dp.verify.check import Found
from fl_dp.verify.claims import ROUNDING, Charges, Claim, missing, shown

_NOT_BACK = "some of what was spent before or in this round is missing: nothing is ever given back"
_NO_EPSILON = "no epsilon holds for data that were trained without protection"


@dataclass(slots=True)
class Known:
    """A client as the rounds so far show it. least: what its data have certainly spent. shown: its charges in
    the last round. paid: what it has certainly paid for this run. own: the steps of that. trained: its
    accepted rounds.
    """

    least: Charges
    shown: Charges
    paid: Charges = ()
    own: int = 0
    trained: int = 0


def follow(
    claim: Claim[RoundReport], before: Mapping[str, Charges], known: dict[str, Known], found: Found
) -> None:
    """Check one round's charges: they hold those of the round before, and the round's own steps."""
    clients, private = claim.report.clients, claim.report.private
    _check_privacy(claim, found)
    for name in sorted(known.keys() - clients.keys()):
        found.differs(
            f"client {clean(name)} is missing",
            claim.where,
            "a client stays in every report after its first: this one was taken out",
        )
    for name, client in clients.items():
        where, trained, steps = claim.of(name), client.status == "trained", steps_of(client)
        if trained is not bool(steps):
            found.differs(
                f"{client.status}, with {counted(steps, 'step')} of its own",
                where,
                "a client that trained has taken steps and paid for them; no other client has",
            )
        start = before.get(name, ())
        one = known.setdefault(name, Known(start, start))
        own = _own_charge(client, steps, where, found) if trained and steps and private else ()
        least, one.paid = merge((*one.least, *own)), merge((*one.paid, *own))
        _check_steps(client, where, found)
        if lacking := missing(client.charges, least):
            found.differs(f"the charges lack {_in_words(lacking)}", where, _NOT_BACK)
        _check_this_run(client, where, one.paid, found)
        more = missing(merge((*one.shown, *missing(one.least, least))), client.charges)
        if more and private and client.status != "failed":
            found.note(
                f"the charges grew by {_in_words(more)} in addition to the round's own",
                where,
                "paid in another run on the same data, or in a round whose answer was lost",
            )
        one.least = client.charges if trained else least
        one.shown, one.trained, one.own = client.charges, one.trained + trained, one.own + steps


def steps_of(client: ClientReport) -> int:
    """The steps that its update of the round claims; 0 without an update."""
    steps = dict(client.reported).get("steps", 0)
    return steps if type(steps) is int and steps > 0 else 0


def _own_charge(client: ClientReport, steps: int, where: str, found: Found) -> Charges:
    problem = "its sample rate or noise multiplier is missing"
    if client.sample_rate and client.noise_multiplier:
        try:
            return (Entry(client.sample_rate, client.noise_multiplier, steps, client.shares),)
        except ConfigError as error:
            problem = str(error)
    found.differs(f"its own steps are no charge: {problem}", where, "the round's cost was changed")
    return ()


def _check_privacy(claim: Claim[RoundReport | Summary], found: Found) -> None:
    """A run without privacy claims no epsilon."""
    report = claim.report
    if report.private:
        return
    told = [(claim.where, report.epsilon)]
    if isinstance(report, Summary):
        told.append((claim.where, report.planned_epsilon))
    clients = report.clients.items()
    told += [(claim.of(name), one.epsilon) for name, one in clients if one.status == "trained" or one.rounds]
    for where, epsilon in told:
        if epsilon is not None and epsilon < math.inf:
            found.differs(f"epsilon {shown(epsilon)} of a run without privacy", where, _NO_EPSILON)


def _check_steps(client: ClientReport, where: str, found: Found) -> None:
    if client.steps != total_steps(client.charges):
        found.differs(
            f"{counted(client.steps, 'step')}, and {total_steps(client.charges)} in its charges",
            where,
            "both are the number of all steps",
        )


def _check_this_run(client: ClientReport, where: str, paid: Charges, found: Found) -> None:
    """Check that this run's cost holds the steps of every round, and that all spending holds this cost."""
    own = client.cost.charges
    if lacking := missing(own, paid):
        found.differs(
            f"this run's charges lack {_in_words(lacking)}",
            where,
            "steps of this run's rounds are counted as spent before",
        )
    if more := missing(client.charges, own):
        found.differs(
            f"this run's charges hold {_in_words(more)} that no ledger has shown",
            where,
            "the cost of a run is a part of all that was spent",
        )


def check_end(claim: Claim[Summary], rounds: Mapping[str, Known], found: Found) -> None:
    """Check the summary's charges and counts against the rounds."""
    summary = claim.report
    _check_privacy(claim, found)
    # a run that was ended may have accepted updates of one more round, which has no line
    one_was_left = summary.federation is None or summary.federation.rounds_ahead > 0
    more = summary.status != "completed" and one_was_left
    for name, client in summary.clients.items():
        where, known = claim.of(name), rounds.get(name, Known(client.before, ()))
        _check_steps(client, where, found)
        if lacking := missing(client.charges, known.least):
            found.differs(f"the charges lack {_in_words(lacking)}", where, _NOT_BACK)
        trained = range(known.trained, known.trained + 1 + more)
        if name in rounds and summary.rounds and client.rounds not in trained:
            found.differs(
                f"{counted(client.rounds, 'round')} trained, and {known.trained} in rounds.jsonl",
                where,
                "rounds were taken out, or the count was changed",
            )
        _check_this_run(client, where, known.paid, found)
        both = merge((*client.before, *client.cost.charges))
        if client.this_run and (twice := missing(client.charges, both)):
            found.differs(
                f"the charges lack {_in_words(twice)} to hold both what was spent before and this run's",
                where,
                "steps are counted twice, or were taken out",
            )
        if summary.private and math.inf > client.epsilon > client.budget * (1 + ROUNDING):
            what = f"epsilon {shown(client.epsilon)} of a budget of {client.budget:g}"
            if known.own:
                found.differs(what, where, "no ledger pays beyond its budget")
            else:
                found.note(what, where, "spent in earlier runs: it took no step in this one")


def _in_words(charges: Charges) -> str:
    one = charges[0]
    words = f"{counted(one.steps, 'step')} at rate {one.sample_rate:.4g} and noise {one.noise_multiplier:g}"
    if one.shared:
        words += f", shares {one.shares}"
    return words if len(charges) == 1 else f"{words}, and others"
