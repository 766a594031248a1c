"""How the members stand, in the words of the reports."""

from collections.abc import Collection, Iterable

from fl_dp.accounting.budget import BudgetReport, federation_budget
from fl_dp.federation.claims import Verdict
from fl_dp.federation.member import Member
from fl_dp.reporting.reports import ClientBudget, ClientRound, RoundReport, RunStatus


def guarantee(members: Iterable[Member]) -> BudgetReport | None:
    """What a record is guaranteed, earlier runs on the same ledgers included; None: no client yet."""
    spent = [(member.epsilon(), member.profile.delta) for member in members]
    return federation_budget(spent) if spent else None


def client_round(member: Member, verdict: Verdict) -> ClientRound:
    """The member in a line of rounds.jsonl."""
    return ClientRound(
        epsilon=member.epsilon(),
        steps=member.steps(),
        sample_rate=member.mechanism.sample_rate if member.mechanism else None,
        status=verdict.status,
        reason=verdict.reason,
    )


def client_budget(member: Member, verdict: Verdict) -> ClientBudget:
    """The member in summary.json."""
    return ClientBudget(
        epsilon=member.epsilon(),
        budget=member.profile.epsilon,
        delta=member.profile.delta,
        steps=member.steps(),
        rounds=member.rounds,
        status=verdict.status,
        reason=verdict.reason,
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
