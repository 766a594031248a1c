"""A client like those of Flower's PyTorch quickstart, which pays from this site's ledger."""

import torch
import torch.nn.functional as F
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from torch import Tensor
from torch.utils.data import DataLoader

from digits_app import task
from fl_dp import Ledger, PrivacyEngine

app = ClientApp(mods=[task.own_words])


@app.train()
def train(msg: Message, context: Context) -> Message:
    model, dataset = task.model_of(msg), task.train_data(context)
    optimizer = torch.optim.SGD(model.parameters(), lr=float(context.run_config["learning-rate"]))
    loader = DataLoader(dataset, batch_size=64, shuffle=True)

    def losses(x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(model(x), y, reduction="none")

    account = Ledger.open().account(task.name_of(context), records=dataset, epsilon=3.0)
    step = {"batch_size": 64, "sample_size": account.size, "noise_multiplier": 2.0, "max_grad_norm": 1.0}
    engine = PrivacyEngine(model, losses_of=losses, account=account, run=f"flower {context.run_id}", **step)
    loader = engine.attach(optimizer, loader=loader)
    for _ in range(int(context.run_config["local-epochs"])):
        for x, y in loader:
            loss = engine.loss(x, y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    return task.reply(msg, {"epsilon": account.spent().epsilon, "num-examples": account.size}, model)


@app.evaluate()
def evaluate(msg: Message, context: Context) -> Message:
    return task.reply(msg, task.measured(task.model_of(msg), task.public_data()))
