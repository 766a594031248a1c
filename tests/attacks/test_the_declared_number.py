"""A server that knows all records but one looks for it in how many there are.

The cut of a draw (`engine.sum_error.most_drawn`) holds for at most as many records as are declared. A client
that has more is refused. If "auto" declared just as many as there are, the number itself would tell, and so
would a refusal where that number is kept and a record comes.
"""

import numpy as np
import pytest
from flwr.app import RecordDict

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.federation.wire.arrays import encode, state_arrays
from fl_dp.federation.wire.messages import plan_to_content
from fl_dp.records import RoundPlan

PLAN = RoundPlan("run-1", 1, "linear", 2, 50, 0.5, 0.0, 8.0, 1.0)
RECORDS = np.random.default_rng(7).normal(size=(121, 4))


def told(client, count):
    """All that leaves a client with so many records, but noised arrays and its name."""
    client.give(RECORDS[:count], np.arange(count) % 3)
    plan = plan_to_content(PLAN, encode(state_arrays(client.model)))
    said = []
    for content in (client.call("query", RecordDict()), client.call("train", plan)):
        records = {name: dict(record) for name, record in content.config_records.items()}
        records.get("profile", {}).pop("client", None)
        said.append(records)
    return said


def accounts(client):
    with Ledger.open(client.ledger) as ledger:
        return ledger.accounts()


@pytest.mark.parametrize("declared", ["auto", 112])
def test_one_record_more_changes_nothing_that_is_said(real_client, declared):
    fewer, more = (told(real_client(str(count), **{"public-size": declared}), count) for count in (110, 111))
    assert fewer == more
    assert fewer[0]["profile"]["public_size"] == 112
    assert "refusal" not in fewer[1]


def test_more_than_are_declared_are_told_as_any_data_that_cannot_be_used(real_client, caplog):
    client, broken = real_client("many", **{"public-size": 100}), real_client("broken")
    said = told(client, 101)
    assert "public-size = 100: the data have 101 records" in caplog.text  # its own log
    assert accounts(client) == []
    assert "101" not in str(said)
    broken.data.write_bytes(b"no data")
    plan = plan_to_content(PLAN, encode(state_arrays(broken.model)))
    for content, of_many in zip(
        (broken.call("query", RecordDict()), broken.call("train", plan)), said, strict=True
    ):
        assert {name: dict(record) for name, record in content.config_records.items()} == of_many


def test_data_that_grow_are_not_the_data_that_were_declared(real_client, tmp_path):
    """Within the declared number, and beyond it. A client reads its data once, when it is started."""
    client = real_client("growing", **{"public-size": 120, "data-name": "ours"})
    assert "refusal" not in told(client, 110)[1]
    for count, whose in ((111, "ledger"), (121, "data")):
        before, client.data = client.data, tmp_path / f"{count}.npz"
        client.file.write_text(client.file.read_text().replace(str(before), str(client.data)))
        reasons = {one["refusal"]["reason"] for one in told(client, count)}
        assert reasons == {f"its {whose} cannot be used; its own log says why"}
    assert sum(entry.steps for account in accounts(client) for entry in account.spent()) == 2


def test_a_ledger_that_holds_fewer_than_there_are_is_refused(real_client, caplog):
    """As an older fl_dp has entered them: 80 declared, 100 there."""
    client = real_client("older", **{"public-size": 112})
    told(client, 100)
    (account,) = accounts(client)
    client.ledger.unlink()
    with Ledger.open(client.ledger) as ledger:
        ledger.register(account.dataset, account.fingerprint, 80, source=account.identity.source)
    reasons = {one["refusal"]["reason"] for one in told(client, 100)}
    assert reasons == {"its ledger cannot be used; its own log says why"}
    assert "with 80 records as its declared number, but there are 100" in caplog.text
    assert accounts(client)[0].rounds == ()
