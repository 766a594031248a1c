"""Charges from round to round: each round adds its own steps, from `before` to the summary's charges."""

from collections.abc import Iterator
from dataclasses import dataclass

from fl_dp.clean_text import clean
from fl_dp.errors import ConfigError
from fl_dp.records import Entry, total_steps
from fl_dp.reporting.wording import counted
from fl_dp.verify.check import Check, Evidence, Found
from fl_dp.verify.claims import ROUNDING, Charges, Claim, ClientClaim, merged, missing


@dataclass(slots=True)
class _Known:
    """A client as the rounds so far show it. least: what its data have certainly spent; paid: certainly for
    this run's rounds; own: the steps of these; trained: its accepted rounds.
    """

    least: Charges
    shown: Charges
    paid: Charges = ()
    own: int = 0
    trained: int = 0


class _Growth:
    def __init__(self, before: dict[str, Charges], found: Found) -> None:
        self._before, self._found = before, found
        self.known: dict[str, _Known] = {}
        self.seen = 0

    def add(self, claim: Claim) -> None:
        gone = self.known.keys() - claim.clients.keys()
        for name in sorted(gone):
            self._found.differs(
                f"client {clean(name)} is missing", claim.where,
                "a client that was there once stays in every later report: it was taken out",
            )  # fmt: skip
        for client in claim.clients.values():
            if client.charges is not None:
                self._add(client, client.charges, claim.private)

    def _add(self, client: ClientClaim, charges: Charges, private: bool) -> None:
        self.seen += 1
        known = self.known.get(client.name)
        if known is None:
            start = self._before.get(client.name, ())
            known = self.known[client.name] = _Known(start, start)
        _check_steps(client, charges, self._found)
        least = known.least
        if client.status == "trained" and client.own_steps and private:
            own = self._own(client)
            least, known.paid = merged((*known.least, *own)), merged((*known.paid, *own))
        if lacking := missing(charges, least):
            self._found.differs(
                f"the charges lack {_in_words(lacking)}", client.where,
                "what was spent before, and in this round, is not all there: nothing is ever given back",
            )  # fmt: skip
        _check_this_run(client, charges, known.paid, self._found)
        if private:  # otherwise the mechanism of a round's own steps is not written
            self._look_at_growth(client, charges, known, least)
        trained = client.status == "trained"
        known.least = charges if trained else least
        known.shown = charges
        known.trained += trained
        known.own += client.own_steps

    def _own(self, client: ClientClaim) -> Charges:
        """The steps of this round."""
        if not client.sample_rate or not client.noise_multiplier:
            self._found.differs(
                "it trained, and its sample rate or noise multiplier is not there", client.where,
                "the round's own charge cannot be known",
            )  # fmt: skip
            return ()
        try:
            own = Entry(client.sample_rate, client.noise_multiplier, client.own_steps, client.shares)
        except ConfigError as error:
            self._found.differs(
                f"its own steps are no charge: {error}", client.where, "what the round has cost was changed"
            )
            return ()
        return (own,)

    def _look_at_growth(self, client: ClientClaim, charges: Charges, known: _Known, least: Charges) -> None:
        """Growth beyond the round's own steps: from another run, or from a round that was not answered."""
        expected = merged((*known.shown, *missing(known.least, least)))
        excess = missing(expected, charges)
        if excess and client.status in ("declined", "idle", "trained"):
            self._found.note(
                f"the charges grew by {_in_words(excess)} beside the round's own", client.where,
                "paid in another run on the same data, or in a round whose answer was lost",
            )  # fmt: skip


def _run(evidence: Evidence, found: Found) -> None:
    summary = evidence.summary
    before = {name: one.before for name, one in summary.clients.items()} if summary else {}
    growth = _Growth(before, found)
    for claim in evidence.rounds():
        growth.add(claim)
        _check_statuses(claim, found)
    if summary is not None:
        _check_end(summary, growth, found)
    if growth.seen and not found.any_differ:
        found.agrees(
            f"the charges of {counted(len(growth.known), 'client')} include the steps of every round, "
            "and no step was taken out of an account"
        )
    elif not growth.seen:
        found.not_given("charges in rounds.jsonl", "an older fl_dp did not write them, or no round was run")


