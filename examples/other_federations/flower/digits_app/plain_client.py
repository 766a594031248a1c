"""A client like those of Flower's PyTorch quickstart: nothing is protected."""

import torch
import torch.nn.functional as F
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from torch import Tensor
from torch.utils.data import DataLoader

from digits_app import task

app = ClientApp()


@app.train()
def train(msg: Message, context: Context) -> Message:
    model, dataset = task.model_of(msg), task.train_data(context)
    optimizer = torch.optim.SGD(model.parameters(), lr=float(context.run_config["learning-rate"]))
    loader = DataLoader(dataset, batch_size=64, shuffle=True)

    def losses(x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(model(x), y, reduction="none")

    for _ in range(int(context.run_config["local-epochs"])):
        for x, y in loader:
            loss = losses(x, y).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    return task.reply(msg, {"train_loss": loss.item(), "num-examples": len(dataset)}, model)


@app.evaluate()
def evaluate(msg: Message, context: Context) -> Message:
    return task.reply(msg, task.measured(task.model_of(msg), task.train_data(context)))
