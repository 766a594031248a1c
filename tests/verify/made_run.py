"""A run of two hospitals as it is left, without the training, and a forger who can write all of it."""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import tomli_w
import torch
from kits.made import SITES, Made, federation_in
from run_records import client, record, summary

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.accounting.ledger.requests import ReservationRequest
from fl_dp.config.run import RunConfig
from fl_dp.kits.keys import SigningKey
from fl_dp.kits.roster import Roster
from fl_dp.records import STEADY_ROWS, Entry
from fl_dp.reporting.page.render import render_page
from fl_dp.reporting.reports import FederationBudget, OpenedSum, RoundReport, Summary
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.reporting.run_results import RunResults, write_statements
from fl_dp.statements import PURPOSE, AccountStatement, Stated, Statement, commitment
from fl_dp.verify.check import Evidence, Finding, Found, Outcome, checked
from fl_dp.weights_digest import weights_digest

RUN, SIZE, BATCH, NOISE, STEPS, ROUNDS, DELTA, BUDGET = "7001", 640, 64, 1.5, 20, 3, 1e-5, 3.0
RATE = BATCH / SIZE
Json = dict[str, Any]


@dataclass
class MadeRun:
    """files: the run's folder. kits: of the hospitals, and of who provisions."""

    files: RunFolder
    kits: Made
    ledgers: dict[str, Path]
    shares: int = 1

    @property
    def roster(self) -> Roster:
        return Roster.read(self.kits.roster)

    def key(self, site: str) -> SigningKey:
        return SigningKey.load(self.kits.kit(site) / "site.key")

    def copy(self, folder: Path) -> "MadeRun":
        """Another one with its own files, to be forged."""
        shutil.copytree(self.files.path, folder)
        return replace(self, files=RunFolder(folder))

    def check(self, *, roster: bool = False, ledgers: bool = False) -> dict[str, Found]:
        trusted, files = self.roster if roster else None, tuple(self.ledgers.values()) if ledgers else ()
        return {one.name: one for one in checked(Evidence(self.files, trusted, files))}

    def differs(self, *, roster: bool = False, ledgers: bool = False) -> dict[str, list[Finding]]:
        """What differs, by check; empty where all agrees."""
        found = {
            name: [one for one in result.findings if one.outcome is Outcome.DIFFERS]
            for name, result in self.check(roster=roster, ledgers=ledgers).items()
        }
        return {name: findings for name, findings in found.items() if findings}

    def words(self, check: str, **given: bool) -> str:
        """What differs by that check, as one text; empty where it all agrees."""
        return " | ".join(f"{one.what} ({one.where})" for one in self.differs(**given).get(check, []))

    def notes(self, check: str, **given: bool) -> list[str]:
        return [one.what for one in self.check(**given)[check].findings if one.outcome is Outcome.NOTE]

    # The forger.

    def change_rounds(self, change: Callable[[Json], object]) -> None:
        lines = [json.loads(line) for line in self.files.rounds.read_text().splitlines()]
        for line in lines:
            change(line)
        self.files.rounds.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def change_summary(self, change: Callable[[Json], object]) -> None:
        summary = json.loads(self.files.summary.read_text())
        change(summary)
        self.files.summary.write_text(json.dumps(summary, indent=2))

    def change_client(self, client: str = "north", **fields: Any) -> None:
        """In the summary."""
        self.change_summary(lambda summary: summary["clients"][client].update(fields))

    def change_both(self, change: Callable[[Json], object]) -> None:
        self.change_rounds(change)
        self.change_summary(change)

    def statements(self) -> list[Json]:
        found: list[Json] = json.loads(self.files.statements.read_text())["statements"]
        return found

    def write_statements(self, statements: list[Json]) -> None:
        self.files.statements.write_text(json.dumps({"statements": statements}))

    def draw(self) -> None:
        """The page, from the files as they are."""
        self.files.report.write_text(render_page(self.files))

    def change_settings(self, before: str, after: str, *files: str) -> None:
        """Of config.toml, unless others are named; the digests are as a forger computes them."""
        for name in files or ("config",):
            path = getattr(self.files, name)
            assert before in path.read_text()
            path.write_text(path.read_text().replace(before, after))
        self.digests_anew()

    def digests_anew(self) -> None:
        """All that stand in the folder."""

        def set_them(summary: Json) -> None:
            weights = torch.load(self.files.model(private=summary["private"]), weights_only=True)
            config = hashlib.sha256(self.files.config.read_bytes()).hexdigest()
            summary["digests"] |= {"model": weights_digest(weights), "config": config}

        self.change_summary(set_them)


