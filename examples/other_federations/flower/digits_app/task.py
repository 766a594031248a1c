"""What both clients and the server share: the model, the records, and what a client answers."""

import logging
from collections.abc import Callable

import torch
import torch.nn.functional as F
from flwr.app import ArrayRecord, Context, Error, Message, MetricRecord, RecordDict
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from fl_dp.errors import BudgetExhaustedError, DeclinedError

PUBLIC = 397  # of the 1,797 digits: the test rows that everybody has
FAILED = 1  # the code of an error reply; Flower's own are its ErrorCode


class Net(nn.Sequential):
    """64 pixels, 32 hidden units, 10 classes."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))


def train_data(context: Context) -> TensorDataset:
    """This site's records. Nothing is fitted to them: pixels have a public scale."""
    site, sites = int(context.node_config["partition-id"]), int(context.node_config["num-partitions"])
    inputs, targets = _digits()
    return TensorDataset(inputs[PUBLIC + site :: sites], targets[PUBLIC + site :: sites])


def name_of(context: Context) -> str:
    """Of this site's records, in its ledger."""
    return f"digits of site {context.node_config['partition-id']}"


def public_data() -> TensorDataset:
    """Test rows that are no site's secret."""
    inputs, targets = _digits()
    return TensorDataset(inputs[:PUBLIC], targets[:PUBLIC])


def _digits() -> tuple[Tensor, Tensor]:
    digits = load_digits()
    return torch.tensor((digits.data / 16).tolist()), torch.tensor(digits.target)


def model_of(msg: Message) -> Net:
    """The model with the weights that the server sent."""
    model = Net()
    model.load_state_dict(msg.content.array_records["arrays"].to_torch_state_dict())
    return model


def measured(model: nn.Module, data: TensorDataset) -> dict[str, float]:
    inputs, targets = data.tensors
    with torch.no_grad():
        outputs = model(inputs)
    return {
        "eval_loss": F.cross_entropy(outputs, targets).item(),
        "eval_acc": (outputs.argmax(dim=1) == targets).double().mean().item(),
        "num-examples": len(data),
    }


def reply(msg: Message, metrics: dict[str, float], model: nn.Module | None = None) -> Message:
    content = RecordDict({"metrics": MetricRecord(metrics)})
    if model is not None:
        content["arrays"] = ArrayRecord(model.state_dict())
    return Message(content, reply_to=msg)


def own_words(msg: Message, context: Context, call_next: Callable[[Message, Context], Message]) -> Message:
    """A mod: Flower sends the text of any error to the server, and an error of PyTorch or pandas may quote a
    record. Only a budget's end is told; anything else stays in this site's log.
    """
    try:
        return call_next(msg, context)
    except (BudgetExhaustedError, DeclinedError) as error:
        return Message(Error(FAILED, str(error)), reply_to=msg)
    except Exception:
        logging.getLogger(__name__).exception("this round failed")
        return Message(Error(FAILED, "failed; the site's log says why"), reply_to=msg)
