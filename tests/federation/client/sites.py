"""A client's site on the disk, asked as Flower asks it."""

from pathlib import Path
from typing import Any

import tomli_w
from flwr.app import Context, Message, RecordDict

from fl_dp.config.client import ClientConfig
from fl_dp.federation.client.app import app
from fl_dp.federation.wire.arrays import encode, specs, state_arrays
from fl_dp.federation.wire.messages import plan_to_content, profile_from_content, reply_from_content
from fl_dp.form import Form
from fl_dp.models.build import build_model
from fl_dp.records import ClientProfile, LocalUpdate, Refusal, RoundPlan
from fl_dp.training.trainer import trainable_arrays

PLAN = RoundPlan("run-1", 1, "linear", 3, 64, 0.5, 0.0, 1.5, 1.0)
MODEL = build_model("linear", Form((1, 8, 8), 10), seed=1)


class Site:
    """Digits, a ledger and settings in a folder of its own."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        flat = {
            "client": "hospital", "ledger": str(folder / "ledger.sqlite"), "epsilon": 3.0,
            "partition-id": 0, "num-partitions": 2, "accountant": "rdp", "device": "cpu", **settings,
        }  # fmt: skip
        self.file = folder / "client.toml"
        self.file.write_text(tomli_w.dumps(flat))
        self.config = ClientConfig.from_toml(self.file)

    def call(self, kind: str, content: RecordDict) -> RecordDict:
        context = Context(1, 11, {"client-config": str(self.file)}, RecordDict(), {})
        return app(Message(content, 11, kind), context).content

    def register(self) -> ClientProfile:
        found = profile_from_content(self.call("query", RecordDict()))
        assert isinstance(found, ClientProfile), found
        return found

    def train(self, plan: RoundPlan = PLAN) -> LocalUpdate | Refusal:
        content = plan_to_content(plan, encode(state_arrays(MODEL)))
        answer, problem = reply_from_content(self.call("train", content), specs(trainable_arrays(MODEL)))
        assert problem == ""
        return answer
