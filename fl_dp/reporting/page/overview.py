"""The short lists of a page: name and value."""

import math

from fl_dp.config.data import PERSON
from fl_dp.kits.keys import fingerprint
from fl_dp.kits.signed import Signature
from fl_dp.reporting.console import alone_words
from fl_dp.reporting.page.about_data import data_words, sizes
from fl_dp.reporting.page.facts import Named, RunFacts, Site
from fl_dp.reporting.page.figures.of_one import where_time_went
from fl_dp.reporting.page.numbers import UNKNOWN, epsilon, measured, moment, number, plain
from fl_dp.reporting.page.over import only_of_one_run, over_runs, together, whose_limit
from fl_dp.reporting.page.pieces import Table
from fl_dp.reporting.page.secure_sums import if_parts_seen
from fl_dp.reporting.reports import NOT_PRIVATE
from fl_dp.reporting.wording import counted, some

_NOTHING_TRAINED = "none: nothing was trained"
_SAME = 1e-6  # epsilons of two machines that differ by less count as equal
_NAMED = 12  # clients named in one line


def overview(run: RunFacts) -> Named:
    """What was trained, by whom, when."""
    found = [
        ("Run", run.called),
        ("Model", _built_in(run, "model")),
        ("Loss", _built_in(run, "loss")),
        ("Data", data_words(run)),
        ("Task", run.described.get("task") or run.setting("task") or "built in"),
        ("Clients", f"{len(run.clients):,}: {some([one.name for one in run.clients], _NAMED)}"),
        ("Declared in all", sizes(run)),
        ("How", _how(run)),
        ("Started, UTC", moment(run.started)),
        ("Ended, UTC", moment(run.ended)),
        ("Rounds", _rounds(run)),
        ("Ended as", run.status),
        _quality(run),
        ("Counted for", _unit(run) if run.private else "nobody: NOT PRIVATE"),
        (f"Epsilon, {over_runs(run)}" if run.private else "Epsilon", _epsilon(run)),
        *_of_other_runs(run),
        *_if_parts_seen(run),
        ("Delta", _delta(run)),
    ]
    return tuple(found)


def glance(run: RunFacts) -> Named:
    """What a reader looks for first: how good, at what cost, and by whom."""
    budgets = sorted({one.budget for one in run.counted if one.budget is not None})
    rounds = f"{run.rounds}{f' of {run.planned_rounds}' if run.planned_rounds else ''}"
    least_and_most = " to ".join(map(epsilon, sorted({budgets[0], budgets[-1]}))) if budgets else ""
    spent = (
        f"{_epsilon(run)}{f' of {least_and_most}' if least_and_most else ''}" if run.private else NOT_PRIVATE
    )
    cost = f"Epsilon, {over_runs(run)}" if run.private else "Epsilon"
    return (_quality(run), (cost, spent), ("Clients", f"{len(run.clients):,}"), ("Rounds", rounds))


def _quality(run: RunFacts) -> tuple[str, str]:
    """The first metric, or the loss of a task without metrics."""
    name, value = next(iter(run.metrics.items()), ("Loss", run.loss))
    return (f"{name}, on {run.tested}" if run.measured else "How good the model is", measured(value))


def _rounds(run: RunFacts) -> str:
    planned = f" of {run.planned_rounds}" if run.planned_rounds else ""
    if run.begun:
        return f"{run.rounds}{planned} finished, 1 begun and paid for; {run.lost_rounds} lost"
    return f"{run.rounds}{planned}, {run.lost_rounds} of them lost"


def _unit(run: RunFacts) -> str:
    return "one person" if run.unit == PERSON else "one record (not one person)"


def _of_other_runs(run: RunFacts) -> Named:
    if not run.private or run.released_nothing or not run.counted:
        return ()
    if only_of_one_run(run):
        return (
            ("Epsilon of other runs on the same data", f"{UNKNOWN}: the ledger was made for this run only"),
        )
    return (("Epsilon, this run and others in the ledgers", together(run)),) if run.of_this_run else ()


