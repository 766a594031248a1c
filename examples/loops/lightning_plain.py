"""A Lightning module with automatic optimization, a schedule, and checkpoints from which it goes on."""

import sys

import lightning
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

RECORDS, EPOCHS, BATCH = 2000, 4, 200


class Classifier(lightning.LightningModule):
    def __init__(self, records, public):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Dropout(0.1), nn.Linear(32, 2))
        self.loader, self.public = DataLoader(records, batch_size=BATCH, shuffle=True), public

    def training_step(self, batch, number):
        x, y = batch
        return F.cross_entropy(self.net(x), y)

    def validation_step(self, batch, number):
        x, y = batch
        self.log("accuracy", (self.net(x).argmax(1) == y).float().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.net.parameters(), lr=0.02)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, EPOCHS * len(self.loader))
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]

    def train_dataloader(self):
        return self.loader

    def val_dataloader(self):
        return DataLoader(self.public, batch_size=BATCH)


def setting():
    torch.manual_seed(0)
    inputs = torch.randn(RECORDS + 200, 20)
    records = TensorDataset(inputs, (inputs.sum(1) > 0).long())
    return Classifier(TensorDataset(*records[:RECORDS]), TensorDataset(*records[RECORDS:]))


def main(folder, resume=False):
    module = setting()
    trainer = lightning.Trainer(
        max_epochs=EPOCHS,
        precision="bf16-mixed",
        default_root_dir=folder,
        callbacks=[ModelCheckpoint(folder, "last", enable_version_counter=False)],
        log_every_n_steps=5,
    )
    trainer.fit(module, ckpt_path=f"{folder}/last.ckpt" if resume else None)
    print(trainer.validate(module))


if __name__ == "__main__":
    main(sys.argv[1], resume="resume" in sys.argv)
