"""What the clients have spent and have left, as the reports say it."""

import dataclasses
import heapq
import math
from collections.abc import Collection, Mapping
from functools import lru_cache

from fl_dp.accounting.budget import BudgetReport, federation_budget
from fl_dp.federation.server.client_record import ClientRecord
from fl_dp.federation.server.replies import Verdict
from fl_dp.reporting.reports import (
    RUN_EPSILON_SPENT,
    THIS_RUN,
    ClientBudget,
    ClientRound,
    FederationBudget,
    RoundReport,
    RunCost,
    RunStatus,
)
from fl_dp.reporting.wording import by_reason


def guarantee(
    clients: Collection[ClientRecord], clients_per_person: int, *, private: bool, rounds_more: int = 0
) -> BudgetReport:
    """What this run costs a person who has a record at that many of `clients`, after `rounds_more` rounds
    more; nothing where they are none.

    clients: those that have paid for it, or of a forecast those that will. What they claim to have spent
    before does not count. A run that is not private guarantees nothing, whoever took part.
    """
    spent = [(client.run_epsilon_after(rounds_more), client.profile.delta) for client in clients]
    together = federation_budget(spent or [(0.0, 0.0)], clients_per_person)
    return together if private else dataclasses.replace(together, epsilon=math.inf)


def federation(
    together: BudgetReport,
    clients: Mapping[str, ClientRound | ClientBudget],
    rounds_ahead: int,
    unit: str,
    arithmetic: str,
) -> FederationBudget:
    """The budgets of the clients that `together` is of, `rounds_ahead` rounds before the end.

    unit, arithmetic: of the run, in a word.
    """
    return FederationBudget(
        largest=together.largest,
        median=together.median,
        least=together.least,
        accountants=tuple(sorted({client.accountant for client in clients.values()})),
        arithmetic=arithmetic,
        unit=unit,
        clients_per_person=together.clients_per_person,
        rounds_ahead=rounds_ahead,
        running_out=tuple(name for name, client in clients.items() if client.rounds_left < rounds_ahead),
        epsilon_alone=_together_alone(together, [one.this_run or one for one in clients.values()]),
        scope=THIS_RUN,
    )


def _together_alone(
    together: BudgetReport, clients: Collection[ClientRound | ClientBudget | RunCost]
) -> float | None:
    """Composed as in `federation_budget`; None where no client's data were in a secure sum."""
    if all(client.epsilon_alone is None for client in clients):
        return None
    if math.isinf(together.epsilon):
        return math.inf
    each = (client.epsilon if client.epsilon_alone is None else client.epsilon_alone for client in clients)
    return sum(heapq.nlargest(together.clients_per_person, each))


def client_round(client: ClientRecord, verdict: Verdict, rounds_ahead: int) -> ClientRound:
    """The client in a line of rounds.jsonl."""
    mechanism = client.mechanism
    asked = verdict.mechanism or mechanism
    return _client_round(
        client.epsilon(),
        client.profile.accountant,
        client.steps(),
        mechanism.sample_rate if mechanism and mechanism.private else None,
        client.rounds_left(rounds_ahead),
        verdict.status,
        verdict.reason,
        verdict.reported,
        client.arithmetic,
        verdict.scaled,
        client.profile.delta,
        client.profile.epsilon,
        mechanism.noise_multiplier if mechanism and mechanism.private else None,
        client.charges(),
        asked.shares if asked else 1,
        asked.copies if asked else 1,
        client.epsilon_alone(),
        client.run_cost(),
    )


_client_round = lru_cache(maxsize=4096)(ClientRound)  # most clients of a round are alike


def client_budget(client: ClientRecord, verdict: Verdict, rounds_ahead: int, rounds: int) -> ClientBudget:
    """The client in summary.json, `rounds_ahead` rounds before the planned end, of `rounds`."""
    mechanism = client.mechanism if client.mechanism and client.mechanism.private else None
    return ClientBudget(
        epsilon=client.epsilon(),
        accountant=client.profile.accountant,
        arithmetic=client.arithmetic,
        budget=client.profile.epsilon,
        delta=client.profile.delta,
        steps=client.steps(),
        rounds=client.rounds,
        rounds_left=client.rounds_left(rounds_ahead),
        rounds_beyond=max(0, client.rounds_left(rounds_ahead + rounds) - rounds_ahead),
        status=verdict.status,
        reason=verdict.reason,
        retired=client.profile.retired,
        public_size=client.profile.public_size,
        sample_rate=mechanism.sample_rate if mechanism else None,
        noise_multiplier=mechanism.noise_multiplier if mechanism else None,
        charges=client.charges(),
        before=client.before,
        planned_epsilon=client.epsilon_after(rounds_ahead),
        epsilon_alone=client.epsilon_alone(),
        budget_alone=client.budget.epsilon_alone,
        this_run=client.run_cost_at_the_end(rounds_ahead),
    )


def outcome(
    clients: Collection[ClientRecord], last: RoundReport | None, ended_early: bool
) -> tuple[RunStatus, str]:
    """How a run ended, and why if not as asked.

    last: the report of its last round. ended_early: nobody was left who could take a step.
    """
    if ended_early:
        if any(client.mechanism is not None or client.exhausted for client in clients):
            return "budget-exhausted", (
                "Fewer clients than min-updates asks for are there with budget for one more step."
                if any(client.can_take_part() for client in clients)
                else RUN_EPSILON_SPENT
                if any(client.run_is_spent for client in clients)
                else "No client has budget for one more step."
            )
        return "failed", by_reason((client.name, client.reason) for client in clients)
    if last and last.lost and last.lost_rounds == last.round:
        return "failed", f"No round has changed the model. The last one: {last.lost}"
    if not any(client.rounds for client in clients):
        reasons = by_reason((name, one.reason) for name, one in last.clients.items()) if last else ""
        return "failed", f"No client ever trained: {reasons}"
    return "completed", ""
