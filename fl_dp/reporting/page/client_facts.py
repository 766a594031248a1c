"""The clients of a run as they stood at its end, or after the last round that is known."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fl_dp.accounting.events import merge
from fl_dp.clean_text import clean
from fl_dp.records import Entry, Mechanism
from fl_dp.reporting.page.facts import Client
from fl_dp.reporting.page.round_facts import natural
from fl_dp.reporting.reports import epsilon_from_json, of_this_run

_MOST_COMPUTED = 40  # different accounts whose epsilon of this run alone is computed


def clients_of(
    found: Mapping[str, Mapping[str, Any]], *, before_known: bool, counts_this_run: bool = False
) -> tuple[Client, ...]:
    """The clients, of a summary or of a round, in the order of their names.

    counts_this_run: whether it says what this run has cost. Else, before_known: whether it says what data had
    spent before the run; rounds and older summaries do not.
    """
    names = sorted(found, key=natural)
    clients = [_client(name, found[name]) for name in names]
    if counts_this_run:
        return tuple(_with_cost(one, found[name]) for one, name in zip(clients, names, strict=True))
    return _with_own_epsilons(clients) if before_known else tuple(clients)


def own_charges(charges: Iterable[Entry], before: Iterable[Entry]) -> tuple[Entry, ...] | None:
    """What this run has spent; None where the account does not hold what it held before the run."""
    held, earlier = merge(charges), merge(before)
    left = Counter[Mechanism]({entry.mechanism: entry.steps for entry in held})
    left.subtract({entry.mechanism: entry.steps for entry in earlier})
    if any(steps < 0 for steps in left.values()):
        return None
    return tuple(one.taking(left[one.mechanism]) for one in held if left[one.mechanism])


def _client(name: str, found: Mapping[str, Any]) -> Client:
    return Client(
        name=clean(name),
        status=found["status"],
        reason=clean(found["reason"]),
        epsilon=epsilon_from_json(found["epsilon"]),
        budget=found["budget"],
        delta=found["delta"],
        accountant=clean(found["accountant"]),
        arithmetic=clean(found["arithmetic"]),
        steps=found["steps"],
        rounds=found.get("rounds"),
        rounds_left=found["rounds_left"] + found.get("rounds_beyond", 0),
        public_size=found.get("public_size", 0),
        sample_rate=found["sample_rate"],
        noise_multiplier=found["noise_multiplier"],
        charges=_entries(found["charges"]),
        before=_entries(found.get("before", ())),
        planned_epsilon=found.get("planned_epsilon"),
        epsilon_alone=epsilon_from_json(found.get("epsilon_alone")) if _in_sums(found) else None,
        retired=found.get("retired", 0),
    )


def _with_cost(client: Client, found: Mapping[str, Any]) -> Client:
    """With what this run has cost, as the server has computed it, and what else its ledger shows."""
    cost = of_this_run(found)
    return replace(
        client,
        own_charges=_entries(cost["charges"]),
        own_epsilon=epsilon_from_json(cost["epsilon"]),
        claimed_epsilon=epsilon_from_json(cost["claimed_epsilon"]) if "claimed_epsilon" in cost else None,
    )


def _in_sums(found: Mapping[str, Any]) -> bool:
    return any(entry.shared for entry in _entries(found["charges"]))


def _entries(found: Sequence[Mapping[str, Any]]) -> tuple[Entry, ...]:
    return tuple(map(Entry.from_dict, found))


def _with_own_epsilons(clients: Sequence[Client]) -> tuple[Client, ...]:
    """With the epsilon of this run alone. Where nothing was spent before, that is the whole epsilon."""
    known: dict[tuple[Any, ...], float | None] = {}
    made = []
    for one in clients:
        if not one.before:
            own: float | None = one.epsilon
        else:
            key = (one.charges, one.before, one.delta, one.accountant)
            if key not in known and len(known) < _MOST_COMPUTED:
                known[key] = _own_epsilon(one)
            own = known.get(key)
        made.append(replace(one, own_epsilon=own, own_charges=own_charges(one.charges, one.before)))
    return tuple(made)


def _own_epsilon(client: Client) -> float | None:
    from fl_dp.accounting.epsilon import compute_epsilon  # late: scipy, and only where data had spent before
    from fl_dp.errors import FlDpError

    charges = own_charges(client.charges, client.before)
    if charges is None or client.delta is None:
        return None
    try:
        return compute_epsilon(charges, client.delta, client.accountant)
    except (FlDpError, ValueError):  # an accountant, a rate or a noise that this fl_dp does not have
        return None
