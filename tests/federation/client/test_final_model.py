"""The final model is kept where the operator wants it, and only if it is one."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from federation.client.sites import MODEL, Site
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict

from fl_dp.accounting.ledger.hash_chain import head
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.errors import ConfigError
from fl_dp.federation.client import stating
from fl_dp.federation.client.app import answer
from fl_dp.federation.client.final_model import keep_final_model
from fl_dp.federation.wire.arrays import declared_specs, encode, state_arrays
from fl_dp.federation.wire.messages import ABOUT, ARRAYS, FINAL_MODEL, HEARD, REFUSAL, STATEMENT
from fl_dp.records import LocalUpdate
from fl_dp.statements import Statement, commitment
from fl_dp.weights_digest import weights_digest


def sent(site: Site, **records: Any) -> RecordDict:
    """What the site answers to a final model, whose records may be others."""
    content = {
        ARRAYS: encode(state_arrays(MODEL)),
        ABOUT: ConfigRecord({"run": "run-1", "private": True}),
        **records,
    }
    kept = RecordDict({name: record for name, record in content.items() if record is not None})
    message = Message(kept, 11, FINAL_MODEL)
    context = Context(1, 11, {"client-config": str(site.file)}, RecordDict(), {})
    return answer(message, context, keep_final_model).content


def test_it_is_read_again_as_it_was(tmp_path: Path) -> None:
    site = Site(tmp_path, **{"save-model": str(tmp_path / "model")})
    assert list(sent(site)) == [HEARD]
    kept = torch.load(tmp_path / "model" / "model.pt", weights_only=True)
    assert all(torch.equal(kept[name], one) for name, one in MODEL.state_dict().items())
    assert (tmp_path / "model" / "model.json").exists()


def test_one_without_privacy_says_so_in_its_name(tmp_path: Path) -> None:
    site = Site(tmp_path, **{"save-model": str(tmp_path / "model")})
    sent(site, **{ABOUT: ConfigRecord({"run": "77", "private": False})})
    assert (tmp_path / "model" / "model-NOT-PRIVATE.pt").exists()


def test_who_wants_none_keeps_none(tmp_path: Path) -> None:
    assert list(sent(Site(tmp_path))) == [HEARD]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["client.toml"]


@pytest.mark.parametrize(
    "records",
    [
        {ARRAYS: None},
        {ARRAYS: ConfigRecord({})},
        {ARRAYS: ArrayRecord({"w": Array(np.ones(3, dtype=np.float32))})},
        {ARRAYS: encode({name: one * np.nan for name, one in state_arrays(MODEL).items()})},
        {ARRAYS: encode({name: one + 1e30 for name, one in state_arrays(MODEL).items()})},
        {ABOUT: None},
        {ABOUT: ConfigRecord({"run": "77", "private": "yes"})},
        {ABOUT: ConfigRecord({"private": True})},
        {ABOUT: ConfigRecord({"run": "7" * 1000, "private": True})},
        {ABOUT: ArrayRecord({})},
    ],
)
def test_what_is_no_model_of_this_site_is_refused_and_nothing_is_written(
    records: dict[str, Any], tmp_path: Path
) -> None:
    site = Site(tmp_path, **{"save-model": str(tmp_path / "model")})
    assert list(sent(site, **records)) == [REFUSAL]
    assert not (tmp_path / "model" / "model.pt").exists()


def test_a_better_one_replaces_it(tmp_path: Path) -> None:
    site = Site(tmp_path, **{"save-model": str(tmp_path / "model")})
    sent(site)
    sent(site, **{ARRAYS: encode({name: one + 1 for name, one in state_arrays(MODEL).items()})})
    kept = torch.load(tmp_path / "model" / "model.pt", weights_only=True)
    assert all(torch.equal(kept[name], one + 1) for name, one in MODEL.state_dict().items())


def test_what_the_data_have_spent_is_stated(tmp_path: Path) -> None:
    site = Site(tmp_path, **{"data-name": "ward 7"})
    update = site.train()
    assert isinstance(update, LocalUpdate)
    answered = sent(site)
    statement = Statement.from_text(str(answered[STATEMENT]["text"]))
    (account,) = statement.accounts
    assert (statement.run, statement.weights) == ("run-1", weights_digest(state_arrays(MODEL)))
    assert (account.client, account.data, account.unit) == ("hospital", "ward 7", "record")
    assert (account.spent, account.epsilon, account.delta) == (update.spent, update.epsilon, update.delta)
    assert account.public_size == site.register().public_size


def test_the_commitment_opens_with_what_stays_at_the_site(tmp_path: Path) -> None:
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


def test_no_statement_where_the_salt_cannot_be_kept(tmp_path: Path) -> None:
    """Nobody could ever show which ledger it was; that the model has come is answered all the same."""
    site = Site(tmp_path)
    site.train()
    (tmp_path / "statements.jsonl").mkdir()
    assert list(sent(site)) == [HEARD]


@pytest.mark.parametrize("kind", ["object", "<U9", "V8", "datetime64"])
def test_arrays_of_no_type_of_weights_are_not_looked_at(kind: str) -> None:
    array = Array(dtype=kind, shape=(1,), stype="numpy.ndarray", data=b"x")
    with pytest.raises(ConfigError, match="which no weights have"):
        declared_specs(ArrayRecord({"w": array}))


def test_nothing_is_stated_of_a_run_that_the_data_took_no_part_in(tmp_path: Path) -> None:
    """A server could show the statement as one of a site of its own run."""
    site = Site(tmp_path)
    site.train()
    assert list(sent(site, **{ABOUT: ConfigRecord({"run": "another", "private": True})})) == [HEARD]
    assert not (tmp_path / "statements.jsonl").exists()


@pytest.mark.parametrize("run", ["", "a\nb", "\x1b[31mrun", "7" * 1000])
def test_a_run_without_a_printable_name_is_refused(run: str, tmp_path: Path) -> None:
    assert list(sent(Site(tmp_path), **{ABOUT: ConfigRecord({"run": run, "private": True})})) == [REFUSAL]


def test_a_server_that_asks_for_ever_fills_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stating, "MOST_OF_A_RUN", 3)
    site = Site(tmp_path)
    site.train()
    assert [STATEMENT in sent(site) for _ in range(5)] == [True, True, True, False, False]
    assert len((tmp_path / "statements.jsonl").read_text().splitlines()) == 3
