"""What clients were charged, from round to round and at the end: nothing is ever taken back."""

from collections.abc import Mapping
from dataclasses import dataclass

from fl_dp.clean_text import clean
from fl_dp.errors import ConfigError
from fl_dp.records import Entry, total_steps
from fl_dp.reporting.wording import counted
from fl_dp.verify.check import Found
from fl_dp.verify.claims import ROUNDING, Charges, Claim, ClientClaim, merged, missing

_NOT_BACK = "what was spent before, and in this round, is not all there: nothing is ever given back"
_NO_EPSILON = "no epsilon holds for data that were trained without protection"


@dataclass(slots=True)
class Known:
    """A client as the rounds so far show it. least: what its data have certainly spent; paid: certainly for
    this run's rounds; own: the steps of these; trained: its accepted rounds.
    """

    least: Charges
    shown: Charges
    paid: Charges = ()
    own: int = 0
    trained: int = 0


def follow(claim: Claim, before: Mapping[str, Charges], known: dict[str, Known], found: Found) -> None:
    """One round's charges: those of the round before, and its own steps."""
    _check_privacy(claim, found)
    for name in sorted(known.keys() - claim.clients.keys()):
        found.differs(
            f"client {clean(name)} is missing", claim.where,
            "a client that was there once stays in every later report: it was taken out",
        )  # fmt: skip
    for client in claim.clients.values():
        trained = client.status == "trained"
        if trained is not bool(client.own_steps):
            found.differs(
                f"{client.status}, with {counted(client.own_steps, 'step')} of its own", client.where,
                "who trained has taken steps, and paid for them; nobody else has",
            )  # fmt: skip
        if client.charges is None:
            continue
        start = before.get(client.name, ())
        one = known.setdefault(client.name, Known(start, start))
        _check_steps(client, client.charges, found)
        least = one.least
        if trained and client.own_steps and claim.private:
            own = _own_charge(client, found)
            least, one.paid = merged((*least, *own)), merged((*one.paid, *own))
        if lacking := missing(client.charges, least):
            found.differs(f"the charges lack {_in_words(lacking)}", client.where, _NOT_BACK)
        _check_this_run(client, client.charges, one.paid, found)
        more = missing(merged((*one.shown, *missing(one.least, least))), client.charges)
        if more and claim.private and client.status != "failed":
            found.note(
                f"the charges grew by {_in_words(more)} beside the round's own", client.where,
                "paid in another run on the same data, or in a round whose answer was lost",
            )  # fmt: skip
        one.least = client.charges if trained else least
        one.shown, one.trained, one.own = client.charges, one.trained + trained, one.own + client.own_steps


def _own_charge(client: ClientClaim, found: Found) -> Charges:
    """The steps of this round."""
    problem = "its sample rate or noise multiplier is not there"
    if client.sample_rate and client.noise_multiplier:
        try:
            return (Entry(client.sample_rate, client.noise_multiplier, client.own_steps, client.shares),)
        except ConfigError as error:
            problem = str(error)
    found.differs(f"its own steps are no charge: {problem}", client.where, "the round's cost was changed")
    return ()


def _check_privacy(claim: Claim, found: Found) -> None:
    """A run without privacy claims no epsilon."""
    told: list[tuple[str, float | None]] = []
    if not claim.private:
        told += [(claim.where, claim.epsilon), (claim.where, claim.planned_epsilon)]
        trained = (one for one in claim.clients.values() if one.status == "trained" or one.rounds)
        told += [(one.where, one.epsilon) for one in trained]
    for where, epsilon in told:
        if epsilon is not None:
            found.differs(f"epsilon {epsilon:.4f} of a run without privacy", where, _NO_EPSILON)


def _check_steps(client: ClientClaim, charges: Charges, found: Found) -> None:
    if client.steps != total_steps(charges):
        found.differs(
            f"{client.steps} steps, and {total_steps(charges)} in its charges", client.where,
            "the number of steps is that of all charges",
        )  # fmt: skip


def _check_this_run(client: ClientClaim, charges: Charges, paid: Charges, found: Found) -> None:
    """This run's claimed cost contains every round's steps, and is contained in the total spending."""
    own = client.cost.charges or ()
    if lacking := missing(own, paid):
        found.differs(
            f"this run's charges lack {_in_words(lacking)}", client.where,
            "steps that this run's rounds have cost are counted as if they had been spent before",
        )  # fmt: skip
    if more := missing(charges, own):
        found.differs(
            f"this run's charges hold {_in_words(more)} that no ledger has shown", client.where,
            "what a run has cost is a part of what was spent",
        )  # fmt: skip


def check_end(summary: Claim, rounds: Mapping[str, Known], found: Found) -> None:
    """The summary's charges, and its own counts."""
    _check_privacy(summary, found)
    # one round more than there are lines: a run that was ended may have accepted updates of one
    one_was_left = summary.together is None or summary.together.rounds_ahead > 0
    more = summary.raw.get("status") != "completed" and one_was_left
    for name, client in summary.clients.items():
        if client.charges is None:
            continue
        known = rounds.get(name, Known(client.before, ()))
        _check_steps(client, client.charges, found)
        if lacking := missing(client.charges, known.least):
            found.differs(f"the charges lack {_in_words(lacking)}", client.where, _NOT_BACK)
        trained = range(known.trained, known.trained + 1 + more)
        if name in rounds and summary.round and client.rounds not in trained:
            found.differs(
                f"{client.rounds} rounds trained, and {known.trained} in rounds.jsonl", client.where,
                "rounds were taken out, or the count was changed",
            )  # fmt: skip
        _check_this_run(client, client.charges, known.paid, found)
        both = merged((*client.before, *(client.cost.charges or ())))
        if client.this_run and (twice := missing(client.charges, both)):
            found.differs(
                f"the charges lack {_in_words(twice)} to hold both what was spent before and this run's",
                client.where, "steps are counted twice, or were taken out",
            )  # fmt: skip
        if summary.private:
            _check_budget(client, known, found)


def _check_budget(client: ClientClaim, known: Known, found: Found) -> None:
    if client.budget is None or client.epsilon is None or client.epsilon <= client.budget * (1 + ROUNDING):
        return
    what = f"epsilon {client.epsilon:.4f} of a budget of {client.budget:g}"
    if known.own:
        found.differs(what, client.where, "no ledger pays beyond its budget")
    else:
        found.note(what, client.where, "spent in earlier runs; it took no step in this one")


def _in_words(charges: Charges) -> str:
    one = charges[0]
    words = f"{counted(one.steps, 'step')} at rate {one.sample_rate:.4g} and noise {one.noise_multiplier:g}"
    if one.shared:
        words += f", shares {one.shares}"
    return words if len(charges) == 1 else f"{words}, and others"
