"""lightning_plain.py, private: epsilon 3 for each record."""

import sys

import lightning
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from fl_dp import PrivacyEngine

RECORDS, EPOCHS, BATCH = 2000, 4, 200
PRIVACY = {"sample_size": RECORDS, "epochs": EPOCHS, "max_grad_norm": 1.0, "target_epsilon": 3.0}


class Classifier(lightning.LightningModule):
    def __init__(self, records, public):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Dropout(0.1), nn.Linear(32, 2))
        self.loader, self.public = DataLoader(records, batch_size=BATCH, shuffle=True), public
        self.engine = PrivacyEngine(self.net, losses_of=self.losses, batch_size=BATCH, **PRIVACY)

    def losses(self, x, y):
        return F.cross_entropy(self.net(x), y, reduction="none")

    def training_step(self, batch, number):
        return self.engine.loss(*batch)

    def validation_step(self, batch, number):
        x, y = batch
        self.log("accuracy", (self.net(x).argmax(1) == y).float().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.net.parameters(), lr=0.02)
        self.loader = self.engine.attach(optimizer, loader=self.loader)
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
    print(trainer.validate(module), module.engine.get_privacy_spent())


if __name__ == "__main__":
    main(sys.argv[1], resume="resume" in sys.argv)
