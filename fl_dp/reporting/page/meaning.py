"""What an epsilon amounts to: what it and delta let somebody find out, in tangible numbers."""

import math

from fl_dp.reporting.page.facts import RunFacts
from fl_dp.reporting.page.numbers import UNKNOWN, best_guess, epsilon, odds_ratio, percent, plain
from fl_dp.reporting.page.over import only_of_one_run, whose
from fl_dp.reporting.page.pieces import Clause
from fl_dp.reporting.page.secure_sums import second_epsilon

_COMPARED = (0.1, 1.0, 3.0)
_NEARLY_SURE = 0.99  # a bound above it says almost nothing


def amount(run: RunFacts) -> Clause:
    """Epsilon and delta, whom they protect, and who computed them."""
    heading = "How much, and for whom"
    if not math.isfinite(run.epsilon):
        return Clause(heading, f"No epsilon holds for {whose(run)}: what was spent has no finite epsilon.")
    if run.spent_nothing:
        return Clause(
            heading, "Nothing: no client has trained in this run, and none has spent anything in it."
        )
    text = (
        f"Epsilon {epsilon(run.epsilon)} (rounded up) and delta {plain(run.delta)}, for {whose(run)}"
        f"{' in this run' if run.of_this_run else ''}, computed by the accountant "
        f"{' and '.join(run.accountants) or UNKNOWN}. "
    )
    if len(run.clients) == 1:
        text += "There was one client, and they are its values."
    elif len({one.delta for one in run.counted}) == 1:
        text += (
            "Both are those of the client with the largest epsilon. The tables below have the values of "
            "every client."
        )
    else:
        text += "Each is the largest among the clients. The tables below have the values of every client."
    return Clause(heading, text + second_epsilon(run))


def meaning(run: RunFacts) -> Clause:
    """What the numbers mean for somebody who guesses.

    The bound holds for every test between "there" and "not there": its false alarms plus e^epsilon times its
    misses are at least 1 - delta, and the other way round (Kairouz, Oh, Viswanath 2015). Half of their sum is
    the chance of a wrong guess at even odds.
    """
    heading = "What this epsilon means"
    if not math.isfinite(run.epsilon):
        return Clause(heading, "An infinite epsilon does not limit what can be found out.")
    shown = float(epsilon(run.epsilon))  # so that a reader who recomputes it finds the same
    bound = best_guess(shown, run.delta or 0.0)
    compared = ", ".join(f"{percent(best_guess(one, 0.0))} at epsilon {one:g}" for one in _COMPARED)
    text = (
        f"{_of_whom(run)}If delta were zero, nothing that was released would change anybody's odds that "
        f"one {run.unit} was there by more than a factor of e^epsilon = {odds_ratio(shown)}. With delta, "
        "somebody who starts at even odds (50 %) and guesses as well as possible is right with a "
        f"probability of at most {percent(bound)}. "
        f"{'That is almost no limit. ' if bound >= _NEARLY_SURE else ''}For comparison: {compared}, and 50 "
        "% is a blind guess. The formula is (e^epsilon + delta) / (1 + e^epsilon), from Kairouz, Oh and "
        "Viswanath, The Composition Theorem for Differential Privacy, ICML 2015."
    )
    return Clause(heading, text)


def _of_whom(run: RunFacts) -> str:
    """What the guesser has seen; empty if it is everything."""
    seen = ["this run alone"] if run.of_this_run or only_of_one_run(run) else []
    seen += ["no client's part of a sum"] if run.epsilon_alone is not None else []
    return f"This is about somebody who has seen {' and '.join(seen)}. " if seen else ""
