"""Metrics on the sites' own test records: the cost of the evaluations, recomputed, and the payments.

Test records have accounts of their own, in reports and in ledgers.
"""

import math
from collections.abc import Iterator

from fl_dp.accounting.events import merge
from fl_dp.accounting.ledger.accounts import Account
from fl_dp.clean_text import clean
from fl_dp.errors import ConfigError
from fl_dp.records import TEST_RECORDS, total_steps
from fl_dp.reporting.reports import SiteMetrics, TestAccount
from fl_dp.reporting.wording import counted
from fl_dp.verify.check import Check, Evidence, Found
from fl_dp.verify.checks.epsilons import TOO_LOW, claimed_epsilons, is_resolved
from fl_dp.verify.claims import NO_SUCH_DELTA, missing, named, shown
from fl_dp.verify.independent import allowed, epsilon_of
from fl_dp.verify.ledger_file import read_ledger


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
        alone_of_all = math.inf if measured.epsilon_alone is None else measured.epsilon_alone
        for name, claimed, each in (
            ("epsilon", measured.epsilon, [one.epsilon for one in sites.values()]),
            ("delta", measured.delta, [one.delta for one in sites.values()]),
            ("epsilon alone", alone_of_all, [one.if_sums_fail for one in sites.values()]),
        ):
            if claimed < (largest := max(each, default=0.0)):
                found.differs(
                    f"{name} {named(name, claimed)}, and a site's is {named(name, largest)}",
                    where,
                    f"the {name} of test records is the largest of any site",
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
            f"{counted(lines, 'evaluation')}: each pays only for evaluations, and costs what is claimed"
        )


def _claimed(evidence: Evidence) -> Iterator[tuple[str, SiteMetrics, bool]]:
    """The place of claimed accounts, the claim, and whether it is a line of rounds.jsonl, not the summary."""
    for claim in evidence.rounds():
        if claim.report.site_metrics is not None:
            yield claim.where, claim.report.site_metrics, True
    if evidence.summary is not None and evidence.summary.test_accounts is not None:
        yield evidence.folder.summary.name, evidence.summary.test_accounts, False


def _check(site: TestAccount, where: str, before: TestAccount | None, found: Found) -> None:
    claim = site.epsilon
    if not site.charges and site.unheard:  # it has shown nothing since the start: the whole budget counts
        if claim < max(site.budget, before.epsilon if before else 0.0):
            words = f"epsilon {shown(claim)} of test records whose account is not known"
            found.differs(words, where, f"it may have spent all of its budget of {site.budget:g}")
        return
    kinds = {(one.sample_rate, one.noise_multiplier) for one in site.charges}
    ((rate, noise), *others) = kinds or ((0.0, 0.0),)
    if others or rate != 1.0 or not noise:
        found.differs(
            "its account of test records holds something else than equal evaluations",
            where,
            "an evaluation sees every test record, and all evaluations of a site have the same noise",
        )
        return
    if before is not None and missing(site.charges, before.charges):
        found.differs(
            "the charges of test records lack earlier evaluations", where, "nothing is ever given back"
        )
    if not 0 < site.delta < 1:
        found.differs(f"delta {site.delta:g} of test records", where, NO_SUCH_DELTA)
        return
    for name, spent, epsilon in claimed_epsilons(site, where, found):
        if is_resolved(spent, site.delta, found):
            cost = epsilon_of(spent, site.delta)
            if epsilon < allowed(cost):
                words = f"{name} {shown(epsilon)} of test records, and its charges cost {shown(cost)}"
                found.differs(words, where, TOO_LOW)
    if claim > site.budget:
        words = f"epsilon {shown(claim)} of a budget of {site.budget:g}"
        found.differs(words, where, "no ledger pays beyond its budget")


def _compare(evidence: Evidence, claimed: dict[str, TestAccount], unanswered: bool, found: Found) -> None:
    """Check that each given account of test records that has paid for this run is a site's."""
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
                f"{clean(account.dataset)} has paid for {counted(total_steps(spent), 'evaluation')}",
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
