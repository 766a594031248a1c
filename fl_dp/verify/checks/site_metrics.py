"""Metrics from the sites' own test records: what each evaluation has cost, recomputed, and paid for.

The accounts of test records are apart from those of training, in reports as in ledgers.
"""

import math
from collections.abc import Iterator

from fl_dp.accounting.events import merge
from fl_dp.accounting.ledger.accounts import Account
from fl_dp.clean_text import clean
from fl_dp.errors import ConfigError
from fl_dp.records import TEST_RECORDS
from fl_dp.reporting.reports import SiteMetrics, TestAccount
from fl_dp.reporting.wording import counted
from fl_dp.verify.check import Check, Evidence, Found
from fl_dp.verify.claims import alone, missing
from fl_dp.verify.independent import allowed, can_resolve, epsilon_of
from fl_dp.verify.ledger_file import read_ledger

_TOO_LOW = "whoever believes the epsilon that is claimed believes in more protection than there is"


def is_of_test_records(account: Account) -> bool:
    """Whether the account pays for evaluations alone."""
    return account.dataset.endswith(TEST_RECORDS)


def _run(evidence: Evidence, found: Found) -> None:
    last: dict[str, TestAccount] = {}
    unanswered, lines = False, 0
    for where, measured, is_line in _claimed(evidence):
        lines += is_line
        sites = {name: one for name, one in measured.sites.items() if one.is_there}
        unanswered |= any(one.status == "failed" or one.unheard for one in measured.sites.values())
        for name, one in sites.items():
            _check(one, f"{where}, client {clean(name)}", last.get(name), found)
        if measured.epsilon < max((one.epsilon for one in sites.values()), default=0.0):
            found.differs(
                f"epsilon {measured.epsilon:.4f}, and a site's is larger",
                where,
                "the epsilon of test records is the largest of any site",
            )
        if measured.delta < (largest := max((one.delta for one in sites.values()), default=0.0)):
            found.differs(
                f"delta {measured.delta:g}, and a site's is {largest:g}",
                where,
                "the delta of test records is the largest of any site",
            )
        alone_of_all = math.inf if measured.epsilon_alone is None else measured.epsilon_alone
        if alone_of_all < max((one.if_sums_fail for one in sites.values()), default=0.0):
            found.differs(
                f"epsilon alone {alone_of_all:.4f}, and a site's is larger",
                where,
                "the second epsilon of test records is the largest of any site, too",
            )
        if not is_line and (gone := sorted(last.keys() - sites.keys())):
            found.differs(
                f"no account of test records of {clean(gone[0])}", where, "a line of rounds.jsonl has one"
            )
        last |= {name: one for name, one in sites.items() if not one.unheard}
    if not lines and not last and not unanswered:
        return
    _compare(evidence, last, unanswered, found)
    if not found.any_differ:
        found.agrees(
            f"the accounts of test records of {counted(len(last), 'site')} in "
            f"{counted(lines, 'evaluation')}: "
            "each pays for evaluations alone, and costs what is claimed"
        )


def _claimed(evidence: Evidence) -> Iterator[tuple[str, SiteMetrics, bool]]:
    """Where accounts are claimed, what is, and whether in a line of rounds.jsonl; else in the summary."""
    for claim in evidence.rounds():
        if claim.report.site_metrics is not None:
            yield claim.where, claim.report.site_metrics, True
    if evidence.summary is not None and evidence.summary.test_accounts is not None:
        yield evidence.folder.summary.name, evidence.summary.test_accounts, False


def _check(site: TestAccount, where: str, before: TestAccount | None, found: Found) -> None:
    claim = site.epsilon
    if not site.charges and site.unheard:  # it has shown nothing since the start: the whole budget counts
        if claim < max(site.budget, before.epsilon if before else 0.0):
            words = f"epsilon {claim:.4f} of test records whose account is not known"
            found.differs(words, where, f"it may have spent all of its budget of {site.budget:g}")
        return
    kinds = {(one.sample_rate, one.noise_multiplier) for one in site.charges}
    ((rate, noise), *others) = kinds or ((0.0, 0.0),)
    if others or rate != 1.0 or not noise:
        found.differs(
            "its account of test records holds something else than equal evaluations",
            where,
            "an evaluation sees every test record, and all of a site's have the same noise",
        )
        return
    if before is not None and missing(site.charges, before.charges):
        found.differs(
            "the charges of test records lack evaluations of before", where, "nothing is ever given back"
        )
    claimed = [("", site.charges, claim)]
    if site.epsilon_alone is not None:
        claimed.append((" alone", alone(site.charges), site.epsilon_alone))
    elif any(one.shared for one in site.charges):
        found.differs(
            "its evaluations are of secure sums, and it does not say what holds if their assumption fails",
            where,
            "the second epsilon was left out",
        )
    if not 0 < site.delta < 1:
        found.differs(
            f"delta {site.delta:g} of test records", where, "no delta can be that: it lies between 0 and 1"
        )
        return
    for which, spent, epsilon in claimed:
        if not can_resolve(spent, site.delta):
            found.not_given(
                f"an answer of dp_accounting at delta {site.delta:g}",
                "so small a delta is lost in its rounding",
            )
        else:
            cost = epsilon_of(spent, site.delta)
            if epsilon < allowed(cost):
                words = f"epsilon{which} {epsilon:.4f} of test records, and its charges cost {cost:.4f}"
                found.differs(words, where, _TOO_LOW)
    if claim > site.budget:
        found.differs(
            f"epsilon {claim:.4f} of a budget of {site.budget:g}", where, "no ledger pays beyond its budget"
        )


def _compare(evidence: Evidence, claimed: dict[str, TestAccount], unanswered: bool, found: Found) -> None:
    """Each given account of test records that has paid for this run is that of a site."""
    run = evidence.summary.run if evidence.summary is not None else None
    left = [one.charges for one in claimed.values()]
    for account in _accounts(evidence):
        rounds = [place for place, paid in enumerate(account.rounds) if paid.run == run]
        if not rounds:
            continue
        spent = merge(paid.entry for paid in account.rounds[: rounds[-1] + 1])
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
