"""The sites' statements: their canonical form, that they are of this run and model, and who signed them."""

import math

from fl_dp.accounting.events import merge
from fl_dp.clean_text import clean
from fl_dp.errors import ConfigError
from fl_dp.kits.signed import Signature, signature_of, speaks_of_another
from fl_dp.records import ARITHMETICS, total_steps
from fl_dp.reporting.reports import ClientReport, Summary
from fl_dp.reporting.run_folder import ONE_RUN_LEDGER
from fl_dp.reporting.wording import counted, some
from fl_dp.statements import AccountStatement, Stated, Statement, stated_in
from fl_dp.verify.check import Check, Evidence, Found
from fl_dp.verify.claims import ROUNDING_ELSEWHERE, missing, shown
from fl_dp.verify.reading import is_there, read_json, read_toml

_OTHER_RUN = "the statement was made for something else, and put here"
_LEFT_OUT = "no epsilon here counts what other runs have spent on the same data"
_CHANGED = "the site's statement and this folder differ"


def _run(evidence: Evidence, found: Found) -> None:
    if not is_there(evidence.folder.statements):
        found.not_given("statements.json", "no site has stated what its data have spent")
        if is_there(evidence.folder.launch) and read_toml(evidence.folder.launch).get(ONE_RUN_LEDGER) is True:
            found.note("the clients' ledger was made for this run alone", "launch.toml", _LEFT_OUT)
        return
    texts = stated_in(read_json(evidence.folder.statements), "statements.json")
    alone: list[str] = []  # clients whose ledgers were made for this run alone
    for number, one in enumerate(texts, 1):
        where = f"statements.json, statement {number}"
        try:
            said = Statement.from_text(one.text)
            _check(one, said, where, evidence, found)
            alone += [account.client for account in said.accounts if said.one_run_ledger]
        except ConfigError as error:
            found.differs(str(error).rstrip("."), where, "the statement cannot be used")
    if any(one.key for one in texts) and _is_called_simulated(evidence):
        found.differs(
            "launch.toml says that clients were simulated, and a site has signed",
            "launch.toml",
            "the clients of a simulation have no keys: the launch was changed, or the statements put here",
        )
    if alone:
        whose = f"{counted(len(alone), 'client')}: {_listed(sorted(alone))}"
        found.note(f"the ledger was made for this run alone ({whose})", "statements.json", _LEFT_OUT)
    if evidence.summary is None:
        found.not_given("summary.json", "the statements could not be compared")
        return
    silent = sorted(evidence.summary.clients.keys() - found.signed.keys())
    if silent:
        found.not_given(
            f"a statement of {counted(len(silent), 'client')}: {_listed(silent)}",
            "only the server's files say what their data have spent",
        )
    if found.signed and not found.any_differ:
        found.agrees(
            f"the statements about {counted(len(found.signed), 'client')} agree with summary.json: run, "
            "model, charges, epsilon, delta, public size"
        )
    _say_who_signed(texts, evidence, found)


def _is_called_simulated(evidence: Evidence) -> bool:
    launch = evidence.folder.launch
    return is_there(launch) and bool(read_toml(launch).get("engine"))


def _check(one: Stated, said: Statement, where: str, evidence: Evidence, found: Found) -> None:
    signed = _check_signature(one, where, found)
    site = evidence.roster.site_of(one.key) if evidence.roster and signed else None
    if evidence.roster and signed and site is None:
        found.differs(
            f"signed by a key that the roster of {clean(evidence.roster.federation)} does not have",
            where,
            "the roster is of another federation or time, or no site of it has signed",
        )
    summary = evidence.summary
    for other in speaks_of_another(said, summary.run, summary.digests.get("model")) if summary else ():
        found.differs(f"it is of another {other}", where, _OTHER_RUN)
    if said.retired:
        found.note(
            f"{counted(said.retired, 'account')} of its ledger retired",
            where,
            "no epsilon counts what these had spent",
        )
    for account in said.accounts:
        _check_account(account, said, where, evidence.summary, found)
        if site is not None and site.name != account.client:
            found.differs(
                f"signed by site {clean(site.name)}, and speaks of client {clean(account.client)}",
                where,
                "a site can state only what its own data have spent",
            )
        authentic = site is not None and site.name == account.client
        if account.client in found.signed:
            found.differs(f"a second statement of client {clean(account.client)}", where, _OTHER_RUN)
        found.signed[account.client] = authentic


def _check_signature(one: Stated, where: str, found: Found) -> bool:
    """Whether it has a valid signature; that alone does not say whose."""
    signature = signature_of(one)
    if signature is Signature.WRONG:
        found.differs("its signature does not hold", where, "the statement was changed after it was signed")
    return signature is Signature.HOLDS


