"""Every field of a run's files is signed by a site, follows from what is, or is listed as unsigned."""

from dataclasses import fields
from pathlib import Path

from fl_dp.reporting.provenance import digested_files
from fl_dp.reporting.reports import ClientReport, FederationBudget, RoundReport, Summary
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.statements import AccountStatement, Statement
from fl_dp.tasks.description import ModelDescription
from fl_dp.verify.verdict import UNSIGNED

# Fields of a `Statement` and of its `AccountStatement`s: what a site signs.
SIGNED = (
    "run weights commitment retired one_run_ledger client data kind unit public_size spent other_runs "
    "epsilon epsilon_alone arithmetic delta budget accountant date version"
)

# What `fl-dp verify` compares with the statements, or computes from what they say: by the check that does.
FOLLOWS = {
    "statements": (
        "run clients.delta clients.budget clients.accountant clients.public_size clients.retired "
        "federation.unit clients.arithmetic clients.charges clients.epsilon clients.epsilon_alone "
        "federation.arithmetic clients.this_run clients.before clients.claimed_epsilon"
    ),
    "epsilons": (
        "epsilon delta federation.largest federation.median federation.least federation.accountants "
        "federation.epsilon_alone"
    ),
    "files": "clients.steps private federation",  # of the last by its parts
}


def names(kind: type, start: str = "") -> set[str]:
    return {f"{start}{one.name}" for one in fields(kind)}


def test_what_a_site_signs_is_listed_field_by_field() -> None:
    assert sorted(SIGNED.split()) == sorted((names(Statement) | names(AccountStatement)) - {"accounts"})


def test_what_nobody_has_signed_is_listed_field_by_field() -> None:
    """A new field of a file belongs to one list. Where it is an epsilon of charges, a check says so."""
    written = (
        names(Summary)
        | names(RoundReport)
        | names(FederationBudget, "federation.")
        | names(ClientReport, "clients.")
        | names(ModelDescription, "model.")
    )
    json = {"rounds.jsonl", "summary.json", "statements.json", "model.json"}
    written |= {file.name for file in digested_files(RunFolder(Path("run")))} - json
    unsigned, follows = (" ".join(one.values()).split() for one in (UNSIGNED, FOLLOWS))
    assert sorted((*unsigned, *follows)) == sorted(written)