def _if_parts_seen(run: RunFacts) -> Named:
    if not run.private or run.epsilon_alone is None:
        return ()
    when = if_parts_seen(run)
    return ((f"Epsilon, {when[0].lower()}{when[1:]}", alone_words(run.epsilon_alone)),)


def _delta(run: RunFacts) -> str:
    if not run.private:
        return "none holds"
    nothing = run.spent_nothing or (run.released_nothing and run.clients)
    return _NOTHING_TRAINED if nothing else plain(run.delta)


def _built_in(run: RunFacts, key: str) -> str:
    """From model.json if it exists: a task may bring its own, whatever the setting."""
    if run.described:
        return run.described.get(key) or "of the task's own"
    setting = run.setting(key) or UNKNOWN
    return f"{UNKNOWN}; the setting says {setting}" if run.setting("task") else setting


def verdict(run: RunFacts) -> str:
    """What the files say of budgets and signatures. They cannot say whether they are to be believed."""
    so_far = "" if run.over else f"After round {run.rounds}: "
    found = [so_far + _budgets(run) if run.private else f"{NOT_PRIVATE}: no epsilon holds."]
    signed = {one.client for one in run.signed}
    known = sum(one.name in signed for one in run.clients)
    if run.simulated:
        found.append("Nobody has signed: the clients of a simulation have no keys.")
    elif not run.sites:
        found.append("Nobody has stated what the data have spent.")
    elif not known:
        found.append("No statement of what the data have spent has a valid signature.")
    else:
        found.append(
            f"What the data have spent is signed for {known} of {counted(len(run.clients), 'client')}, "
            "each by a key whose fingerprint is under “Statements of the "
            f"sites”{', which was made for this launch alone' if run.local else ''}."
        )
    if _unreliable(run) or _stated_more(run):
        found.append("Statements of sites do NOT agree with the run, see below.")
    return " ".join(found)


def _budgets(run: RunFacts) -> str:
    known = [one for one in run.clients if one.budget is not None]
    above = sum(one.epsilon > (one.budget or 0.0) + _SAME for one in known)
    if not known:
        return "The files name no budget."
    if above:
        return f"The epsilon of {counted(above, 'client')} is ABOVE its budget."
    if unknown := len(run.clients) - len(known):
        return (
            f"The budget of {counted(unknown, 'client')} is not known; no other client's epsilon is "
            "above its budget."
        )
    largest = max(known, key=lambda one: one.budget or 0.0)
    alone = only_of_one_run(run)
    of = "of this run, the only one that its ledger knows," if alone else "of all runs in its ledger together"
    return (
        f"No client's epsilon {of} is above its budget, {whose_limit(run)} for one {run.unit}: epsilon "
        f"{epsilon(largest.budget)}"
        f"{'' if len({(one.budget, one.delta) for one in known}) == 1 else ' or less'} "
        f"at delta {plain(largest.delta)}."
    )


def _epsilon(run: RunFacts) -> str:
    if run.private and not run.clients:
        return "none: there were no clients"
    if run.private and (run.released_nothing or run.spent_nothing):
        return _NOTHING_TRAINED
    if not math.isfinite(run.epsilon) or not run.private:
        return "none holds: it is infinite"
    return epsilon(run.epsilon)


def results(run: RunFacts) -> Named:
    """How good the model is, and what it took."""
    unchanged = 0 < run.rounds == run.lost_rounds
    kept = {
        "last": "the initial one: no round has changed it" if unchanged else "the last round's",
        "average": "the moving average of the rounds' models",
        "best": f"the best one, of round {run.kept_round}",
    }.get(run.kept, run.kept)
    return (
        ("Model that was kept", kept if run.has_model else "none"),
        *((f"{name}, on {run.tested}", measured(value)) for name, value in run.metrics.items()),
        (f"Loss, on {run.tested}", measured(run.loss)),
        *(
            (("Best constant prediction, the same for all test records", run.constant),)
            if run.constant
            else ()
        ),
        ("Time", where_time_went(run)),
    )


