"""Runs of each kind of which a page speaks, by a name for each."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fl_dp.kits.keys import SigningKey
from fl_dp.records import LEAST_CELL, Entry
from fl_dp.reporting.reports import INTERRUPTED
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.statements import PURPOSE, Stated, Statement

from .conftest import Make, change_summary, statement

BEFORE = (Entry(0.1, 1.5, 30),)
NOBODY = {"clients": {}, "epsilon": None, "delta": None, "federation": None}
SIGNED_OF_NORTH = statement(["north"])


def signed(one: Stated) -> Stated:
    key = SigningKey.generate()
    return replace(one, key=key.public, signature=key.sign(PURPOSE, one.text.encode()).hex())


def of_sums(folder: RunFolder, alone: float | None, shares: int = 8) -> RunFolder:
    """The run, as if its first client's steps had been of secure sums."""

    def change(summary: dict[str, Any]) -> None:
        first = next(iter(summary["clients"].values()))
        first["charges"][0] |= {"shares": shares}
        first["epsilon_alone"] = summary["federation"]["epsilon_alone"] = alone

    return change_summary(folder, change)


def untrained(folder: RunFolder, *, paid: int = 0, **changed: object) -> RunFolder:
    """Of a run without a round: one client, whose account held 9 steps before. paid: steps for this run."""

    def change(summary: dict[str, Any]) -> None:
        north, step = summary["clients"]["north"], {"sample_rate": 0.1, "noise_multiplier": 1.5}
        north["charges"], north["before"] = [{**step, "steps": 9 + paid}], [{**step, "steps": 9}]
        own = [{**step, "steps": paid}] if paid else []
        north["this_run"] = {"charges": own, "epsilon": 0.5 * bool(paid)}
        summary |= {
            "rounds": 0,
            "model_round": 0,
            "status": "failed",
            "digests": {},
            "clients": {"north": north},
        }
        summary |= changed

    folder.rounds.unlink()
    return change_summary(folder, change)


def of_rounds(folder: RunFolder, change: Callable[[dict[str, Any]], object]) -> RunFolder:
    lines = [json.loads(line) for line in folder.rounds.read_text().splitlines()]
    for line in lines:
        change(line)
    folder.rounds.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def ended(folder: RunFolder, reason: str) -> RunFolder:
    return change_summary(folder, lambda said: said.update(reason=reason))


def of_clients(folder: RunFolder, **fields: Any) -> RunFolder:
    """With these fields of every client in the summary."""
    return change_summary(folder, lambda said: [one.update(fields) for one in said["clients"].values()])


def unmeasured(folder: RunFolder) -> RunFolder:
    """With evaluate = "off"."""
    nothing = {"loss": None, "accuracy": None, "metrics": {}}
    of_rounds(folder, lambda line: line.update(nothing))
    return change_summary(folder, lambda said: said.update(nothing))


def opened(folder: RunFolder, *, masked: bool, alone: float | None = 7.0) -> RunFolder:
    """With secure sums of its own."""
    opening = {"clients": 9, "shares": 8, "masked": masked}
    of_rounds(folder, lambda line: line.update(secure_sum=opening))
    return of_sums(folder, alone)


def evaluated(folder: RunFolder, in_sums: bool = False) -> RunFolder:
    """With metrics from its sites' own test records; one site has none. in_sums: fl_dp 1.0 has put
    them into secure sums before."""
    estimate = {"value": 0.8412, "low": 0.79, "high": 0.89}
    account = {
        "status": "evaluated",
        "reason": "",
        "epsilon": 0.9312,
        "delta": 1e-5,
        "budget": 1.0,
        "accountant": "pld",
        "charges": [{"sample_rate": 1.0, "noise_multiplier": 5.277, "steps": 2}],
    }
    few = {"value": None, "low": None, "high": None}
    measured = {
        "epsilon": 0.9312,
        "delta": 1e-5,
        "metrics": {"auroc": estimate, "recall": few},
        "sites": {"north": account, "south": {"status": "declined", "reason": "declares <none>"}},
    }
    if in_sums:
        account["charges"] = [{**account["charges"][0], "shares": 2}]
        account["epsilon_alone"] = measured["epsilon_alone"] = 1.4
    return of_rounds(folder, lambda line: line.update(site_metrics=measured))


TWO = {
    "format": 1,
    "classes": ["well", "<ill>"],
    "scores": [
        {
            "class": "<ill>",
            "ends": [0.0, 0.1, 0.5, 1.0],
            "places": [0.05, 0.3, 0.9],
            "counts": [[90, 10], [30, 20], [20, 80]],
            "deviation": 0.0,
        }
    ],
}


def answered(folder: RunFolder, at_sites: bool = False, **changed: Any) -> RunFolder:
    """With what its model answered to test records; at_sites: with the sites' noised counts, too."""
    found = {**TWO, **changed}
    if at_sites:
        noised = {**TWO, "scores": [{**TWO["scores"][0], "deviation": 4.0}]}
        evaluated(folder)
        of_rounds(folder, lambda line: line["site_metrics"].update(outcomes=noised))
    return change_summary(folder, lambda said: said.update(outcomes=found))


def launched(folder: RunFolder, engine: str) -> RunFolder:
    folder.launch.write_text(f'engine = "{engine}"\nledgers = "ledgers"\n')
    return folder


