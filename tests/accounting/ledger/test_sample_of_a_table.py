"""A ledger in which 1.0.0 entered a table, with traces that no fl_dp keeps any more, knows it again.

`tests/samples/ledgers/clinic.sqlite`, beside the table and its schema.
"""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.identity import Identity
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.accounting.ledger.requests import DataDeclaration
from fl_dp.config.client import ClientConfig
from fl_dp.errors import LedgerError
from fl_dp.federation.client.registration import registration_of
from fl_dp.records import Entry
from fl_dp.reporting.ledger_report import account_reports
from fl_dp.tasks.records import load_part

SAMPLES = Path(__file__).parents[2] / "samples" / "ledgers"
SCHEMA = (SAMPLES / "clinic.schema.toml").read_text()
ENTRY, WIDER = Entry(0.1, 1.0, 5), Budget(9.0, 1e-5)


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return Path(shutil.copy(SAMPLES / "clinic.sqlite", tmp_path / "ledger.sqlite"))


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.read_csv(SAMPLES / "clinic.csv")


def declared(
    ledger: Path, frame: pd.DataFrame, name: str = "other", schema: str = SCHEMA, **more: Any
) -> DataDeclaration:
    path = ledger.with_name(f"{name}.csv")
    frame.to_csv(path, index=False)
    path.with_suffix(".schema.toml").write_text(schema)
    config = ClientConfig(client="north", ledger=str(ledger), data=f"csv:{path}", data_name=name, **more)
    return registration_of(load_part(config), config)


def test_the_table_goes_on_under_its_name_with_what_it_has_spent(ledger: Path, frame: pd.DataFrame) -> None:
    """The bytes of its sketch are what they were; traces are read and passed over."""
    new = declared(ledger, frame, "clinic")
    with Ledger.open_existing(ledger) as opened:
        before = opened.spent("clinic")
        noted = json.loads(opened.rows()[0].content)
        key = opened._log.secret()
        assert opened.register_all([new]) == [128]
        opened.commit(opened.reserve("clinic", "a new run", 1, ENTRY, WIDER))
        rows, after = len(opened.rows()), opened.spent("clinic")
    assert "traces" in noted
    found = Identity.of(new, key)
    assert (found.sketch, found.fingerprint) == (noted["sketch"], noted["fingerprint"])
    assert rows == 5  # of which it was three, and no new registration
    assert [one.steps for one in (*before, *after)] == [11, 16]


WAYS: dict[str, Callable[[pd.DataFrame], tuple[pd.DataFrame, str]]] = {
    "renamed": lambda frame: (frame, SCHEMA),
    "rows in another order": lambda frame: (frame.sample(frac=1, random_state=1), SCHEMA),
    "columns in another order": lambda frame: (frame[sorted(frame)], SCHEMA),
    "rows added": lambda frame: (
        pd.concat([frame, frame.assign(age=frame["age"].iloc[::-1].values)]),
        SCHEMA,
    ),
    "rows left out": lambda frame: (frame.iloc[::3], SCHEMA),
}
NEW: dict[str, Callable[[pd.DataFrame], tuple[pd.DataFrame, str]]] = {
    "columns renamed": lambda frame: (
        frame.rename(columns=str.upper),
        re.sub(r"columns\.(\w+)", lambda found: f"columns.{found[1].upper()}", SCHEMA),
    ),
    "another schema": lambda frame: (frame, SCHEMA.replace('kind = "ignore"', 'kind = "group"')),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_same_data_in_another_form_are_refused(ledger: Path, frame: pd.DataFrame, way: str) -> None:
    table, schema = WAYS[way](frame)
    new = declared(ledger, table, schema=schema)
    with Ledger.open_existing(ledger) as opened, pytest.raises(LedgerError, match="clinic"):
        opened.register_all([new])


@pytest.mark.parametrize("way", NEW)
def test_what_its_traces_alone_knew_is_new(ledger: Path, frame: pd.DataFrame, way: str) -> None:
    """An account that is entered now knows both by the lines of its file: test_the_same_data_again.py."""
    table, schema = NEW[way](frame)
    with Ledger.open_existing(ledger) as opened:
        assert opened.register_all([declared(ledger, table, schema=schema)]) == [128]


def test_after_it_was_retired_both_count_together(ledger: Path, frame: pd.DataFrame) -> None:
    new = declared(ledger, frame.iloc[::2])
    with Ledger.open_existing(ledger) as opened:
        opened.retire("clinic")
        opened.register_all([new])
        opened.commit(opened.reserve("other", "a new run", 1, ENTRY, WIDER))
        first, second = account_reports(opened.accounts())
    assert second.retirements == 1
    assert second.total.epsilon > max(first.epsilon, second.epsilon)


def test_other_patients_are_new(ledger: Path, frame: pd.DataFrame) -> None:
    others = frame.assign(
        **{name: frame[name].sample(frac=1, random_state=n).values for n, name in enumerate(frame)}
    )
    with Ledger.open_existing(ledger) as opened:
        assert opened.register_all([declared(ledger, others)]) == [128]