def _check_this_run(client: ClientClaim, charges: Charges, paid: Charges, found: Found) -> None:
    """This run's claimed cost contains every round's steps, and is contained in the total spending."""
    own = _run_of(client)
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


def _check_steps(client: ClientClaim, charges: Charges, found: Found) -> None:
    if client.steps != total_steps(charges):
        found.differs(
            f"{client.steps} steps, and {total_steps(charges)} in its charges", client.where,
            "the number of steps is that of all charges",
        )  # fmt: skip


def _check_statuses(claim: Claim, found: Found) -> None:
    for client in claim.clients.values():
        if client.status != "trained" and client.own_steps:
            found.differs(
                f"{client.status}, with {counted(client.own_steps, 'step')} of its own", client.where,
                "only who trained has taken steps",
            )  # fmt: skip
        if client.status == "trained" and not client.own_steps:
            found.differs(
                "trained, without a step of its own",
                client.where,
                "who trained has taken steps, and paid for them",
            )


def _check_end(summary: Claim, growth: _Growth, found: Found) -> None:
    """The summary's charges, and its own counts."""
    for client, known in _pairs(summary, growth):
        if client.charges is None:
            continue
        _check_steps(client, client.charges, found)
        if lacking := missing(client.charges, known.least if known else client.before):
            found.differs(
                f"the charges lack {_in_words(lacking)}", client.where,
                "what the rounds have cost, over what was spent before, is more",
            )  # fmt: skip
        if known and summary.round and client.rounds not in _may_have_trained(known.trained, summary):
            found.differs(
                f"{client.rounds} rounds trained, and {known.trained} in rounds.jsonl", client.where,
                "rounds were taken out, or the count was changed",
            )  # fmt: skip
        _check_this_run(client, client.charges, known.paid if known else (), found)
        if client.this_run and (twice := missing(client.charges, merged((*client.before, *_run_of(client))))):
            found.differs(
                f"the charges lack {_in_words(twice)} to hold both what was spent before and this run's",
                client.where, "steps are counted twice, or were taken out",
            )  # fmt: skip
        if summary.private:
            _check_budget(client, known, found)


def _run_of(client: ClientClaim) -> Charges:
    return client.cost.charges or ()


def _may_have_trained(rounds: int, summary: Claim) -> range:
    """Possible numbers of accepted rounds: those in rounds.jsonl, one more if the run ended before a line."""
    one_was_left = summary.together is None or summary.together.rounds_ahead > 0
    return range(rounds, rounds + 1 + (summary.raw.get("status") != "completed" and one_was_left))


def _check_budget(client: ClientClaim, known: _Known | None, found: Found) -> None:
    if client.budget is None or client.epsilon is None or client.epsilon <= client.budget * (1 + ROUNDING):
        return
    what = f"epsilon {client.epsilon:.4f} of a budget of {client.budget:g}"
    if known is not None and known.own:
        found.differs(what, client.where, "no ledger pays beyond its budget")
    else:
        found.note(what, client.where, "spent in earlier runs; it took no step in this one")


def _pairs(summary: Claim, growth: _Growth) -> Iterator[tuple[ClientClaim, _Known | None]]:
    for name, client in summary.clients.items():
        yield client, growth.known.get(name)


def _in_words(charges: Charges) -> str:
    one = charges[0]
    words = f"{counted(one.steps, 'step')} at rate {one.sample_rate:.4g} and noise {one.noise_multiplier:g}"
    if one.shared:
        words += f", shares {one.shares}"
    return words if len(charges) == 1 else f"{words}, and others"


CHECK = Check(place=2, run=_run)
