"""What the clients have spent and have left, as the reports say it."""

import dataclasses
import math
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

from fl_dp.accounting.budget import BudgetReport, federation_budget
from fl_dp.federation.server.client_record import Member
from fl_dp.federation.server.replies import Verdict
from fl_dp.reporting.reports import ClientBudget, ClientRound, FederationBudget, RoundReport, RunStatus


def guarantee(members: Collection[Member], clients_per_person: int, *, private: bool) -> BudgetReport | None:
    """What is guaranteed to a person who has a record at that many clients; None: there is no client yet.

    Earlier runs on the same ledgers count. A run that is not private guarantees nothing, whoever took part.
    """
    if not members:
        return None
    spent = [(member.epsilon(), member.profile.delta) for member in members]
    together = federation_budget(spent, clients_per_person)
    return together if private else dataclasses.replace(together, epsilon=math.inf)


def federation(
    together: BudgetReport, clients: Mapping[str, ClientRound | ClientBudget], rounds_ahead: int
) -> FederationBudget:
    """The clients' budgets together, `rounds_ahead` rounds before the end."""
    return FederationBudget(
        largest=together.largest,
        median=together.median,
        least=together.least,
        accountants=tuple(sorted({client.accountant for client in clients.values()})),
        clients_per_person=together.clients_per_person,
        rounds_ahead=rounds_ahead,
        running_out=tuple(name for name, client in clients.items() if client.rounds_left < rounds_ahead),
    )


def client_round(member: Member, verdict: Verdict, rounds_ahead: int) -> ClientRound:
    """The member in a line of rounds.jsonl."""
    mechanism = member.mechanism
    return _client_round(
        member.epsilon(),
        member.profile.accountant,
        member.steps(),
        mechanism.sample_rate if mechanism and mechanism.private else None,
        member.rounds_left(rounds_ahead),
        verdict.status,
        verdict.reason,
    )


_client_round = lru_cache(maxsize=4096)(ClientRound)  # most clients of a round are alike


def client_budget(member: Member, verdict: Verdict, rounds_ahead: int) -> ClientBudget:
    """The member in summary.json."""
    return ClientBudget(
        epsilon=member.epsilon(),
        accountant=member.profile.accountant,
        budget=member.profile.epsilon,
        delta=member.profile.delta,
        steps=member.steps(),
        rounds=member.rounds,
        rounds_left=member.rounds_left(rounds_ahead),
        status=verdict.status,
        reason=verdict.reason,
        retired=member.profile.retired,
    )


def outcome(
    members: Collection[Member], last: RoundReport | None, ended_early: bool
) -> tuple[RunStatus, str]:
    """How a run ended, and why if not as asked.

    last: the report of its last round. ended_early: nobody was left who could take a step.
    """
    if ended_early:
        if any(member.mechanism is not None or member.exhausted for member in members):
            return "budget-exhausted", "No client that is there has budget for one more step."
        return "failed", _each_once(member.reason for member in members)
    if not any(member.rounds for member in members):
        reasons = _each_once(client.reason for client in last.clients.values()) if last else ""
        return "failed", f"No client ever trained: {reasons}"
    return "completed", ""


def _each_once(reasons: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(reason for reason in reasons if reason))
