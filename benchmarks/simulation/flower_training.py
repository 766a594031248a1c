"""What the clients of Flower's simulation train with: SGD, or Opacus' DP-SGD.

Apart from the command, so that Ray's actors import this by its name and do not unpickle it every time.
"""

from functools import cache

import torch
import torch.nn.functional as F
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.simulation.federation import (
    FEDERATIONS,
    LEARNING_RATE,
    MAX_GRAD_NORM,
    NOISE_MULTIPLIER,
    Federation,
)
from fl_dp.config.data import DataSettings
from fl_dp.data.source import data_of
from fl_dp.data.tensor_data import TensorData
from fl_dp.form import Form
from fl_dp.models.build import build_model

sgd, opacus = ClientApp(), ClientApp()


@sgd.train()
def _train_with_sgd(message: Message, context: Context) -> Message:
    federation, data, model = _prepare(message, context)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    for indices in torch.randperm(len(data)).split(federation.batch):
        _step(model, optimizer, *data.batch(indices))
    return _reply(message, ArrayRecord(model.state_dict()), len(data))


@opacus.train()
def _train_with_opacus(message: Message, context: Context) -> Message:
    from opacus import PrivacyEngine

    federation, data, model = _prepare(message, context)
    model.to(memory_format=torch.contiguous_format)  # Opacus gets channels-last convolutions wrong
    examples = TensorDataset(*data.batch(torch.arange(len(data))))
    private, optimizer, batches = PrivacyEngine(accountant="rdp").make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=LEARNING_RATE),
        data_loader=DataLoader(examples, batch_size=federation.batch),
        noise_multiplier=NOISE_MULTIPLIER,
        max_grad_norm=MAX_GRAD_NORM,
        poisson_sampling=True,
    )
    for inputs, labels in batches:
        _step(private, optimizer, inputs, labels)
    return _reply(message, ArrayRecord(model.state_dict()), len(data))


def _step(
    model: nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor, labels: torch.Tensor
) -> None:
    optimizer.zero_grad()
    F.cross_entropy(model(inputs), labels).backward()
    optimizer.step()


def _prepare(message: Message, context: Context) -> tuple[Federation, TensorData, nn.Module]:
    """The federation, this client's records, and the global model."""
    torch.set_num_threads(1)
    config: ConfigRecord = message.content.config_records["config"]
    federation = FEDERATIONS[str(config["federation"])]
    part = int(str(context.node_config["partition-id"]))
    model = build_model(federation.model, Form(federation.input_shape, federation.classes), seed=0)
    model.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
    return federation, _part(federation, str(config["data-root"]), part), model


@cache
def _part(federation: Federation, data_root: str, part: int) -> TensorData:
    """An equal share, drawn uniformly; kept for later rounds, 50 MB for all of FashionMNIST."""
    train = data_of(DataSettings(data=federation.data, data_root=data_root), "train")
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))
    size = len(train) // federation.clients
    return train.subset(order[part * size : (part + 1) * size])


def _reply(message: Message, arrays: ArrayRecord, examples: int) -> Message:
    content = RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": examples})})
    return Message(content, reply_to=message)
