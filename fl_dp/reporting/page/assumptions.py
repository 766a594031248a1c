"""The assumptions of the guarantee, in words."""

from fl_dp.config.data import CLIENT, PERSON
from fl_dp.records import PROVEN, Entry
from fl_dp.reporting.page.facts import Client, RunFacts
from fl_dp.reporting.page.over import only_of_one_run
from fl_dp.reporting.page.pieces import Clause
from fl_dp.reporting.page.secure_sums import if_parts_seen
from fl_dp.reporting.wording import counted


def arithmetic(run: RunFacts) -> Clause:
    """What is known about rounding, for everything that the accounts have paid."""
    title, mode = "Rounding errors", f" This mode is called {run.arithmetic}."
    if not any(one.charges for one in run.clients):
        return Clause(title, "No account has paid for a step: nothing was added up, and nothing was rounded.")
    if run.arithmetic == PROVEN:
        return Clause(
            title,
            "Each record had its own pass, so the rounding error has a proven bound. It is assumed that a "
            f"pass keeps no memory of earlier passes. {_TESTED}{mode}",
        )
    return Clause(title, f"{_STEADY}{mode}")


_TESTED = "fl_dp tests this when a client starts; no file of this run shows that it did."
_STEADY = (
    "The rounding error of a sum of clipped gradients has a proven bound, and the noise is wider by that "
    "bound. One thing is assumed: what a record adds is the same, to the last bit, whatever its place in a "
    f"pass, whichever pass and threads compute it, and whatever is computed beside it. {_TESTED}"
)


def assumed(run: RunFacts) -> Clause:
    """All assumptions of the guarantee, besides the arithmetic and the secrecy of sums."""
    clauses = "“Rounding errors”"
    if run.epsilon_alone is not None:
        clauses += f" and “{if_parts_seen(run)}”"
    return Clause(
        "What is assumed",
        f"The guarantee holds under the following conditions and those under {clauses}. Whoever signs for "
        "the guarantee assumes that they are met: no file of the run can show it.",
        (*_choices(run), *_of_the_sites(run), *_of_the_code(run)),
    )


def _choices(run: RunFacts) -> tuple[str, ...]:
    mixed = sum(
        len({(e.sample_rate, e.noise_multiplier) for e in _told_charges(run, one)}) > 1 for one in run.clients
    )
    who = "Nobody" if run.local else "No site's operator"
    found = (
        "No earlier run on these records decided a setting; each ledger here knows of this run only."
        if only_of_one_run(run)
        else "Nobody tuned the settings by training on the same records outside these ledgers.",
        f"{who} set a budget, or retired an account, because of results.",
    )
    if not mixed:
        return found
    return (
        f"The accounts of {counted(mixed, 'client')} hold more than one sample rate or noise multiplier. "
        f"Their epsilons hold only if these were fixed without looking at earlier results.",
        *found,
    )


def _of_the_sites(run: RunFacts) -> tuple[str, ...]:
    named = ", except those under “All runs on these data”"
    retired = named if any(one.retired for one in run.clients) else ""
    kept = "Each client's ledger was kept" if run.local else "Each site has kept its ledger"
    return (
        f"{kept}: it was not deleted, not set back to an older copy, and no account in it was "
        f"retired{retired}. What a ledger no longer holds is not counted.",
        _declared(run),
        "The shape of a record, the classes, the settings, and the range of values that a record can hold "
        "are public.",
        f"Each record exists once: in one data set, at one client. {_each_person(run)}".strip(),
    )


def _declared(run: RunFacts) -> str:
    """Parts that are cut on one machine are declared as they were counted (docs/ledger.md)."""
    if sizes_counted(run):
        return (
            f"The number of {run.unit}s of each client is public. This launch split one data set into "
            f"parts and declared what it counted: one {run.unit} more or fewer changes a number on this "
            "page, and the guarantee does not cover that."
        )
    return (
        f"The number of {run.unit}s that each client declared is public. No file shows whether a declared "
        f"number is the exact count of the {run.unit}s. If it is, the guarantee does not cover it."
    )


def sizes_counted(run: RunFacts) -> bool:
    """Whether this launch split one data set into parts, and declared the counted size of each."""
    return run.local and CLIENT not in run.setting("data") and len(run.clients) > 1


def _of_the_code(run: RunFacts) -> tuple[str, ...]:
    who, whose = ("This launch", "this machine's") if run.local else ("Each site", "each site's")
    found = [
        f"{who} ran fl_dp's own code, unchanged.",
        f"The random numbers of {whose} system are unpredictable, the ciphers and hashes that fl_dp uses "
        f"(ChaCha20, AES-256, BLAKE2b) are sound, and nobody{'' if run.local else ' but the site'} has "
        "read the random bytes that the noise is made from.",
        "If the model draws its own random numbers (dropout), nobody can infer them from what is released.",
    ]
    if run.task:
        found.append(
            f"The task's own code, whose identity is given below, computes the losses of each {run.unit} "
            f"only from that {run.unit} and from public values."
        )
    if run.setting("start"):
        found.append("The weights that training started from were not made from these records.")
    return tuple(found)


def _told_charges(run: RunFacts, one: Client) -> tuple[Entry, ...]:
    """The charges that the federation's epsilon counts."""
    return (one.own_charges or ()) if run.of_this_run else one.charges


def _each_person(run: RunFacts) -> str:
    return "A person has records at 1 client at most." if run.unit == PERSON else ""