def run_in(folder: Path, shares: int = 1) -> MadeRun:
    """North trains in all rounds, south declines the second; all of it in ledgers, stated and signed.

    shares: of the noise, in secure sums.
    """
    kits = federation_in(folder)
    made = MadeRun(RunFolder(folder / "run"), kits, {}, shares)
    out = RunResults(made.files.path)
    config = replace(RunConfig(), rounds=ROUNDS, expected_batch_size=BATCH)
    if shares > 1:
        config = replace(config, aggregation="secure", clients=shares + 1, fit_clients=shares + 1)
    made.files.config.write_text(tomli_w.dumps(config.to_flat()))
    out.write_resolved(replace(config, noise_multiplier=NOISE, delta=DELTA).to_flat())
    spent = dict.fromkeys(SITES, 0)
    lines = []
    for number in range(1, ROUNDS + 1):
        trained = {"north": True, "south": number != 2}
        for site in SITES:
            spent[site] += STEPS if trained[site] else 0
        lines.append(_line(number, dict(spent), trained, shares))
        out.append_round(lines[-1].line)
    weights = {"weight": torch.arange(12.0).reshape(3, 4), "bias": torch.ones(3)}
    digests = {
        "model": weights_digest(weights),
        "config": hashlib.sha256(made.files.config.read_bytes()).hexdigest(),
    }
    out.save_model(weights, {"identity": "", "model": config.model, "loss": config.loss}, private=True)
    out.write_summary(_summary(lines[-1], digests))
    stated = []
    for site in SITES:
        made.ledgers[site] = folder / f"{site}-ledger" / "ledger.sqlite"
        stated.append(_state(made, site, spent[site], digests["model"]))
    write_statements(made.files, stated)
    return made


def charges(steps: int, shares: int = 1) -> tuple[Entry, ...]:
    return (Entry(RATE, NOISE, steps, shares),) if steps else ()


def epsilon(steps: int) -> float:
    return compute_epsilon(charges(steps), DELTA)


def alone(steps: int, shares: int) -> float | None:
    return compute_epsilon([Entry(RATE, NOISE / shares**0.5, steps)], DELTA) if shares > 1 else None


def _line(number: int, spent: dict[str, int], trained: dict[str, bool], shares: int) -> RoundReport:
    clients = {
        site: client(
            epsilon(spent[site]),
            steps=spent[site],
            rounds_left=ROUNDS - number,
            status="trained" if trained[site] else "declined",
            reason="" if trained[site] else "not approved",
            reported=(("steps", STEPS),) if trained[site] else (),
            sample_rate=RATE,
            budget=BUDGET,
            noise_multiplier=NOISE,
            charges=charges(spent[site], shares),
            shares=shares,
            epsilon_alone=alone(spent[site], shares),
        )
        for site in SITES
    }
    epsilons = [one.epsilon for one in clients.values()]
    together = FederationBudget(
        largest=max(epsilons),
        median=median(epsilons),
        least=min(epsilons),
        accountants=("pld",),
        rounds_ahead=ROUNDS - number,
        epsilon_alone=max(one.epsilon_alone for one in clients.values()) if shares > 1 else None,
    )
    opened = OpenedSum(shares + 1, shares, masked=False) if shares > 1 else None
    changes = {"epsilon": max(epsilons), "noise_multiplier": NOISE, "secure_sum": opened}
    return record(number, clients, 1.0, together, **changes)


def _summary(last: RoundReport, digests: dict[str, str]) -> Summary:
    clients = {
        name: replace(one, rounds=one.steps // STEPS, public_size=SIZE, planned_epsilon=one.epsilon)
        for name, one in last.clients.items()
    }
    return summary(
        clients,
        rounds=ROUNDS,
        epsilon=last.epsilon,
        federation=last.federation,
        accuracy=last.accuracy,
        loss=last.loss,
        metrics=last.metrics,
        model_round=ROUNDS,
        planned_epsilon=last.epsilon,
        run=RUN,
        max_grad_norm=1.0,
        digests=digests,
        masked=last.secure_sum.masked if last.secure_sum else None,
    )


def _state(made: MadeRun, site: str, steps: int, weights: str) -> Stated:
    path, salt = made.ledgers[site], site.encode().ljust(32, b"-")
    with Ledger.open(path) as ledger:
        ledger.register(f"{site}'s data", site, SIZE)
        budget = Budget(BUDGET, DELTA)
        for number in (1, 2, 3) if site == "north" else (1, 3):
            request = ReservationRequest(
                f"{site}'s data", RUN, number, Entry(RATE, NOISE, STEPS, made.shares), budget
            )
            ledger.commit_all(ledger.reserve_all([request]))
        head = ledger.head()
    committed = commitment(salt, head)
    opening = {"ledger": path.name, "run": RUN, "commitment": committed, "salt": salt.hex(), "head": head}
    (path.parent / "statements.jsonl").write_text(json.dumps(opening) + "\n")
    account = AccountStatement(
        site,
        "digits",
        "record",
        SIZE,
        charges(steps, made.shares),
        epsilon(steps),
        DELTA,
        BUDGET,
        "pld",
        STEADY_ROWS,
        alone(steps, made.shares),
    )
    said = Statement(RUN, weights, committed, 0, "2026-11-22T21:37:28+00:00", "0.1.0", (account,))
    return signed(said, made.key(site))


def signed(said: Statement, key: SigningKey) -> Stated:
    text = said.to_text()
    return Stated(text, key.public, key.sign(PURPOSE, text.encode()).hex())


def add_up(line: Json) -> None:
    """Let the federation's epsilons be those that this run has cost the line's clients."""
    found = [one.get("this_run", one)["epsilon"] for one in line["clients"].values()]
    line["epsilon"] = max(found)
    line["federation"] |= {"largest": max(found), "median": median(found), "least": min(found)}
    if "planned_epsilon" in line:
        line["planned_epsilon"] = max(found)
