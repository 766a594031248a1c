"""An account whose rounds differ in noise: the list of all rounds is noted before the first, and kept to.

A server that chose each round's noise by what it has seen could make epsilon larger than what an accountant
adds up. A list that was fixed before the first step leaves it no such choice. It may still leave rounds out,
end early, and choose weights by results. Imagine that the client takes every round of the list, and hides
those that the server leaves out: the product of all pairs of distributions dominates what the hidden client
does (Zhu, Dong, Wang 2022, arXiv 2106.08567, theorem 10), and the server sees a part of it. So the budget
must hold the whole list, and not only the rounds that are taken: otherwise a server could choose those that
fit by their results.

A round has one number in the list, whatever the run is called. Numbers only rise, so none is paid for twice.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.requests import ReservationRequest
from fl_dp.errors import BudgetExhaustedError, DeclinedError
from fl_dp.records import Entry

_ANEW = "have their operator begin anew (fl-dp ledger retire)"
LISTED = "list"  # the kind of an event that notes a list; an fl_dp that does not know it reads no further


def check_listed(
    request: ReservationRequest,
    budget: Budget,
    held: tuple[Entry, ...],
    spent: tuple[Entry, ...],
    last: int,
) -> None:
    """DeclinedError unless the round is one of its list, after all that were paid for, and the list is the
    account's first. BudgetExhaustedError if the whole list does not fit the budget.

    held: the account's list; spent: what it has paid for; last: the largest number of a paid round.
    """
    listed, number = request.listed, request.server_round
    if held and listed != held:
        raise DeclinedError(
            f"The account of these data keeps to the list of {len(held)} rounds that was noted before its "
            f"first step; the round is of another list, or of none. Go on with the first, or {_ANEW}."
        )
    if not held and spent:
        raise DeclinedError(
            "The round is of a list of noise multipliers, which must be noted before an account's first "
            f"step; these data were trained before. Ask for one noise multiplier, or {_ANEW}."
        )
    if from_fields(to_fields(listed)) != listed:
        raise DeclinedError(
            "The round is of a list whose rounds differ in more than noise, or go into secure sums: no "
            "account keeps to such a list. Ask for one noise multiplier."
        )
    if not last < number <= len(listed) or request.entry != listed[number - 1]:
        raise DeclinedError(
            f"Round {number} with {request.entry.steps} steps at noise multiplier "
            f"{request.entry.noise_multiplier:g} is not what the account's list has next: rounds {last + 1} "
            f"to {len(listed)} are left, each with its own noise, in this order."
        )
    most = min(budget.epsilon, budget.epsilon_alone or math.inf)  # outside of secure sums both limit the same
    if (whole := budget.epsilon_of(listed)) > most:
        raise BudgetExhaustedError(
            f"The whole list of {len(listed)} rounds costs epsilon {whole:.4f} of {most:g} at "
            f"delta {budget.delta:g}, by {budget.accountant}: a list fits whole, or none of it is taken."
        )


def to_fields(listed: Sequence[Entry]) -> dict[str, Any]:
    """The list as an event has it: the rounds differ in noise alone."""
    first = listed[0]
    return {
        "sample_rate": first.sample_rate,
        "steps": first.steps,
        "noise_multipliers": [one.noise_multiplier for one in listed],
    }


def from_fields(content: Mapping[str, Any]) -> tuple[Entry, ...]:
    """The inverse of `to_fields`."""
    rate, steps = content["sample_rate"], content["steps"]
    return tuple(Entry(rate, noise, steps) for noise in content["noise_multipliers"])
