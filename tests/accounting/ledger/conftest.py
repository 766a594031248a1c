"""A ledger that has entered one data set, closed and open."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fl_dp.accounting.ledger.ledger import Ledger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        ledger.register("digits", "f1", 1000)
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    with Ledger.open(path) as ledger:
        yield ledger
