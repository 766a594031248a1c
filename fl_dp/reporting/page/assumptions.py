"""What the guarantee takes for granted, in words."""

from fl_dp.config.data import PERSON
from fl_dp.records import ARITHMETICS, PROVEN, STEADY_ROWS, Entry
from fl_dp.reporting.page.clause import Clause
from fl_dp.reporting.page.facts import Client, Run
from fl_dp.reporting.refuted import arithmetic_words, sentence
from fl_dp.reporting.wording import counted


def arithmetic(run: Run) -> Clause:
    """What is known of rounding, for all that the accounts have paid."""
    title = f"Arithmetic: {arithmetic_words(run.arithmetic)}"
    if not any(one.charges for one in run.clients):
        return Clause(
            "Arithmetic", "No account has paid for a step: nothing was added up, and nothing rounded."
        )
    if run.arithmetic == PROVEN:
        return Clause(
            title,
            "Each record had a pass of its own, so that what rounding adds is bounded by a proof. That a "
            "pass has no memory of passes before it is assumed, and tested when a run starts.",
        )
    if run.arithmetic == STEADY_ROWS or run.setting("arithmetic") in ARITHMETICS:
        return Clause(title, f"{_STEADY}{sentence(run.arithmetic)}")
    return Clause(
        title,
        "It is assumed, not proven, that rounding in floating point moves a sum by no more than 0.001 of the "
        "clipping bound. The noise is wider by that. Searches for worse cases found less, and prove nothing."
        f"{sentence(run.arithmetic)}",
    )


_STEADY = (
    "What rounding adds to a sum of clipped gradients is bounded by a proof, and the noise is wider by that. "
    "One thing is assumed, and was tested: what a record adds is the same, to the last bit, whatever its "
    "place in a pass, whichever pass and threads compute it, and whatever is computed beside it."
)


def assumed(run: Run) -> Clause:
    """The assumptions that matter most to whoever signs."""
    mixed = sum(
        len({(e.sample_rate, e.noise_multiplier, e.copies) for e in _told_charges(run, one)}) > 1
        for one in run.clients
    )
    items = [
        "Ledgers are kept: not deleted, restored from an older copy or retired. What they no longer hold "
        "is not counted.",
        "The declared sizes are public.",
        f"Each record is there once: in one data set, at one client. {_each_person(run)}".strip(),
        "Settings were not found by training on the same records outside these ledgers.",
        "The clients ran fl_dp's own code.",
    ]
    if mixed:
        items.insert(
            0,
            f"The accounts of {counted(mixed, 'client')} hold more than one rate or noise multiplier. Their "
            "epsilons hold only if these were fixed without looking at earlier results.",
        )
    return Clause(
        "What is assumed",
        "Above all the following. All of it is in the documentation that comes with fl_dp, docs/privacy.md.",
        tuple(items),
    )


def _told_charges(run: Run, one: Client) -> tuple[Entry, ...]:
    """That the federation's epsilon counts."""
    return (one.own_charges or ()) if run.of_this_run else one.charges


def _each_person(run: Run) -> str:
    if run.unit != PERSON and run.clients_per_person == 1:
        return ""
    return f"A person is at {counted(run.clients_per_person, 'client')} at most."