def _check_account(
    account: AccountStatement, said: Statement, where: str, summary: Summary | None, found: Found
) -> None:
    where = f"{where}, client {clean(account.client)}"
    if summary is None:
        return
    client = summary.clients.get(account.client)
    if client is None:
        found.differs(
            "the run has no such client", where, "the client was taken out, or the statement put here"
        )
        return
    _check_spent(account, client, where, found)
    _check_this_run(account, client, where, found)
    for name in ("delta", "budget", "accountant", "public_size"):
        if getattr(account, name) != getattr(client, name):
            found.differs(f"{name} differs in summary.json", where, _CHANGED)
    if said.retired != client.retired:
        found.differs("retired differs in summary.json", where, _CHANGED)
    _check_arithmetic(account, client.arithmetic, where, found)
    if summary.federation is None or summary.federation.unit != account.unit:
        found.differs(f"unit {clean(account.unit)} differs in summary.json", where, _CHANGED)
    elif client.this_run is None:  # else the federation covers less than the statement
        _check_arithmetic(account, summary.federation.arithmetic, where, found)
    if not missing(merge(account.spent), client.charges):
        pairs: dict[str, tuple[float | None, float | None]] = {"epsilon": (account.epsilon, client.epsilon)}
        if client.epsilon_alone is not None or any(entry.shared for entry in account.spent):
            pairs["epsilon alone"] = account.epsilon_alone, client.epsilon_alone
        for name, (stated, said_there) in pairs.items():
            if not _same(stated, said_there):
                found.differs(
                    f"{name} {shown(stated)} is stated, and summary.json says {shown(said_there)}",
                    where,
                    _CHANGED,
                )


def _check_arithmetic(account: AccountStatement, word: str, where: str, found: Found) -> None:
    """The folder's word may be weaker than the statement's: then it claims nothing. `word`: the folder's."""
    if word not in ARITHMETICS:
        found.differs("arithmetic is not said in summary.json", where, _CHANGED)
    elif ARITHMETICS.index(word) > ARITHMETICS.index(account.arithmetic):
        found.differs(
            f"arithmetic is {word} in summary.json, and {account.arithmetic} is stated", where, _CHANGED
        )


def _check_spent(account: AccountStatement, client: ClientReport, where: str, found: Found) -> None:
    """If the site states more than the summary, charges were lowered; if less, the server has guessed."""
    spent = merge(account.spent)
    if missing(client.charges, spent):
        found.differs(
            f"{counted(total_steps(spent), 'step')} stated, and not all in summary.json",
            where,
            "the charges were lowered in this folder, or another run trained on the same data meanwhile",
        )
    elif missing(spent, client.charges):
        found.note(
            f"{counted(total_steps(spent), 'step')} stated, and summary.json counts {client.steps}",
            where,
            "the server also counts requests without an answer; the site knows",
        )


def _check_this_run(account: AccountStatement, client: ClientReport, where: str, found: Found) -> None:
    """Check that the folder counts for this run all that the site paid for it."""
    spent, both = merge(account.spent), merge((*client.cost.charges, *account.other_runs))
    if account.other_runs and (more := missing(spent, both)):
        found.note(
            f"{counted(total_steps(more), 'step')} of this run in summary.json, not stated as such",
            where,
            "the server also counts requests without an answer; or the steps were of other runs",
        )
    left_out = missing(both, spent)
    if left_out:
        found.differs(
            f"{counted(total_steps(left_out), 'step')} stated to be of this run, and in summary.json among "
            "those of other runs",
            where,
            "this run's cost was lowered in this folder",
        )


def _say_who_signed(texts: list[Stated], evidence: Evidence, found: Found) -> None:
    if evidence.roster is not None and evidence.summary is not None:
        absent = sorted({site.name for site in evidence.roster.sites} - evidence.summary.clients.keys())
        if absent:
            found.not_given(
                f"anything of {counted(len(absent), 'site')} of the roster: {_listed(absent)}",
                "they took no part, or the folder leaves them out: ask them",
            )
    if not found.signed:
        return
    authentic = [name for name, known in found.signed.items() if known]
    if not any(one.key for one in texts) and _is_called_simulated(evidence):
        found.not_given("a signature", "the clients of a simulation have no keys")
    elif not any(one.key for one in texts):
        found.not_given("a signature", "the sites' statements are not signed")
    elif evidence.roster is None and is_there(evidence.folder.launch):
        found.not_given(
            "a roster",
            "launch.toml says that the keys were made for one launch on one machine: no roster has them",
        )
    elif evidence.roster is None:
        found.not_given(
            "a roster", "a key in the file itself proves nothing: give --kit DIR or --roster FILE"
        )
    elif authentic:
        found.agrees(f"signed by their own sites, with the roster's keys: {_listed(sorted(authentic))}")
    others = sorted(name for name, known in found.signed.items() if not known)
    if evidence.roster is not None and others and any(one.key for one in texts):
        found.not_given(
            f"a signature by the roster's key of {counted(len(others), 'client')}: {_listed(others)}",
            "nothing shows that their statements come from their sites",
        )


def _listed(names: list[str]) -> str:
    return some([clean(one) for one in names])


def _same(one: float | None, other: float | None) -> bool:
    """None: no epsilon holds."""
    one, other = (math.inf if value is None else value for value in (one, other))
    return math.isclose(one, other, rel_tol=ROUNDING_ELSEWHERE, abs_tol=ROUNDING_ELSEWHERE)


CHECK = Check(place=8, run=_run)