def of_account(one: Stated, **fields: Any) -> Stated:
    """With these fields of its accounts."""
    said = Statement.from_text(one.text)
    accounts = tuple(replace(account, **fields) for account in said.accounts)
    return replace(one, text=replace(said, accounts=accounts).to_text())


def served(folder: RunFolder) -> RunFolder:
    """By a server whose clients others have started."""
    folder.launch.unlink()
    return folder


def described(folder: RunFolder, **said: Any) -> RunFolder:
    folder.description.write_text(json.dumps(said))
    return folder


FORM = {"input_shape": [13], "outputs": 2, "targets": "class", "vocabulary": 0}

RUNS: dict[str, Callable[[Make], RunFolder]] = {
    "plain": lambda make: make(),
    "evaluated at sites": lambda make: evaluated(make()),
    "answered": lambda make: answered(make(), at_sites=True),
    "of few": lambda make: answered(make(), withheld="few"),
    "no numbers": lambda make: answered(make(), withheld="no-numbers"),
    "one client": lambda make: make(clients=["north"]),
    "killed": lambda make: make(over=False),
    "interrupted": lambda make: ended(make(status="failed", settings={"rounds": 5}), INTERRUPTED),
    "failed": lambda make: ended(make(status="failed"), "by order"),
    "budget spent": lambda make: ended(make(status="budget-exhausted"), "no budget"),
    "nobody came": lambda make: untrained(make(), **NOBODY),
    "no round": lambda make: untrained(make()),
    "paid, no round": lambda make: untrained(make(), paid=3),
    "above the budget": lambda make: of_clients(make(), budget=0.1),
    "two mechanisms": lambda make: of_clients(
        make(), charges=[Entry(0.1, 1.5, 3).to_dict(), Entry(0.2, 1.5, 3).to_dict()]
    ),
    "public": lambda make: make(settings={"public-data": True}),
    "best": lambda make: make(model="best", model_round=2),
    "a constant": lambda make: change_summary(
        make(), lambda said: said.update(constant={"loss": 2.3, "accuracy": 0.1})
    ),
    "unmeasured": lambda make: unmeasured(make()),
    "by class": lambda make: make(
        metrics={"accuracy": 0.5, "accuracy-per-class[a]": 0.25}, suppressed_below=LEAST_CELL
    ),
    "unprotected": lambda make: make(private=False),
    "unprotected, one absent": lambda make: change_summary(
        make(private=False), lambda said: said["clients"]["south"].update(epsilon=0.5)
    ),
    "unprotected, own ledgers": lambda make: make(
        private=False, signed=[statement(["north", "south"], one_run_ledger=True)]
    ),
    "unprotected, no round": lambda make: untrained(make(private=False)),
    "persons": lambda make: make(
        federation={"unit": "person", "arithmetic": "proven"},
        settings={"unit": "person:p", "records-per-person": 4},
    ),
    "much": lambda make: make(rounds=30),
    "infinite": lambda make: change_summary(
        make(), lambda said: said.update(epsilon=None, planned_epsilon=None)
    ),
    "of this run, all declined": lambda make: of_clients(make(), this_run={"charges": [], "epsilon": 0.0}),
    "of this run, and others": lambda make: of_clients(
        make(),
        this_run={"charges": [BEFORE[0].to_dict()], "epsilon": 0.5, "claimed_epsilon": 0.25},
    ),
    "of this run, silent": lambda make: served(make(signed=[])),
    "of this run, interrupted": lambda make: change_summary(
        ended(make(status="failed", settings={"rounds": 5}), INTERRUPTED),
        lambda said: said.update(epsilon=0.95),
    ),
    "own ledgers": lambda make: make(signed=[statement(["north", "south"], one_run_ledger=True)]),
    "one own ledger": lambda make: make(
        signed=[statement(["north"], one_run_ledger=True), statement(["south"])]
    ),
    "retired": lambda make: of_clients(make(), retired=1),
    "no plan": lambda make: make(planned_epsilon=None),
    "weights of a file": lambda make: make(settings={"start": "weights.pt"}),
    "masked sums": lambda make: opened(make(), masked=True),
    "open sums": lambda make: opened(make(), masked=False, alone=None),
    "simulated sums": lambda make: launched(opened(make(), masked=False), "ray"),
    "simulated": lambda make: launched(make(), "ray"),
    "served": lambda make: served(make(signed=[signed(statement(["north", "south"]))])),
    "one signed": lambda make: make(signed=[signed(SIGNED_OF_NORTH)]),
    "many sites": lambda make: served(make(clients=[str(number) for number in range(30)], signed=[])),
    "forged": lambda make: make(signed=[replace(signed(SIGNED_OF_NORTH), signature="00" * 64)]),
    "of another run": lambda make: make(signed=[signed(statement(["north"], run="18"))]),
    "states none": lambda make: make(signed=[of_account(SIGNED_OF_NORTH, epsilon=None)]),
    "silent": lambda make: make(signed=[]),
    "called otherwise": lambda make: described(make(), model="linear", data="csv", form=FORM),
    "of other code": lambda make: make(settings={"task": "t.py"}, task="ab" * 32),
    "of a task": lambda make: described(
        make(settings={"task": "t.py"}, signed=[]), task="Ours", model="", classes=["no", "yes"]
    ),
}
