"""The short lists of a page: name and value."""

import math

from fl_dp.kits.keys import fingerprint
from fl_dp.kits.signed import Signature
from fl_dp.reporting.console import alone_words
from fl_dp.reporting.page.about_data import kind_of_data
from fl_dp.reporting.page.facts import Named, Run, Site
from fl_dp.reporting.page.figures.time_spent import where_time_went
from fl_dp.reporting.page.numbers import UNKNOWN, charged, epsilon, measured, moment, number
from fl_dp.reporting.page.over import over_runs
from fl_dp.reporting.page.table import Table
from fl_dp.reporting.wording import counted

_SAME = 1e-6  # epsilons of two machines that differ by less are one
_NAMED = 12  # clients that one line can name


def overview(run: Run) -> Named:
    """What was trained, by whom, when."""
    described = dict(run.described)
    planned = f" of {run.planned_rounds}" if run.planned_rounds else ""
    found = [
        ("Model", described.get("model") or run.setting("model") or "of the task's own"),
        ("Loss", described.get("loss") or run.setting("loss") or "of the task's own"),
        ("Data", kind_of_data(run)),
        ("Task", described.get("task") or run.setting("task") or "built in"),
        ("Clients", _names(run)),
        ("How", _how(run)),
        ("Started, UTC", moment(run.started)),
        ("Ended, UTC", moment(run.ended)),
        ("Rounds", f"{run.rounds}{planned}, {run.lost_rounds} of them lost"),
        ("Ended as", run.status),
        ("Whom epsilon protects", f"one {run.unit}" if run.private else "nobody: NOT PRIVATE"),
        (f"Epsilon, {over_runs(run)}", _epsilon(run)),
        ("Delta", number(run.delta) if run.private else "none holds"),
    ]
    if run.private and run.epsilon_alone is not None:
        name = "Epsilon, if the assumption behind secure sums fails"
        found.insert(-1, (name, alone_words(run.epsilon_alone)))
    return tuple(found)


def _epsilon(run: Run) -> str:
    if run.private and not run.clients:
        return "none: no client was there"
    return charged(run.epsilon, run.arithmetic, private=run.private)


def results(run: Run) -> Named:
    """What the model is worth, and what it took."""
    left = run.over and run.rounds > 0
    kept = {
        "last": "the last round's",
        "average": "the moving average of the rounds' models",
        "best": f"the best one, of round {run.kept_round}",
    }.get(run.kept, run.kept)
    return (
        ("Model that was kept", kept if left else "none"),
        *((f"{name}, on the server's test data", measured(value)) for name, value in run.metrics),
        ("Loss, on the server's test data", measured(run.loss)),
        ("Time", where_time_went(run)),
    )


def provenance(run: Run) -> Named:
    """Seeds, versions, digests."""
    return (
        ("Seed of the partition and first weights", run.setting("seed") or UNKNOWN),
        ("Seed of noise, draws and choice of clients", "none: the system's entropy"),
        (f"Clipping bound, of the length of one {run.unit}'s gradient", _bound(run)),
        ("Name in the ledgers", run.identity or UNKNOWN),
        ("Identity of the task's code", run.task or "all of it is built in"),
        *((f"SHA-256, {name}", value or UNKNOWN) for name, value in run.digests),
        *((f"Version of {name}", value) for name, value in run.versions),
    )


def _bound(run: Run) -> str:
    following = run.setting("adaptive-clipping")
    if not following:
        return number(run.max_grad_norm)
    return (
        f"{number(run.max_grad_norm)} at first; it follows {following} by a noised count, which the noise "
        "multiplier pays for together with the sum"
    )


def commitments(run: Run) -> Table:
    """A row for each statement."""
    rows = tuple(
        (_of(site), site.commitment or UNKNOWN, _signed(site), moment(site.date)) for site in run.sites
    )
    columns = ("clients", "commitment to the ledger", "signed", "date, UTC")
    return Table("commitments", "Statements of the sites", columns, rows, frozenset(columns))


def stated(run: Run) -> str:
    """Who has vouched for the sizes and epsilons below."""
    if not run.sites:
        return (
            "No site has stated anything: there is no statements.json. Sizes and epsilons are as the server "
            "recorded them, and nobody has committed to a ledger."
        )
    signed = sum(site.signed is Signature.HOLDS and not site.problem for site in run.sites)
    wrong = sum(site.signed is Signature.WRONG or bool(site.problem) for site in run.sites)
    text = f"{counted(len(run.sites), 'statement')}: {signed} signed by the key beside it."
    if run.simulated:
        text += " The clients of a simulation have no keys: one statement speaks for all of them, unsigned."
    if wrong:
        text += f" {counted(wrong, 'statement')} not to be relied on, see below."
    if more := _stated_more(run):
        text += (
            f" {counted(len(more), 'client')} state MORE than the server recorded, epsilon "
            f"{epsilon(max(more))} at most: what is said at the top is too low for them. Another run may "
            "have used their data meanwhile."
        )
    return text


def _stated_more(run: Run) -> list[float]:
    """Epsilons that sites of this run have stated, and that are above those of the run's own files."""
    recorded = {one.name: one.epsilon for one in run.clients}
    return [
        one.epsilon
        for site in run.sites
        if not site.problem
        for one in site.data
        if one.epsilon > recorded.get(one.client, math.inf) + _SAME
    ]


def _names(run: Run) -> str:
    named = ", ".join(one.name for one in run.clients[:_NAMED])
    more = len(run.clients) - _NAMED
    return f"{len(run.clients):,}: {named}" + (f" and {more:,} more" if more > 0 else "")


def _how(run: Run) -> str:
    if run.simulated:
        return "simulated: all clients on one machine"
    return "a server, and a process of its own for each client"


def _of(site: Site) -> str:
    named = ", ".join(one.client for one in site.data[:_NAMED])
    more = len(site.data) - _NAMED
    return (named or UNKNOWN) + (f" and {more:,} more" if more > 0 else "")


def _signed(site: Site) -> str:
    words = {
        Signature.HOLDS: f"by the key with the fingerprint {fingerprint(site.key)}",
        Signature.NONE: "by nobody",
        Signature.WRONG: f"WRONG: the signature is not of the key {fingerprint(site.key)}",
    }[site.signed]
    retired = f"; {counted(site.retired, 'account')} of its ledger retired" if site.retired else ""
    return words + (f"; NOT OF THIS RUN: it {site.problem}" if site.problem else "") + retired
