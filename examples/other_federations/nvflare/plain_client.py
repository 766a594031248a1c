"""A client like NVFlare's hello-world examples: nothing is protected."""

import nvflare.client as flare
import torch
import torch.nn.functional as F
from records import TabularMLP, measured, train_data
from torch import Tensor
from torch.utils.data import DataLoader


def main() -> None:
    flare.init()
    site = flare.get_site_name()
    model, dataset = TabularMLP(), train_data(site)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loader = DataLoader(dataset, batch_size=64, shuffle=True)

    def losses(x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(model(x), y, reduction="none")

    while flare.is_running():
        received = flare.receive()
        model.load_state_dict(received.params)
        metrics = measured(model, train_data(site))
        for x, y in loader:
            loss = losses(x, y).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        metrics["train_loss"] = loss.item()
        result = flare.FLModel(params=model.state_dict(), metrics=metrics)
        result.meta = {"NUM_STEPS_CURRENT_ROUND": len(loader)}
        flare.send(result)


if __name__ == "__main__":
    main()
