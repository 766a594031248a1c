"""A loop with accelerate: mixed precision, clipping, a schedule, and checkpoints from which it goes on."""

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

RECORDS, EPOCHS, BATCH = 2000, 4, 200


def setting():
    torch.manual_seed(0)
    inputs = torch.randn(RECORDS + 200, 20)
    records = TensorDataset(inputs, (inputs.sum(1) > 0).long())
    model = nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Dropout(0.1), nn.Linear(32, 2))
    return model, TensorDataset(*records[:RECORDS]), TensorDataset(*records[RECORDS:])


def main(folder, resume=False):
    accelerator = Accelerator(mixed_precision="bf16", project_dir=folder)
    model, records, public = setting()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    loader = DataLoader(records, batch_size=BATCH, shuffle=True)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, EPOCHS * len(loader))
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    epochs = range(EPOCHS)
    if resume:
        accelerator.load_state(f"{folder}/state")
        epochs = range(int(Path(folder, "epochs").read_text()), EPOCHS)
    for epoch in epochs:
        model.train()
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            x, y = (part.to(accelerator.device) for part in public.tensors)
            accelerator.print(f"epoch {epoch}: accuracy {(model(x).argmax(1) == y).float().mean():.3f}")
        accelerator.save_state(f"{folder}/state")
        Path(folder, "epochs").write_text(str(epoch + 1))


if __name__ == "__main__":
    main(sys.argv[1], resume="resume" in sys.argv)
