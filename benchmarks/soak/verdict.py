"""What became of a soak: epsilons, and each round's seconds beside its grace."""

import csv
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmarks.options import say
from benchmarks.soak.machines import Client, Server, lines_of
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.events import merge
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.federation.server.registration import LEAST_PATIENCE, PATIENCE
from fl_dp.federation.server.verify import GRACE
from fl_dp.records import Entry

NOISE, DELTA = 3.0, 1e-5
_LOOKS = 2.5  # seconds between two looks for answers at most, on a busy machine


def epsilons_are_right(lines: Sequence[Mapping[str, Any]], clients: Sequence[Client]) -> bool:
    """Print, by client, what the last round shows, what its ledger says, and what its steps cost.

    Shown may be more than was taken where a round was paid for and not begun, or not confirmed; never less.
    """
    sound = True
    for client in clients:
        shown = [line["clients"][client.name] for line in lines if client.name in line["clients"]]
        wrong = sum(abs(one["epsilon"] - _of(one["charges"])) > 1e-9 for one in shown)
        last, ledger, taken = shown[-1], _of_ledger(client), _of_log(client)
        right = not wrong and taken <= ledger + 1e-9 and ledger <= last["epsilon"] + 1e-9
        if last["status"] == "trained":
            right &= abs(last["epsilon"] - ledger) < 1e-6
        sound &= right
        told = Counter(line["what"] for line in lines_of(client.events))
        say(
            f"{client.name}: epsilon shown {last['epsilon']:.6f}, by its ledger {ledger:.6f}, of the steps "
            f"that it took {taken:.6f}: {'right' if right else 'WRONG'}; {wrong} of {len(shown)} rounds show "
            f"another than their charges; {dict(Counter(one['status'] for one in shown))}; "
            f"it told {dict(told)}; cable: {client.cable.lost} blocks lost, "
            f"{client.cable.broken} connections broken"
        )
    return sound


def grace_was_kept(server: Server, lines: Sequence[Mapping[str, Any]], file: Path) -> bool:
    """Print the longest rounds; `file` gets each round's seconds beside those that it may have waited.

    Where no quorum has answered there is no grace: such a round waits until all have answered, or are gone.
    """
    by_round = {line["round"]: line for line in lines_of(server.times)}
    rows = []
    for line in lines:
        time = by_round[line["round"]]
        patience = PATIENCE if time["first"] else LEAST_PATIENCE
        rows.append(
            {
                "round": line["round"],
                "seconds": line["seconds"],
                "asked": time["asked"],
                "updates": time["updates"],
                "gathered": time["gathered"],
                "longer": time["longer"],
                "patience": patience,
                "answers": time["seconds"],
                "grace": _grace(time),
            }
        )
    with file.open("w", newline="") as target:
        writer = csv.DictWriter(target, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    bounded = [row for row in rows if row["grace"] is not None]
    late = [row for row in bounded if row["answers"] > row["grace"] + _LOOKS]
    slow = [row for row in rows if row["longer"] > row["patience"] + _LOOKS]
    longest = max(bounded, key=lambda row: row["answers"] - row["grace"])
    others = [row["answers"] for row in rows if row["grace"] is None]
    seconds = sorted(row["seconds"] for row in rows)
    say(
        f"seconds a round: median {seconds[len(seconds) // 2]:.1f}, longest {seconds[-1]:.1f}; "
        f"{len(late)} of {len(bounded)} waited for answers for longer than their grace; nearest: "
        f"{longest['answers']:.1f} of {longest['grace']:.1f} s; {len(slow)} waited for clients for longer "
        f"than their patience; without a quorum, or with somebody new: {len(others)}, the longest "
        f"{max(others, default=0):.1f} s"
    )
    return not late and not slow


def _grace(time: Mapping[str, Any]) -> float | None:
    if time["pace"] is None or time["new"]:
        return None
    pace = float(time["pace"])
    return max(pace * (1 + GRACE), pace + LEAST_PATIENCE)


def _of(charges: Sequence[Mapping[str, Any]]) -> float:
    return _epsilon(json.dumps(charges))


@lru_cache(maxsize=4096)
def _epsilon(charges: str) -> float:
    return compute_epsilon([Entry(**one) for one in json.loads(charges)], DELTA)


def _of_ledger(client: Client) -> float:
    with Ledger.open(client.ledger) as ledger:
        (account,) = ledger.accounts()
        return compute_epsilon(ledger.spent(account.dataset), DELTA)


def _of_log(client: Client) -> float:
    taken = [Entry(line["sample_rate"], NOISE, line["steps"]) for line in lines_of(client.log)]
    return compute_epsilon(merge(taken), DELTA) if taken else 0.0
