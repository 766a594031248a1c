"""A statement has one spelling, and hides the ledger that it commits to."""

import json
from dataclasses import replace
from typing import Any

import pytest

from fl_dp.errors import ConfigError
from fl_dp.records import Entry
from fl_dp.statements import AccountStatement, Stated, Statement, commitment, stated_in

ACCOUNT = AccountStatement(
    "north", "digits", "record", 721, (Entry(0.1, 1.5, 34),), 1.8, 1e-5, 3.0, "pld", "steady-rows"
)
STATEMENT = Statement("77", "ab" * 32, "cd" * 32, 0, "2026-11-22T21:37:28+00:00", "0.1.0", (ACCOUNT,))


def test_it_is_read_again_as_it_was() -> None:
    before = replace(ACCOUNT, kind="csv", other_runs=(Entry(0.1, 1.5, 4),))
    for account in (ACCOUNT, replace(ACCOUNT, epsilon=None, spent=()), before):
        for one in (
            replace(STATEMENT, accounts=(account,) * 3),
            replace(STATEMENT, accounts=(account,), one_run_ledger=True),
        ):
            assert Statement.from_text(one.to_text()) == one
    for optional in ("kind", "other_runs", "one_run_ledger"):
        assert optional not in STATEMENT.to_text()  # as older sites spelt it


def changed(**fields: Any) -> str:
    table = json.loads(STATEMENT.to_text())
    for key, value in fields.items():
        (table if key in table else table["accounts"][0])[key] = value
    return json.dumps(table, sort_keys=True, separators=(",", ":"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[" * 100_000,
        json.dumps(json.loads(STATEMENT.to_text())),  # with spaces
        changed(run=7),
        changed(retired=-1),
        changed(retired=True),
        changed(weights="ab"),
        changed(commitment="AB" * 32),
        changed(accounts={}),
        changed(accounts=[{}]),
        changed(epsilon="1"),
        changed(epsilon=-1.0),
        changed(delta=None),
        changed(delta=10**400),
        changed(arithmetic="sure"),
        changed(kind=""),
        changed(public_size=1.5),
        changed(spent=[{"sample_rate": 0.1, "noise_multiplier": 1.0}]),
        changed(spent=[{"sample_rate": 1.1, "noise_multiplier": 1.0, "steps": 1}]),
        changed(spent=[{"sample_rate": 0.1, "noise_multiplier": 1.0, "steps": 10**30}]),
        changed(spent=[{"sample_rate": 0.1, "noise_multiplier": 1.0, "steps": 1.0}]),
        STATEMENT.to_text().replace('"retired":0', '"retired":0,"more":0'),
        STATEMENT.to_text().replace('"retired":0', '"one_run_ledger":false,"retired":0'),
        STATEMENT.to_text().replace('"retired":0', '"one_run_ledger":1,"retired":0'),
        STATEMENT.to_text().replace("1.8", "Infinity"),
    ],
)
def test_another_text_is_none(text: str) -> None:
    with pytest.raises(ConfigError, match="not a readable statement"):
        Statement.from_text(text)


def test_a_commitment_depends_on_every_bit_of_salt_and_head() -> None:
    salt, head = bytes(32), "ab" * 32
    kept = commitment(salt, head)
    assert kept == commitment(salt, head)
    assert len({kept, commitment(bytes([*salt[:-1], 1]), head), commitment(salt, head[:-1] + "c")}) == 3


@pytest.mark.parametrize(
    "found",
    [None, [], {}, {"statements": {}}, {"statements": [1]}, {"statements": [{"text": "", "key": ""}]}],
)
def test_only_a_list_of_texts_is_one_of_statements(found: Any) -> None:
    with pytest.raises(ConfigError, match="no list of statements"):
        stated_in(found, "it")
    assert stated_in({"statements": [{"text": "a", "key": "b", "signature": "c"}]}, "it") == [
        Stated("a", "b", "c")
    ]