def provenance(run: RunFacts) -> Named:
    """Seeds, versions, digests."""
    return (
        (
            f"Seed of the split{'' if run.setting('start') else ' and first weights'}",
            run.setting("seed") or UNKNOWN,
        ),
        ("Seed of noise, batches and client sampling", "none: the system's entropy"),
        (f"Clipping bound on the length of one {run.unit}'s gradient", _bound(run)),
        ("Name in the ledgers", run.identity or UNKNOWN),
        ("Identity of the task's code", _identity(run)),
        *((f"SHA-256, {name}", value or UNKNOWN) for name, value in run.digests),
        *((f"Version of {name}", value) for name, value in run.versions),
    )


def _identity(run: RunFacts) -> str:
    return run.task or (UNKNOWN if not run.over or run.setting("task") else "all of it is built in")


def _bound(run: RunFacts) -> str:
    if not run.private:
        return "none: nothing is clipped"
    how = run.setting("clipping")
    return f"{number(run.max_grad_norm)}{f' ({how})' if how else ''}"


def commitments(run: RunFacts) -> Table:
    """A row for each statement."""
    rows = tuple(
        (
            some([one.client for one in site.data], _NAMED) or UNKNOWN,
            site.commitment or UNKNOWN,
            _signed(site),
            moment(site.date),
        )
        for site in run.sites
    )
    columns = ("clients", "commitment to the ledger", "signed", "date, UTC")
    return Table("commitments", "Statements of the sites", columns, rows, frozenset(columns))


def stated(run: RunFacts) -> str:
    """Who has vouched for the sizes and epsilons below."""
    if not run.sites:
        return (
            "No site has stated anything. Sizes and epsilons are as the server recorded them, and nobody has "
            "committed to a ledger."
        )
    signed = sum(site.vouches for site in run.sites)
    wrong = _unreliable(run)
    text = f"{counted(len(run.sites), 'statement')}: {_how_many(signed, len(run.sites))}"
    if run.simulated and not any(site.key for site in run.sites):
        text += " The clients of a simulation have no keys."
    if wrong:
        text += f" {counted(wrong, 'statement')} cannot be relied on, see below."
    if more := _stated_more(run):
        where = "their rows are" if run.of_this_run else "the figures at the top are"
        text += (
            f" {counted(len(more), 'client')} state MORE than the server recorded, {_up_to(max(more))}: "
            f"{where} too low for them. Another run may have used their data meanwhile."
        )
    return text


def _how_many(signed: int, of: int) -> str:
    if not signed:
        return "no valid signature for this run and model."
    if signed < of:
        return f"{signed} signed by the key beside it."
    if of == 1:
        return "signed by the key beside it."
    return f"{'both' if of == 2 else 'all'} are signed, each by the key beside it."


def any_signed(run: RunFacts) -> bool:
    """Whether any statement of this run and model has a valid signature."""
    return any(site.vouches for site in run.sites)


def _unreliable(run: RunFacts) -> int:
    """Number of statements with a wrong signature, or about another run."""
    return sum(site.signed is Signature.WRONG or bool(site.problem) for site in run.sites)


def _stated_more(run: RunFacts) -> list[float]:
    """Epsilons that sites of this run have stated and that are above those in the run's own files."""
    recorded = {one.name: one.epsilon for one in run.clients}
    return [
        one.epsilon
        for site in run.stating
        for one in site.data
        if one.epsilon > recorded.get(one.client, math.inf) + _SAME
    ]


def _up_to(largest: float) -> str:
    return f"up to epsilon {epsilon(largest)}" if math.isfinite(largest) else "and one that no epsilon holds"


def _how(run: RunFacts) -> str:
    if run.simulated:
        return "simulated: one launch ran all clients"
    if run.local:
        return "a server and a separate process for each client, all started on one machine"
    return "a server; the files do not say who started the clients"


def _signed(site: Site) -> str:
    words = {
        Signature.HOLDS: f"by the key with the fingerprint {fingerprint(site.key)}",
        Signature.NONE: "by nobody",
        Signature.WRONG: f"WRONG: the signature is not of the key {fingerprint(site.key)}",
    }[site.signed]
    retired = f"; {counted(site.retired, 'account')} of its ledger retired" if site.retired else ""
    return words + (f"; NOT OF THIS RUN: it {site.problem}" if site.problem else "") + retired
