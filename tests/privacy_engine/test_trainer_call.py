"""HuggingFace's Trainer: what cannot be honoured is refused by name. tests/examples/test_loops.py trains."""

from types import SimpleNamespace

import pytest
import torch
from attached import small_batch, small_model
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
from transformers import Trainer, TrainingArguments

from fl_dp import make_trainer_private
from fl_dp.errors import ConfigError

RECORDS = 24


class Answers(nn.Module):
    """Takes its inputs by name, as models of transformers do."""

    def __init__(self):
        super().__init__()
        self.net = small_model()

    main_input_name = "x"

    def num_parameters(self, exclude_embeddings):
        return 1

    def forward(self, x, labels=None):
        logits = self.net(x)
        return (
            {"logits": logits}
            if labels is None
            else {"loss": F.cross_entropy(logits, labels), "logits": logits}
        )


def losses_of(model, batch):
    return F.cross_entropy(model(batch["x"])["logits"], batch["labels"], reduction="none")


def trainer_of(folder, trainer=Trainer, **arguments):
    x, y = small_batch(RECORDS)
    rows = [
        {"x": one, "labels": int(label), "name": "not for the model"} for one, label in zip(x, y, strict=True)
    ]
    usual = {
        "max_grad_norm": 0,
        "use_cpu": True,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
    }
    args = TrainingArguments(
        output_dir=str(folder), per_device_train_batch_size=6, **{"max_steps": 6, **usual, **arguments}
    )
    return trainer(Answers(), args, train_dataset=rows, eval_dataset=rows)


def private(trainer, **options):
    return make_trainer_private(
        trainer, **{"losses_of": losses_of, "max_grad_norm": 1.0, "noise_multiplier": 1.0, **options}
    )


REFUSED = {
    "max_grad_norm": (1.0, "set it to 0"),
    "gradient_accumulation_steps": (4, "physical_batch_size"),
    "fp16": (True, "bf16=True"),
    "auto_find_batch_size": (True, "physical_batch_size"),
    "include_num_input_tokens_seen": ("all", "raw data"),
    "skip_memory_metrics": (False, "raw data"),
    "label_smoothing_factor": (0.1, "losses_of"),
    "train_sampling_strategy": ("group_by_length", "Poisson"),
    "_n_gpu": (2, "CUDA_VISIBLE_DEVICES"),
    "dataloader_drop_last": (True, "has nothing to drop"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_honoured_is_refused_by_name(name, tmp_path):
    value, instead = REFUSED[name]
    trainer = trainer_of(tmp_path)
    object.__setattr__(trainer.args, name, value)
    with pytest.raises(ConfigError, match=f"{name.removeprefix('_').removeprefix('dataloader_')}.*{instead}"):
        private(trainer)


def test_a_loss_function_of_the_trainer_is_refused(tmp_path):
    trainer = trainer_of(tmp_path)
    trainer.compute_loss_func = lambda outputs, labels, **more: None
    with pytest.raises(ConfigError, match="compute_loss_func"):
        private(trainer)


def test_a_sampler_of_the_users_is_refused(tmp_path):
    class Weighing(Trainer):
        def get_train_dataloader(self):
            sampler = torch.utils.data.WeightedRandomSampler([1.0] * RECORDS, RECORDS)
            return DataLoader(TensorDataset(*small_batch(RECORDS)), 6, sampler=sampler)

    with pytest.raises(ConfigError, match="WeightedRandomSampler would not draw"):
        private(trainer_of(tmp_path, Weighing))


@pytest.mark.parametrize(
    ("arguments", "epochs"), [({"max_steps": 6}, 1.5), ({"max_steps": -1, "num_train_epochs": 2}, 2)]
)
def test_the_trainer_s_length_is_what_the_noise_is_calibrated_for(tmp_path, arguments, epochs):
    engine = private(trainer_of(tmp_path, **arguments), noise_multiplier=None, target_epsilon=3.0)
    steps = round(epochs * RECORDS / 6)
    assert 2.9 < engine.get_privacy_spent(steps=steps).epsilon <= 3.0


def test_it_trains_evaluates_and_logs_no_loss_of_training(tmp_path):
    trainer = trainer_of(tmp_path, eval_strategy="steps", eval_steps=3, logging_steps=1)
    sizes = []

    def losses(model, batch):
        sizes.append(len(batch["x"]))
        return losses_of(model, batch)

    engine = private(trainer, losses_of=losses, physical_batch_size=2, check_every=10**9)
    trainer.train()
    logs = trainer.state.log_history
    assert (engine.steps, trainer.state.global_step) == (6, 6)
    assert all(row["loss"] != row["loss"] and row["grad_norm"] == 0 for row in logs if "loss" in row)
    assert all(row["eval_loss"] > 0 for row in logs if "eval_loss" in row)
    assert engine.get_privacy_spent().assumed == ()
    assert max(sizes[-3:]) <= 2  # of the last step's passes
    assert trainer.state.total_flos == 0


def test_a_run_that_goes_on_within_an_epoch_counts_the_steps_before_and_draws_anew(tmp_path):
    first = trainer_of(tmp_path, save_strategy="steps", save_steps=3)
    private(first)
    first.train()
    trainer = trainer_of(tmp_path)
    engine = private(trainer)
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert (engine.steps, trainer.state.global_step) == (6, 6)
    assert [one.name for one in engine.get_privacy_spent().assumed] == ["continued"]


def test_a_checkpoint_without_a_count_is_not_gone_on_from(tmp_path):
    trainer = trainer_of(tmp_path)
    engine = private(trainer)
    trainer.state = SimpleNamespace(global_step=3)
    trainer.model.train()
    with pytest.raises(
        ConfigError, match=r"after step 3, but its checkpoint counts 0 private steps.*save_only_model"
    ):
        trainer.compute_loss(trainer.model, next(iter(trainer.get_train_dataloader())))
    assert engine.steps == 0
