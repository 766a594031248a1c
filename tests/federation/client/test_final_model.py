"""The final model is kept where the operator wants it, and only if it is one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from federation.client.sites import MODEL, Site
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict

from fl_dp.federation.client.app import answer
from fl_dp.federation.client.final_model import keep_final_model
from fl_dp.federation.wire.arrays import encode, state_arrays
from fl_dp.federation.wire.messages import ABOUT, ARRAYS, FINAL_MODEL, HEARD, REFUSAL


def sent(site: Site, **records: Any) -> RecordDict:
    """What the site answers to a final model, whose records may be others."""
    content = {
        ARRAYS: encode(state_arrays(MODEL)),
        ABOUT: ConfigRecord({"run": "77", "private": True}),
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
