"""Averages the sites' weights, and ends when no site trains any more."""

from collections.abc import Iterable

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from digits_app.task import Net, measured, public_data

app = ServerApp()


class NobodyTrainsError(Exception):
    """No site has sent weights: their budgets are spent, or they failed."""


class UntilTheBudgetsEnd(FedAvg):
    """FedAvg, which would ask to the last round. arrays: the last average."""

    arrays: ArrayRecord

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        told = list(replies)
        if all(one.has_error() for one in told):
            reasons = sorted({str(one.error.reason) for one in told})
            raise NobodyTrainsError(f"Round {server_round}: no site trains any more. {' '.join(reasons)}")
        arrays, metrics = super().aggregate_train(server_round, told)
        if arrays is not None:
            self.arrays = arrays
        return arrays, metrics


@app.main()
def main(grid: Grid, context: Context) -> None:
    strategy = UntilTheBudgetsEnd()
    strategy.arrays = ArrayRecord(Net().state_dict())
    rounds = int(context.run_config["num-server-rounds"])
    try:
        strategy.start(grid=grid, initial_arrays=strategy.arrays, num_rounds=rounds)
    except NobodyTrainsError as end:
        print(end)
    model = Net()
    model.load_state_dict(strategy.arrays.to_torch_state_dict())
    print(f"accuracy {measured(model, public_data())['eval_acc']:.3f} on public test rows")
    torch.save(model.state_dict(), "final_model.pt")
