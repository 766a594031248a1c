"""Folders of runs, written by the classes that write real ones."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from run_records import client, summary

from fl_dp.accounting.cost import Cost
from fl_dp.accounting.events import merge
from fl_dp.config.run import RunConfig
from fl_dp.records import Entry
from fl_dp.reporting.provenance import versions
from fl_dp.reporting.reports import FederationBudget, RoundReport, Summary
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.reporting.run_results import RunResults, write_statements
from fl_dp.statements import AccountStatement, Stated, Statement

Make = Callable[..., RunFolder]
WEIGHTS = "ab" * 32


def spent_after(number: int, place: int) -> float:
    """Of a made-up client: grows with the rounds, differs between clients."""
    return 0.25 * number + 0.001 * (place % 100)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    return maker(tmp_path)


def maker(place: Path) -> Make:
    """What makes the folder of a run: names of clients, rounds, and what differs from a plain run."""

    def made(
        name: str = "run",
        clients: Sequence[str] = ("north", "south"),
        rounds: int = 3,
        *,
        private: bool = True,
        over: bool = True,
        reason: str = "",
        before: Sequence[Entry] = (),
        metrics: Mapping[str, float | None] | None = None,
        settings: Mapping[str, Any] | None = None,
        federation: Mapping[str, Any] | None = None,
        signed: Sequence[Stated] | None = None,
        **changed: Any,
    ) -> RunFolder:
        folder = RunFolder(place / name)
        results = RunResults(folder.path)
        flat = {**RunConfig().to_flat(), "rounds": rounds, "privacy": "on" if private else "off"}
        for file in (folder.config, folder.resolved):
            file.write_text(tomli_w.dumps({**flat, **(settings or {})}))
        folder.launch.write_text('engine = ""\nledgers = "ledgers"\n')

        def report(number: int, reason: str) -> RoundReport:
            spent = [spent_after(number, at) if private else math.inf for at in range(len(clients))]
            epsilon = max(spent)
            return RoundReport(
                round=number,
                private=private,
                epsilon=epsilon,
                delta=1e-5,
                federation=FederationBudget(
                    largest=epsilon, median=epsilon, least=epsilon, accountants=("pld",), **(federation or {})
                ),
                noise_multiplier=1.5,
                loss=2.0 / number,
                accuracy=0.1 * number,
                seconds=1.5,
                metrics=metrics if metrics is not None else {"accuracy": 0.1 * number},
                clients={
                    client_name: client(
                        spent[at],
                        steps=3 * number,
                        rounds_left=rounds - number,
                        status="declined" if reason and at == 0 else "trained",
                        reason=reason if at == 0 else "",
                        noise_multiplier=1.5,
                        charges=(Entry(0.1, 1.5, 3 * number),),
                    )
                    for at, client_name in enumerate(clients)
                },
            )

        for number in range(1, rounds + 1):
            results.append_round(report(number, reason).line)
        if over:
            results.write_summary(_summary(report(rounds, ""), rounds, before, changed))
            folder.description.write_text(json.dumps({"model": "linear", "loss": "mse", "data": "digits"}))
            write_statements(folder, signed if signed is not None else [statement(clients)])
        return folder

    return made


def change_summary(folder: RunFolder, change: Callable[[dict[str, Any]], object]) -> RunFolder:
    summary = json.loads(folder.summary.read_text())
    change(summary)
    folder.summary.write_text(json.dumps(summary))
    return folder


def statement(clients: Sequence[str], **changed: Any) -> Stated:
    """What a simulation says of its clients: unsigned."""
    accounts = tuple(
        AccountStatement(
            client=name,
            data="digits",
            unit="record",
            public_size=100,
            spent=(Entry(0.1, 1.5, 9),),
            epsilon=1.0,
            delta=1e-5,
            budget=3.0,
            accountant="pld",
            arithmetic="steady-rows",
        )
        for name in clients
    )
    said: dict[str, Any] = {"run": "17", "weights": WEIGHTS, "commitment": "cd" * 32, **changed}
    return Stated(
        Statement(**said, retired=0, date="2026-01-01", version="0.1.0", accounts=accounts).to_text()
    )


def _summary(last: RoundReport, rounds: int, before: Sequence[Entry], changed: Mapping[str, Any]) -> Summary:
    budgets = {
        name: client(
            one.epsilon,
            steps=one.steps,
            rounds=rounds,
            rounds_left=0,
            public_size=100,
            noise_multiplier=1.5,
            charges=merge((*one.charges, *before)),
            before=tuple(before),
            planned_epsilon=2.5,
            this_run=Cost(charges=one.charges, epsilon=one.epsilon, claimed_epsilon=0.25) if before else None,
        )
        for name, one in last.clients.items()
    }
    plain: dict[str, Any] = {
        "private": last.private,
        "rounds": rounds,
        "epsilon": last.epsilon,
        "federation": last.federation,
        "accuracy": last.accuracy,
        "loss": last.loss,
        "seconds": 1.5 * rounds + 1,
        "metrics": last.metrics,
        "model_round": rounds,
        "planned_epsilon": 2.5,
        "run": "17",
        "started": "2026-01-01T00:00:00+00:00",
        "ended": "2026-01-01T01:00:00+00:00",
        "max_grad_norm": 1.0,
        "versions": versions(),
        "digests": {"model": WEIGHTS},
    }
    return summary(**{"clients": budgets, **plain, **changed})
