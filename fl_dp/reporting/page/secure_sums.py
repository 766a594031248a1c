"""Explains the two epsilons of secure sums, and what the first one assumes."""

from fl_dp.records import Entry
from fl_dp.reporting.console import alone_words
from fl_dp.reporting.page.facts import RunFacts
from fl_dp.reporting.page.numbers import epsilon
from fl_dp.reporting.page.pieces import Clause
from fl_dp.reporting.reports import BEYOND_USE
from fl_dp.reporting.wording import counted


def secure_sums(run: RunFacts) -> tuple[Clause, ...]:
    """One clause; none if no data of these clients were ever in such sums."""
    found = [one for client in run.clients for one in client.charges if one.shared]
    if run.epsilon_alone is None or not found:
        return ()
    useless = run.epsilon_alone > BEYOND_USE
    then = (
        f"no useful epsilon holds (none: it is infinite, or above {BEYOND_USE:g})"
        if useless
        else f"epsilon {alone_words(run.epsilon_alone)} holds instead"
    )
    hidden = parts_hidden(run)
    server = ", the server included" if hidden else ""
    fails = "this fails" if hidden else "somebody sees the parts, as whoever ran this could"
    text = (
        "There are two epsilons. Each client added a share of the noise to a sum whose parts nobody was "
        f"meant to see. Epsilon {epsilon(run.epsilon)} holds against everybody who sees no more than such "
        f"sums{server}. It assumes that no more clients in a sum collude with the server than was planned "
        f"for, and that the cryptography is sound. If {fails}, {then}: {_share(found)} This is counted for "
        "every step. A client's budget limits the first epsilon; its settings may also limit the second."
    )
    if not hidden:
        text += (
            " No masks hid the parts of this run's sums: they were added up in the clear, with the same "
            "shares of noise, and whoever added them up could see each part."
        )
    return (Clause(if_parts_seen(run), text),)


def if_parts_seen(run: RunFacts) -> str:
    """A heading: when the second epsilon holds."""
    if parts_hidden(run):
        return "If the assumption behind secure sums fails"
    return "Against anyone who sees the parts of the sums"


def second_epsilon(run: RunFacts) -> str:
    """The second epsilon, for the headline; empty if no data were in such sums."""
    if run.epsilon_alone is None:
        return ""
    holds = alone_words(run.epsilon_alone)
    if parts_hidden(run):
        return f" If the assumption behind secure sums fails: epsilon {holds}."
    holds = "no useful epsilon holds" if run.epsilon_alone > BEYOND_USE else f"epsilon {holds} holds"
    return f" No masks were used: whoever ran this saw each client's part; against them {holds}."


def parts_hidden(run: RunFacts) -> bool:
    """Whether masks hid each client's part from the server."""
    return run.masked is not False and not run.simulated


def _share(found: list[Entry]) -> str:
    least, most = min(one.shares for one in found), max(one.shares for one in found)
    parts = f"{'' if least == most else f'{least} to '}{counted(most, 'share')}"
    copies = max(one.copies for one in found)
    several = f", and a person may be at {copies} clients of a sum" if copies > 1 else ""
    return f"the noise was made up of {parts}{several}, and then only a client's own share protects it."
