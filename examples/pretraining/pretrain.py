"""Trains a model on public data WITHOUT PRIVACY, and writes the weights for a private run to start from.

    python pretrain.py --data npz:public.npz --model mlp:128 --out start.pt

--data, --data-root, --model and --task are named as in a run's config, so that the weights are those of its
model. No ledger knows of it: whoever names the data says that they are public.
"""

import argparse
import hashlib
from pathlib import Path

import torch

from fl_dp.config.task import TaskSettings
from fl_dp.tasks.load import new_model, task_of
from fl_dp.tasks.records import records_of


def main() -> None:
    asked = arguments()
    torch.manual_seed(asked.seed)
    settings = TaskSettings(
        data=asked.data, data_root=asked.data_root, model=asked.model, task=asked.task, seed=asked.seed
    )
    pretrain(settings, asked.out, asked.epochs, asked.batch_size, asked.learning_rate)
    digest = hashlib.sha256(asked.out.read_bytes()).hexdigest()
    print(f"{asked.out}: trained without privacy on {asked.data}; SHA-256 {digest}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--data-root", default="data")
    parser.add_argument("--model", required=True)
    parser.add_argument("--task", default="")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--epochs", default=30, type=int)
    parser.add_argument("--batch-size", default=64, type=int)
    parser.add_argument("--learning-rate", default=1e-3, type=float)
    parser.add_argument("--seed", default=0, type=int)
    return parser.parse_args()


def pretrain(settings: TaskSettings, out: Path, epochs: int, batch_size: int, learning_rate: float) -> None:
    """Adam over the task's training records, by the task's own losses."""
    task = task_of(settings)
    data = records_of(task, "train")
    if data is None:
        raise SystemExit(f"{settings.data}: has no training records.")
    model = new_model(task).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    for _ in range(epochs):
        for rows in torch.randperm(len(data)).split(batch_size):
            optimizer.zero_grad()
            task.objective.losses(model, data.batch(rows)).mean().backward()
            optimizer.step()
    torch.save(model.state_dict(), out)


if __name__ == "__main__":
    main()
