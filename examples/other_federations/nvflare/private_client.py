"""A client like NVFlare's hello-dp, which pays from this site's ledger."""

import nvflare.client as flare
import torch
import torch.nn.functional as F
from records import TabularMLP, measured, public_data, train_data
from torch import Tensor
from torch.utils.data import DataLoader

from fl_dp import Ledger, PrivacyEngine


def main() -> None:
    flare.init()
    site = flare.get_site_name()
    model, dataset = TabularMLP(), train_data(site)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loader = DataLoader(dataset, batch_size=64, shuffle=True)

    def losses(x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(model(x), y, reduction="none")

    account = Ledger.open().account(f"records of {site}", records=dataset, epsilon=3.0)
    step = {"batch_size": 64, "sample_size": account.size, "noise_multiplier": 2.0, "max_grad_norm": 1.0}
    engine = PrivacyEngine(model, losses_of=losses, account=account, run=flare.get_job_id(), **step)
    loader = engine.attach(optimizer, loader=loader)
    while flare.is_running():
        received = flare.receive()
        model.load_state_dict(received.params)
        metrics = measured(model, public_data())
        for x, y in loader:
            loss = engine.loss(x, y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        metrics["epsilon"] = account.spent().epsilon
        result = flare.FLModel(params=model.state_dict(), metrics=metrics)
        result.meta = {"NUM_STEPS_CURRENT_ROUND": len(loader)}
        flare.send(result)


if __name__ == "__main__":
    main()
