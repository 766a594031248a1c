"""Folders of runs, written by the classes that write real ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from run_records import client

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
        gain: float = 0.1,
        settings: Mapping[str, Any] | None = None,
        federation: Mapping[str, Any] | None = None,
        signed: Sequence[Stated] | None = None,
        **summary: Any,
    ) -> RunFolder:
        folder = RunFolder(place / name)
        results = RunResults(folder.path)
        flat = {**RunConfig().to_flat(), "rounds": rounds, "privacy": "on" if private else "off"}
        for file in (folder.config, folder.resolved):
            file.write_text(tomli_w.dumps({**flat, **(settings or {})}))
        folder.launch.write_text('engine = ""\nledgers = "ledgers"\n')
        for number in range(1, rounds + 1):
            report = _round(clients, number, rounds, private, reason, metrics, gain, federation)
            results.append_round(report.line)
        if over:
            results.write_summary(
                _summary(clients, rounds, private, before, metrics, gain, federation, summary)
            )
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


def _federation(epsilon: float, changed: Mapping[str, Any] | None) -> FederationBudget:
    return FederationBudget(
        largest=epsilon, median=epsilon, least=epsilon, accountants=("pld",), **(changed or {})
    )


def _round(
    clients: Sequence[str],
    number: int,
    rounds: int,
    private: bool,
    reason: str,
    metrics: Mapping[str, float | None] | None,
    gain: float,
    federation: Mapping[str, Any] | None,
) -> RoundReport:
    epsilon = max(spent_after(number, place) for place in range(len(clients))) if private else float("inf")
    return RoundReport(
        round=number,
        private=private,
        epsilon=epsilon,
        delta=1e-5,
        federation=_federation(epsilon, federation),
        noise_multiplier=1.5,
        loss=2.0 / number,
        accuracy=gain * number,
        seconds=1.5,
        metrics=metrics if metrics is not None else {"accuracy": gain * number},
        clients={
            name: client(
                spent_after(number, place) if private else float("inf"),
                steps=3 * number,
                rounds_left=rounds - number,
                status="declined" if reason and place == 0 else "trained",
                reason=reason if place == 0 else "",
                noise_multiplier=1.5,
                charges=(Entry(0.1, 1.5, 3 * number),),
            )
            for place, name in enumerate(clients)
        },
    )


def _summary(
    clients: Sequence[str],
    rounds: int,
    private: bool,
    before: Sequence[Entry],
    metrics: Mapping[str, float | None] | None,
    gain: float,
    federation: Mapping[str, Any] | None,
    changed: Mapping[str, Any],
) -> Summary:
    last = _round(clients, rounds, rounds, private, "", metrics, gain, federation)
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
        "status": "completed",
        "private": private,
        "rounds": rounds,
        "epsilon": last.epsilon,
        "delta": 1e-5,
        "federation": last.federation,
        "accuracy": last.accuracy,
        "loss": last.loss,
        "seconds": 1.5 * rounds + 1,
        "clients": budgets,
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
    return Summary(**{**plain, **changed})
