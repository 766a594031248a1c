"""Metrics from the sites' own test records: what each evaluation has cost, recomputed, and paid for.

The accounts of test records are apart from those of training, in reports as in ledgers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fl_dp.accounting.ledger.accounts import Account
from fl_dp.clean_text import clean
from fl_dp.errors import ConfigError
from fl_dp.records import TEST_RECORDS
from fl_dp.reporting.reports import epsilon_from_json
from fl_dp.reporting.wording import counted
from fl_dp.verify.check import Check, Evidence, Found
from fl_dp.verify.claims import Charges, alone, charges, merged, missing
from fl_dp.verify.independent import allowed, can_resolve, epsilon_of
from fl_dp.verify.ledger_file import read_ledger
from fl_dp.verify.reading import number, optional, table

_TOO_LOW = "whoever believes the epsilon that is claimed believes in more protection than there is"


@dataclass(frozen=True, slots=True)
class _Site:
    """epsilon_alone: None if it is not said. exact: it has shown these charges; else they are a bound."""

    name: str
    where: str
    epsilon: float
    epsilon_alone: float | None
    delta: float
    budget: float
    charges: Charges
    exact: bool


def is_of_test_records(account: Account) -> bool:
    """Whether the account pays for evaluations alone."""
    return account.dataset.endswith(TEST_RECORDS)


def _run(evidence: Evidence, found: Found) -> None:
    last: dict[str, _Site] = {}
    unanswered, lines = False, 0
    for where, measured, is_line in _claimed(evidence):
        lines += is_line
        try:
            sites = {one.name: one for one in _sites(measured, where)}
            largest = number(measured["epsilon"])
            largest_alone = epsilon_from_json(optional(measured.get("epsilon_alone")))  # infinite if not said
            lost = (one.get("status") == "failed" or one.get("unheard") for one in measured["sites"].values())
            unanswered |= any(lost)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            what = "site_metrics" if is_line else "test_accounts"
            raise ConfigError(f"{where} is damaged: its {what}: {error}.") from None
        for one in sites.values():
            _check(one, last.get(one.name), found)
        if sites and largest < max(one.epsilon for one in sites.values()):
            found.differs(
                f"epsilon {largest:.4f}, and a site's is larger",
                where,
                "the epsilon of test records is the largest of any site",
            )
        alones = [one.epsilon if one.epsilon_alone is None else one.epsilon_alone for one in sites.values()]
        if alones and largest_alone < max(alones):
            found.differs(
                f"epsilon alone {largest_alone:.4f}, and a site's is larger",
                where,
                "the second epsilon of test records is the largest of any site, too",
            )
        if not is_line and (gone := sorted(last.keys() - sites.keys())):
            found.differs(
                f"no account of test records of {clean(gone[0])}", where, "a line of rounds.jsonl has one"
            )
        last |= {name: one for name, one in sites.items() if one.exact}
    if not lines and not last and not unanswered:
        return
    _compare(evidence, last, unanswered, found)
    if not found.any_differ:
        found.agrees(
            f"the accounts of test records of {counted(len(last), 'site')} in "
            f"{counted(lines, 'evaluation')}: "
            "each pays for evaluations alone, and costs what is claimed"
        )


def _claimed(evidence: Evidence) -> Iterator[tuple[str, Any, bool]]:
    """Where accounts are claimed, what is, and whether in a line of rounds.jsonl; else in the summary."""
    for claim in evidence.rounds():
        if (measured := claim.raw.get("site_metrics")) is not None:
            yield claim.where, measured, True
    if evidence.summary is not None and (at_the_end := evidence.summary.raw.get("test_accounts")):
        yield evidence.summary.where, at_the_end, False


def _sites(measured: Any, where: str) -> Iterator[_Site]:
    for name, one in table(measured["sites"]).items():
        if "charges" in one:  # in files of an older fl_dp only where the site was evaluated
            yield _Site(
                name,
                f"{where}, client {clean(name)}",
                number(one["epsilon"]),
                epsilon_from_json(optional(one["epsilon_alone"])) if "epsilon_alone" in one else None,
                number(one["delta"]),
                number(one["budget"]),
                charges(one["charges"]),
                exact=not one.get("unheard"),
            )


def _check(site: _Site, before: _Site | None, found: Found) -> None:
    if not site.charges and not site.exact:  # it has shown nothing since the start: the whole budget counts
        if site.epsilon < max(site.budget, before.epsilon if before else 0.0):
            words = f"epsilon {site.epsilon:.4f} of test records whose account is not known"
            found.differs(words, site.where, f"it may have spent all of its budget of {site.budget:g}")
        return
    kinds = {(one.sample_rate, one.noise_multiplier) for one in site.charges}
    ((rate, noise), *others) = kinds or ((0.0, 0.0),)
    if others or rate != 1.0 or not noise:
        found.differs(
            "its account of test records holds something else than equal evaluations", site.where,
            "an evaluation sees every test record, and all of a site's have the same noise",
        )  # fmt: skip
        return
    if before is not None and missing(site.charges, before.charges):
        found.differs("the charges of test records lack evaluations of before", site.where,
                      "nothing is ever given back")  # fmt: skip
    claimed = [("", site.charges, site.epsilon)]
    if site.epsilon_alone is not None:
        claimed.append((" alone", alone(site.charges), site.epsilon_alone))
    elif any(one.shared for one in site.charges):
        found.differs(
            "its evaluations are of secure sums, and it does not say what holds if their assumption fails",
            site.where,
            "the second epsilon was left out",
        )
    for which, spent, epsilon in claimed:
        if 0 < site.delta < 1 and can_resolve(spent, site.delta):
            cost = epsilon_of(spent, site.delta)
            if epsilon < allowed(cost):
                words = f"epsilon{which} {epsilon:.4f} of test records, and its charges cost {cost:.4f}"
                found.differs(words, site.where, _TOO_LOW)
    if site.epsilon > site.budget:
        found.differs(f"epsilon {site.epsilon:.4f} of a budget of {site.budget:g}", site.where,
                      "no ledger pays beyond its budget")  # fmt: skip


def _compare(evidence: Evidence, claimed: dict[str, _Site], unanswered: bool, found: Found) -> None:
    """Each given account of test records that has paid for this run is that of a site."""
    run = evidence.summary.raw.get("run") if evidence.summary is not None else None
    left = [one.charges for one in claimed.values()]
    for account in _accounts(evidence):
        rounds = [place for place, paid in enumerate(account.rounds) if paid.run == run]
        if not rounds:
            continue
        spent = merged(paid.entry for paid in account.rounds[: rounds[-1] + 1])
        if spent in left:
            left.remove(spent)
        elif unanswered:
            found.note(
                f"{clean(account.dataset)} has paid for evaluations that no line has",
                means="an answer was lost: the ledger counts",
            )
        else:
            found.differs(
                f"{sum(entry.steps for entry in spent)} evaluations were paid by {clean(account.dataset)}",
                "rounds.jsonl has no site with these charges of test records",
                "lines were changed, or this is the ledger of other data",
            )


def _accounts(evidence: Evidence) -> Iterator[Account]:
    for path in evidence.ledgers:
        try:
            yield from (one for one in read_ledger(path).accounts() if is_of_test_records(one))
        except ConfigError:
            continue  # the check `ledgers` reports it


CHECK = Check(place=10, run=_run)
