"""The final model is kept where the operator wants it, and only if it is one."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from federation.client.sites import MODEL, Site
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.hash_chain import head
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.errors import ConfigError
from fl_dp.federation.client import stating
from fl_dp.federation.client.answers import answer
from fl_dp.federation.client.final_model import keep_final_model
from fl_dp.federation.wire.arrays import declared_specs, encode, state_arrays
from fl_dp.federation.wire.messages import ABOUT, ARRAYS, FINAL_MODEL, HEARD, REFUSAL, STATEMENT
from fl_dp.records import Entry
from fl_dp.statements import Statement, commitment
from fl_dp.weights_digest import weights_digest

ABOUT_IT = {"run": "run-1", "private": True}
KEPT = Path("model", "model.pt")


def sent(site: Site, **records: Any) -> RecordDict:
    """What the site answers to a final model, whose records may be others."""
    content = {ARRAYS: encode(state_arrays(MODEL)), ABOUT: ConfigRecord(ABOUT_IT), **records}
    kept = RecordDict({name: record for name, record in content.items() if record is not None})
    context = Context(1, 11, {"client-config": str(site.file)}, RecordDict(), {})
    return answer(Message(kept, 11, FINAL_MODEL), context, keep_final_model).content


def about(**changes: Any) -> dict[str, ConfigRecord]:
    return {ABOUT: ConfigRecord({**ABOUT_IT, **changes})}


def arrays(change: Callable[[Any], Any]) -> dict[str, ArrayRecord]:
    return {ARRAYS: encode({name: change(one) for name, one in state_arrays(MODEL).items()})}


@pytest.fixture
def keeping(tmp_path: Path) -> Site:
    return Site(tmp_path, **{"save-model": str(tmp_path / "model")})


def test_it_is_read_again_as_it_was_until_a_better_one_replaces_it(keeping: Site, tmp_path: Path) -> None:
    for added in (0, 1):
        assert list(sent(keeping, **arrays(lambda one, added=added: one + added))) == [HEARD]
        kept = torch.load(tmp_path / KEPT, weights_only=True)
        assert all(torch.equal(kept[name], one + added) for name, one in MODEL.state_dict().items())
    assert (tmp_path / "model" / "model.json").exists()


def test_one_without_privacy_says_so_in_its_name(keeping: Site, tmp_path: Path) -> None:
    sent(keeping, **about(private=False))
    assert (tmp_path / "model" / "model-NOT-PRIVATE.pt").exists()


def test_a_client_may_keep_no_final_model(tmp_path: Path) -> None:
    assert list(sent(Site(tmp_path))) == [HEARD]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["client.toml"]


@pytest.mark.parametrize(
    "records",
    [
        {ARRAYS: None},
        {ARRAYS: ConfigRecord({})},
        {ARRAYS: ArrayRecord({"w": Array(np.ones(3, dtype=np.float32))})},
        arrays(lambda one: one * np.nan),
        arrays(lambda one: one + np.float32(1e30)),
        {ABOUT: None},
        {ABOUT: ArrayRecord({})},
        {ABOUT: ConfigRecord({"private": True})},
        about(private="yes"),
        about(run=""),
        about(run="\x1b[31mrun"),
        about(run="7" * 1000),
    ],
)
def test_an_invalid_final_model_is_refused_and_nothing_is_written(
    records: dict[str, Any], keeping: Site, tmp_path: Path
) -> None:
    assert list(sent(keeping, **records)) == [REFUSAL]
    assert not (tmp_path / KEPT).exists()


@pytest.mark.parametrize("one_run", [False, True])
def test_the_statement_contains_the_spent_budget(tmp_path: Path, one_run: bool) -> None:
    """It also states whether the ledger was made for this run alone."""
    site = Site(tmp_path, **{"data-name": "ward 7", "one-run-ledger": one_run})
    update = site.train()
    statement = Statement.from_text(str(sent(site)[STATEMENT]["text"]))
    (account,) = statement.accounts
    assert statement.one_run_ledger is one_run
    assert (statement.run, statement.weights) == ("run-1", weights_digest(state_arrays(MODEL)))
    assert (account.client, account.data, account.kind, account.unit) == (
        "hospital",
        "ward 7",
        "digits",
        "record",
    )
    assert (account.spent, account.epsilon, account.delta) == (update.spent, update.epsilon, update.delta)
    assert account.public_size == site.register().public_size
    assert account.other_runs == ()
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        ledger.reserve(ledger.accounts()[0].dataset, "another", 1, Entry(0.5, 9.0, 2), Budget(3.0, 1e-5))
    (account,) = Statement.from_text(str(sent(site)[STATEMENT]["text"])).accounts
    assert account.other_runs == (Entry(0.5, 9.0, 2),)
    assert set(account.spent) == {*update.spent, *account.other_runs}


def test_the_commitment_opens_with_the_secret_of_the_site(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.train()
    texts = [str(sent(site)[STATEMENT]["text"]) for _ in range(2)]
    openings = [json.loads(line) for line in (tmp_path / "statements.jsonl").read_text().splitlines()]
    commitments = [Statement.from_text(text).commitment for text in texts]
    assert commitments == [commitment(bytes.fromhex(one["salt"]), one["head"]) for one in openings]
    assert len(set(commitments)) == 2  # each has a salt of its own
    with Ledger.open(Path(site.config.ledger)) as ledger:
        assert openings[0]["head"] == head(ledger.rows())
    assert (tmp_path / "statements.jsonl").stat().st_mode & 0o077 == 0
    for one in openings:
        assert one["salt"] not in "".join(texts)
        assert one["head"] not in "".join(texts)


def test_no_statement_where_the_salt_cannot_be_kept_or_of_a_run_that_the_data_took_no_part_in(
    tmp_path: Path,
) -> None:
    """Nobody could ever show which ledger it was, or a server could show a site that was not of its run.

    That the model has come is answered all the same.
    """
    site = Site(tmp_path)
    site.train()
    assert list(sent(site, **about(run="another"))) == [HEARD]
    assert not (tmp_path / "statements.jsonl").exists()
    (tmp_path / "statements.jsonl").mkdir()
    assert list(sent(site)) == [HEARD]


@pytest.mark.parametrize(
    ("kind", "dimensions", "words"),
    [
        *((kind, 1, "which no weights have") for kind in ("object", "<U9", "V8", "datetime64")),
        ("float32", 33, "more than 32 dimensions, which no weights have"),
    ],
)
def test_arrays_that_no_weights_are_are_not_looked_at(kind: str, dimensions: int, words: str) -> None:
    """NumPy's own format has no room for 30,000 dimensions, and says so by a traceback."""
    array = Array(dtype=kind, shape=(1,) * dimensions, stype="numpy.ndarray", data=b"x")
    with pytest.raises(ConfigError, match=words):
        declared_specs(ArrayRecord({"w": array}))


def test_a_server_that_asks_for_ever_fills_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stating, "MOST_OF_A_RUN", 3)
    site = Site(tmp_path)
    site.train()
    assert [STATEMENT in sent(site) for _ in range(5)] == [True, True, True, False, False]
    assert len((tmp_path / "statements.jsonl").read_text().splitlines()) == 3
