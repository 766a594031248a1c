"""Lines of rounds.jsonl, as a run writes them."""

from typing import Any

from fl_dp.reporting.reports import ClientRound, FederationBudget, RoundReport


def record(server_round: int = 1, clients: int = 2, seconds: float = 4.0, **changes: Any) -> dict[str, Any]:
    """A private round in which all clients trained; client k has spent 1 + k / 1000 of 3."""
    each = {
        str(k): ClientRound(1 + k / 1000, "pld", 10, 0.1, 5, "trained", budget=3.0, delta=1e-5)
        for k in range(clients)
    }
    federation = FederationBudget(2.0, 1.5, 1.0, ("pld",), 5, ())
    report = RoundReport(
        server_round, True, 2.0, 1e-5, federation, 1.1, each, 0.5, 0.9, seconds, {"accuracy": 0.9}
    )
    return report.to_dict() | changes
