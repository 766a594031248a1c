"""The clients of a run as they stood at its end, or after the last known round."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from fl_dp.accounting.events import merge
from fl_dp.clean_text import clean
from fl_dp.records import Entry, Mechanism
from fl_dp.reporting.page.facts import Client
from fl_dp.reporting.page.round_facts import natural
from fl_dp.reporting.reports import epsilon_from_json, of_this_run

_MOST_COMPUTED = 40  # distinct accounts whose epsilon of this run alone is computed
_AS_WRITTEN = {
    "status": "", "reason": "", "budget": None, "delta": None, "accountant": "", "arithmetic": "", "steps": 0,
    "sample_rate": None, "noise_multiplier": None, "rounds": None, "public_size": 0, "planned_epsilon": None,
    "retired": 0,
}  # fmt: skip
# with defaults, for keys that a round does not write


def clients_of(
    found: Mapping[str, Mapping[str, Any]], *, before_known: bool, counts_this_run: bool
) -> tuple[Client, ...]:
    """The clients of a summary or a round, sorted by name.

    counts_this_run: whether it says what this run has cost. Otherwise before_known: whether it says what the
    data had spent before the run; rounds and older summaries do not.
    """
    clients, computed = [], dict[tuple[Any, ...], float | None]()
    for name in sorted(found, key=natural):
        client = _client(name, found[name])
        if counts_this_run:
            client = replace(client, **_cost(of_this_run(found[name])))
        elif before_known:
            own = own_charges(client.charges, client.before)
            client = replace(client, own_epsilon=_own_epsilon(client, computed), own_charges=own)
        clients.append(client)
    return tuple(clients)


def own_charges(charges: Iterable[Entry], before: Iterable[Entry]) -> tuple[Entry, ...] | None:
    """What this run has spent; None if the account lacks something that it held before the run."""
    held, earlier = merge(charges), merge(before)
    left = Counter[Mechanism]({entry.mechanism: entry.steps for entry in held})
    left.subtract({entry.mechanism: entry.steps for entry in earlier})
    if any(steps < 0 for steps in left.values()):
        return None
    return tuple(one.taking(left[one.mechanism]) for one in held if left[one.mechanism])


def as_written(found: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """These keys of a report, with cleaned texts. usual: keys and their defaults."""
    told = {key: found.get(key, value) for key, value in usual.items()}
    return {key: clean(value) if isinstance(value, str) else value for key, value in told.items()}


def _client(name: str, found: Mapping[str, Any]) -> Client:
    charges = entries(found["charges"])
    in_sums = any(entry.shared for entry in charges)
    return Client(
        **as_written(found, _AS_WRITTEN),
        name=clean(name),
        epsilon=epsilon_from_json(found["epsilon"]),
        rounds_left=found["rounds_left"] + found.get("rounds_beyond", 0),
        charges=charges,
        before=entries(found.get("before", ())),
        epsilon_alone=epsilon_from_json(found.get("epsilon_alone")) if in_sums else None,
    )


def _cost(cost: Mapping[str, Any]) -> dict[str, Any]:
    """What this run has cost, as computed by the server, and what else the client's ledger shows."""
    return {
        "own_charges": entries(cost["charges"]),
        "own_epsilon": epsilon_from_json(cost["epsilon"]),
        "claimed_epsilon": epsilon_from_json(cost["claimed_epsilon"]) if "claimed_epsilon" in cost else None,
    }


def entries(found: Iterable[Mapping[str, Any]]) -> tuple[Entry, ...]:
    return tuple(map(Entry.from_dict, found))


def _own_epsilon(client: Client, computed: dict[tuple[Any, ...], float | None]) -> float | None:
    """Epsilon of this run alone. Without earlier spending it is the whole epsilon. computed: by account."""
    if not client.before:
        return client.epsilon
    key = (client.charges, client.before, client.delta, client.accountant)
    if key not in computed and len(computed) < _MOST_COMPUTED:
        computed[key] = _computed(client)
    return computed.get(key)


def _computed(client: Client) -> float | None:
    from fl_dp.accounting.epsilon import compute_epsilon  # late: scipy, and only if the data had spent before
    from fl_dp.errors import FlDpError

    charges = own_charges(client.charges, client.before)
    if charges is None or client.delta is None:
        return None
    try:
        return compute_epsilon(charges, client.delta, client.accountant)
    except (FlDpError, ValueError):  # an accountant, rate or noise that this fl_dp does not know
        return None
