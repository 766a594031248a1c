"""The operator's approval of a run's plan before its first payment.

Each message is answered in its own process, so question and answer are files: `ID.json` asks, `ID.answer`
answers. The ID is a hash of everything that the run asks for. While the operator has not answered, a round is
declined. That costs nothing and depends on no record; the server may ask again.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path

from fl_dp.config.files import read_json
from fl_dp.durable_files import private_folder, write_whole
from fl_dp.errors import ConfigError, DeclinedError
from fl_dp.federation.client.payment import AcceptedRound
from fl_dp.records import Entry, RoundPlan, assuming
from fl_dp.reporting.console import rounded_up
from fl_dp.reporting.reports import NOT_PRIVATE
from fl_dp.reporting.wording import counted

FOLDER = "approvals"  # beside the ledger
WAITS, REFUSED = "the run waits for its operator's approval.", "its operator has declined this run."
_YES, _NO = "yes", "no"
_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Question:
    """A question to the operator. words: its lines."""

    id: str
    words: tuple[str, ...]


def approvals_folder(ledger: str) -> Path:
    return Path(ledger).absolute().parent / FOLDER


def require_approval(accepted: AcceptedRound, spent: Sequence[Entry]) -> None:
    """Return once the operator has approved the run; DeclinedError if the answer is no, or comes too late.

    Waits `approve` seconds. spent: by the client's data, for the question's text.
    """
    settings = accepted.client.settings
    folder, question = approvals_folder(settings.ledger), _id(accepted)
    until = time.monotonic() + settings.approve
    if not _answer_file(folder, question).exists():
        _ask(folder, Question(question, tuple(in_words(accepted, spent))))
    while not (found := _answer_file(folder, question)).exists():
        if time.monotonic() >= until:
            raise DeclinedError(WAITS)
        time.sleep(_POLL_SECONDS)
    if found.read_text(encoding="utf-8").strip() != _YES:
        raise DeclinedError(REFUSED)


def pending(folder: Path) -> list[Question]:
    """The unanswered questions in the folder, the oldest first."""
    files = sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime)
    return [
        Question(file.stem, _words_of(file)) for file in files if not _answer_file(folder, file.stem).exists()
    ]


def _words_of(file: Path) -> tuple[str, ...]:
    found = read_json(file)
    words = found.get("words") if isinstance(found, dict) else None
    if not (words and isinstance(words, list) and all(isinstance(line, str) for line in words)):
        raise ConfigError(f"{file}: is damaged; delete it, then the run asks again.")
    return tuple(words)


def give_answer(folder: Path, question: str, *, yes: bool) -> tuple[str, ...]:
    """Answer the question with that id, and return its words; ConfigError if there is none.

    The answer replaces an earlier one.
    """
    file = folder / f"{question}.json"
    if file.parent != folder or not file.is_file():
        raise ConfigError(f"{question}: no question in {folder} has that id; give the whole id.")
    words, answer = _words_of(file), (_YES if yes else _NO).encode()
    write_whole(_answer_file(folder, question), lambda file: file.write(answer), secret=True)
    return words


def in_words(accepted: AcceptedRound, spent: Sequence[Entry]) -> list[str]:
    """The plan and its cost, as lines for the operator who decides."""
    plan, client = accepted.plan, accepted.client
    name, what = client.settings.client, _what(accepted)
    asks = f"run {plan.run} asks client {name} to train {what} on {client.dataset}"
    each = (
        f"each round: {counted(plan.steps, 'step')} of about {plan.expected_batch_size} of "
        f"{client.public_size} {client.settings.unit_name}s, "
        f"optimizer {plan.optimizer}"
    )
    if not plan.private:
        return [asks, each, f"{NOT_PRIVATE}: no protection, and no epsilon holds for these data afterwards"]
    return [
        asks,
        f"{each}, noise multiplier {plan.noise_multiplier:g}, clipping bound {plan.max_grad_norm:g}"
        f" ({plan.clipping}), {assuming(plan.arithmetic, shortly=True)}",
        *([_of_sum(plan)] if plan.secure else []),
        _cost(accepted, spent),
    ]


def _of_sum(plan: RoundPlan) -> str:
    return (
        f"its step goes into a secure sum, whose noise is made of {counted(plan.shares, 'share')}; the noise "
        "protects against everyone who sees only sums; this client's own share has noise multiplier "
        f"{plan.own_multiplier:.3g}"
    )


def _what(accepted: AcceptedRound) -> str:
    plan, own = accepted.plan, accepted.client.settings.task
    what = f"its own task {plan.task}" if own else f"{plan.model} with loss {plan.loss}"
    by = "" if plan.local_algorithm == "fedavg" else f" by {plan.local_algorithm}, pull {plan.pull:g},"
    kept = f" without sending {plan.personal!r}," if plan.personal else ""
    return f"{what}{by}{kept}"


def _cost(accepted: AcceptedRound, spent: Sequence[Entry]) -> str:
    budget, plan = accepted.client.budget, accepted.plan
    one = accepted.entry
    before = budget.epsilon_of(spent) if spent else 0.0
    after = budget.epsilon_of((*spent, one))
    fit = budget.steps_that_fit(one.taking(1000 * plan.steps), spent)
    rounds = f"{fit // plan.steps}" if fit < 1000 * plan.steps else "more than 1000"
    return (
        f"cost: epsilon {rounded_up(before)} of {budget.epsilon:g} is spent, {rounded_up(after)} after one "
        f"round, at delta {budget.delta:g}, by {budget.accountant}; yes allows every such round of this run, "
        f"of which {rounds} fit the budget"
    )


def _id(accepted: AcceptedRound) -> str:
    """A hash of the run and everything that it asks for. Round number and learning rate may vary.

    The hash is long, so that no server can find two plans with the same hash and have the harmless one
    approved: with b bits that takes 2^(b/2) plans.
    """
    terms = replace(accepted.plan, server_round=0, learning_rate=0.0)
    return blake2b(f"{accepted.client.dataset}\0{terms}".encode(), digest_size=32).hexdigest()


def _ask(folder: Path, question: Question) -> None:
    private_folder(folder)
    text = json.dumps({"words": question.words}, indent=2)
    write_whole(folder / f"{question.id}.json", lambda file: file.write(text.encode()), secret=True)


def _answer_file(folder: Path, question: str) -> Path:
    return folder / f"{question}.answer"
