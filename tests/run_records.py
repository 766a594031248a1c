"""Reports of rounds, of clients and of runs, as a run makes them."""

from collections.abc import Mapping
from typing import Any

from fl_dp.records import Entry
from fl_dp.reporting.reports import ClientReport, FederationBudget, RoundReport, Summary

PAID = (Entry(0.1, 1.1, 30),)
FEDERATION = FederationBudget(largest=2.0, median=1.5, least=1.0, accountants=("pld",), rounds_ahead=5)


def client(epsilon: float = 1.0, **changes: Any) -> ClientReport:
    plain: dict[str, Any] = {
        "accountant": "pld",
        "steps": 30,
        "rounds_left": 1,
        "status": "trained",
        "delta": 1e-5,
        "budget": 3.0,
        "charges": PAID,
        "sample_rate": 0.1,
        "noise_multiplier": 1.1,
    }
    return ClientReport(epsilon=epsilon, **plain | changes)


def record(
    server_round: int = 1,
    clients: int | Mapping[str, ClientReport] = 2,
    seconds: float = 4.0,
    federation: FederationBudget = FEDERATION,
    **changes: Any,
) -> RoundReport:
    """A private round in which all clients trained; client k has spent 1 + k / 1000 of 3."""
    if isinstance(clients, int):
        clients = {str(k): client(1 + k / 1000) for k in range(clients)}
    plain: dict[str, Any] = {
        "private": True,
        "epsilon": 2.0,
        "delta": 1e-5,
        "noise_multiplier": 1.1,
        "loss": 0.5,
        "accuracy": 0.9,
        "metrics": {"accuracy": 0.9},
    }
    return RoundReport(
        round=server_round, federation=federation, clients=clients, seconds=seconds, **plain | changes
    )


def summary(clients: Mapping[str, ClientReport] | None = None, **changes: Any) -> Summary:
    """Of a private run of three rounds."""
    plain: dict[str, Any] = {
        "status": "completed",
        "private": True,
        "rounds": 3,
        "epsilon": 1.0,
        "delta": 1e-5,
        "federation": FEDERATION,
        "accuracy": 0.5,
        "loss": None,
        "seconds": 1.0,
        "clients": {"0": client()} if clients is None else clients,
        "metrics": {"accuracy": 0.5},
    }
    return Summary(**plain | changes)
