"""The short lists of a page: name and value."""

from fl_dp.reporting.page.facts import Named, Run, Site
from fl_dp.reporting.page.figures.time_spent import where_time_went
from fl_dp.reporting.page.numbers import UNKNOWN, counted, epsilon, measured, number
from fl_dp.reporting.page.table import Table

_NAMED = 12  # clients that one line can name


def overview(run: Run) -> Named:
    """What was trained, by whom, when."""
    described = dict(run.described)
    planned = f" of {run.planned_rounds}" if run.planned_rounds else ""
    found = [
        ("Model", described.get("model") or run.setting("model") or "of the task's own"),
        ("Loss", described.get("loss") or run.setting("loss") or "of the task's own"),
        ("Data", described.get("data") or run.setting("data") or "of the task's own"),
        ("Task", described.get("task") or run.setting("task") or "built in"),
        ("Clients", _names(run)),
        ("How", _how(run)),
        ("Started, UTC", run.started or UNKNOWN),
        ("Ended, UTC", run.ended or UNKNOWN),
        ("Rounds", f"{run.rounds}{planned}, {run.lost_rounds} of them lost"),
        ("Ended as", run.status),
        ("Whom epsilon protects", f"one {run.unit}" if run.private else "nobody: NOT PRIVATE"),
        ("Epsilon, over all runs", epsilon(run.epsilon, private=run.private)),
        ("Delta", number(run.delta) if run.private else "none holds"),
    ]
    return tuple(found)


def results(run: Run) -> Named:
    """What the model is worth, and what it took."""
    kept = "the last round's" if run.kept == "last" else f"the best one, of round {run.kept_round}"
    return (
        ("Model that was kept", kept),
        *((f"{name}, on the server's test data", measured(value)) for name, value in run.metrics),
        ("Loss, on the server's test data", measured(run.loss)),
        ("Time", where_time_went(run)),
    )


def provenance(run: Run) -> Named:
    """Seeds, versions, digests."""
    return (
        ("Seed of the partition and first weights", run.setting("seed") or UNKNOWN),
        ("Seed of noise, draws and choice of clients", "none: the system's entropy"),
        ("Clipping bound", number(run.max_grad_norm)),
        ("Name in the ledgers", run.identity or UNKNOWN),
        ("Identity of the task's code", run.task or "all of it is built in"),
        *((f"SHA-256, {name}", value or UNKNOWN) for name, value in run.digests),
        *((f"Version of {name}", value) for name, value in run.versions),
    )


def commitments(run: Run) -> Table:
    """A row for each statement, beside each the page's digest."""
    rows = tuple(
        (_of(site), site.commitment or UNKNOWN, _signed(site), site.date or UNKNOWN, run.digest)
        for site in run.sites
    )
    columns = ("clients", "commitment to the ledger", "signed", "date, UTC", "this page's digest")
    return Table("commitments", "Statements of the sites", columns, rows, frozenset(columns))


def stated(run: Run) -> str:
    """Who has vouched for the sizes and epsilons below."""
    if not run.sites:
        return (
            "No site has stated anything: there is no statements.json. Sizes and epsilons are as the server "
            "recorded them, and nobody has committed to a ledger."
        )
    signed = sum(site.signed == "yes" and not site.problem for site in run.sites)
    wrong = sum(site.signed == "wrong" or bool(site.problem) for site in run.sites)
    text = f"{counted(len(run.sites), 'statement')}: {signed} signed by the key beside it."
    if run.simulated:
        text += " The clients of a simulation have no keys: one statement speaks for all of them, unsigned."
    if wrong:
        text += f" {counted(wrong, 'statement')} not to be relied on, see below."
    return text


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
        "yes": f"by key {site.key}; whose it is, fl-dp verify --kit says",
        "no": "by nobody",
        "wrong": f"WRONG: the signature is not of key {site.key}",
    }[site.signed]
    retired = f"; {counted(site.retired, 'account')} of its ledger retired" if site.retired else ""
    return words + (f"; NOT OF THIS RUN: it {site.problem}" if site.problem else "") + retired
