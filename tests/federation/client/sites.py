"""A client as it is shipped, asked as Flower asks it."""

from pathlib import Path
from typing import Any, ClassVar

import tomli_w
from flwr.app import Context, Message, RecordDict
from torch import nn

from fl_dp.config.client import ClientConfig
from fl_dp.federation.client.app import app
from fl_dp.federation.wire.arrays import encode, specs, state_arrays
from fl_dp.federation.wire.messages import plan_to_content, profile_from_content, reply_from_content
from fl_dp.form import Form
from fl_dp.models.build import build_model
from fl_dp.records import RoundPlan
from fl_dp.training.trainer import as_arrays, trainable

PLAN = RoundPlan("run-1", 1, "linear", 3, 64, 0.5, 0.0, 1.5, 1.0)
MODEL = build_model("linear", Form((1, 8, 8), 10), seed=1)


class Site:
    """Digits, a ledger and settings in a folder of its own; a node of a grid."""

    model: ClassVar[nn.Module] = MODEL

    def __init__(self, folder: Path, **settings: Any) -> None:
        flat = {
            "client": "hospital",
            "ledger": str(folder / "ledger.sqlite"),
            "epsilon": 3.0,
            "partition-id": 0,
            "num-partitions": 2,
            "accountant": "rdp",
            "device": "cpu",
            **settings,
        }
        self.file = folder / "client.toml"
        self.file.write_text(tomli_w.dumps(flat))

    @property
    def config(self) -> ClientConfig:
        return ClientConfig.from_toml(self.file)

    def __call__(self, message: Message) -> Message:
        return app(message, Context(1, 11, {"client-config": str(self.file)}, RecordDict(), {}))

    def call(self, kind: str, content: RecordDict) -> RecordDict:
        return self(Message(content, 11, kind)).content

    def register(self) -> Any:
        """Its profile, or its refusal."""
        return profile_from_content(self.call("query", RecordDict()))

    def train(
        self, plan: RoundPlan = PLAN, arrays: Any = None, model: nn.Module | None = None, expected: Any = None
    ) -> Any:
        """Its update, or its refusal. arrays: sent in the place of the model's; expected: back."""
        model = model or self.model
        content = plan_to_content(plan, encode(arrays or state_arrays(model)))
        back = specs(expected or as_arrays(trainable(model)))
        answer, problem = reply_from_content(self.call("train", content), back)
        assert problem == ""
        return answer
