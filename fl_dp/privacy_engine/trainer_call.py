"""HuggingFace's Trainer, made private by one call. transformers itself is not imported.

The Trainer also counts operations, and writes the count to each checkpoint. The count would reveal the sizes
of the draws, so it is 0 here.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader

from fl_dp.engine.bounds import Bounds
from fl_dp.errors import ConfigError
from fl_dp.privacy_engine.draw_loader import KEPT
from fl_dp.privacy_engine.engine import PrivacyEngine

# An argument of the Trainer -> the values that can be honoured, and what to do instead of others.
_HONOURED: dict[str, tuple[tuple[Any, ...], str]] = {
    "max_grad_norm": ((0, None), "set it to 0: it would clip noisy sums; make_trainer_private has its own"),
    "gradient_accumulation_steps": (
        (1,),
        "per_device_train_batch_size is the mean size of a draw; "
        "make_trainer_private(physical_batch_size=...) cuts it into passes, which saves the memory",
    ),
    "fp16": ((False,), "a private step takes no scaled loss; use bf16=True"),
    "auto_find_batch_size": ((False,), "the price of a step is fixed; set physical_batch_size"),
    "include_num_input_tokens_seen": (("no", False), "it would write the draws' size, which is raw data"),
    "skip_memory_metrics": ((True,), "memory shows the draws' size, which is raw data"),
    "label_smoothing_factor": ((0,), "smooth the labels in losses_of"),
    "train_sampling_strategy": (("random", "sequential"), "epsilon is that of Poisson draws"),
    "n_gpu": ((0, 1), "one device trains; set CUDA_VISIBLE_DEVICES"),
}


def make_trainer_private(
    trainer: Any,
    *,
    losses_of: Callable[[Any, Any], Tensor],
    max_grad_norm: Bounds,
    physical_batch_size: int | None = None,
    **options: Any,
) -> PrivacyEngine:
    """Make a `transformers.Trainer` train privately; call it before `trainer.train()`.

    The trainer's batch size becomes the mean size of a Poisson draw, and its epochs or `max_steps` are what
    `target_epsilon` pays for. Evaluation stays as it is: do it on public records. In logs and checkpoints the
    training loss is NaN, and `grad_norm` and `total_flos` are 0. `ignore_data_skip` is set: a resumed run
    makes new draws. The optimizer's state in a checkpoint includes the number of steps.

    Args:
        trainer: With `max_grad_norm=0` in its arguments. Its own `compute_loss` still evaluates.
        losses_of: Makes the losses (N,) of the trainer's model and a batch, as the collator gives it. Call
            the model without labels: with them it also returns a mean, in which examples mix.
        max_grad_norm: The clipping bound of each example.
        physical_batch_size: The most records in a pass; None for the trainer's batch size.
        options: What else `PrivacyEngine` takes, such as `target_epsilon` or `noise_multiplier`.

    Returns:
        The engine, whose `get_privacy_spent()` gives epsilon.

    Raises:
        ConfigError: An argument of the trainer that cannot be honoured, by name; and what `PrivacyEngine`
            and `attach` refuse.

    Example:
        >>> import fl_dp
        >>> def losses_of(model, batch):
        ...     logits = model(batch["input_ids"], batch["attention_mask"]).logits
        ...     return torch.nn.functional.cross_entropy(logits, batch["labels"], reduction="none")
        >>> def train(trainer):  # a transformers.Trainer
        ...     engine = fl_dp.make_trainer_private(
        ...         trainer, losses_of=losses_of, max_grad_norm=1.0, target_epsilon=3.0
        ...     )
        ...     trainer.train()
        ...     print(engine.get_privacy_spent())
    """
    for name, (values, instead) in _HONOURED.items():
        if (value := getattr(trainer.args, name, values[0])) not in values:
            raise ConfigError(f"The trainer's {name}={value!r} cannot be honoured: {instead}.")
    if trainer.compute_loss_func is not None:
        raise ConfigError(
            "The trainer's compute_loss_func sees means over a batch; losses_of takes its place."
        )
    args, size = trainer.args, len(trainer.train_dataset)
    steps = args.max_steps if args.max_steps > 0 else None
    engine = PrivacyEngine(
        trainer.model,
        losses_of=lambda batch: losses_of(trainer.model, batch),
        batch_size=args.train_batch_size,
        sample_size=size,
        epochs=steps * args.train_batch_size / size if steps else args.num_train_epochs,
        max_grad_norm=max_grad_norm,
        **options,
    )
    draws = engine.attach(
        trainer.create_optimizer(), loader=_as_made(trainer), physical_batch_size=physical_batch_size
    )
    evaluated = trainer.compute_loss

    def compute_loss(model: Any, inputs: Any, return_outputs: bool = False, **more: Any) -> Any:
        if not model.training:
            return evaluated(model, inputs, return_outputs=return_outputs, **more)
        if (before := trainer.state.global_step) > engine.steps:
            raise ConfigError(
                f"The trainer went on after step {before}, but its checkpoint counts {engine.steps} private "
                "steps: epsilon would be too small. A checkpoint needs its optimizer (save_only_model=False)."
            )
        return engine.loss(inputs)

    trainer.get_train_dataloader, trainer.compute_loss = lambda: draws, compute_loss
    trainer.floating_point_ops = lambda inputs: 0
    args.ignore_data_skip, args.logging_nan_inf_filter = True, False
    return engine


def _as_made(trainer: Any) -> DataLoader[Any]:
    """The trainer's loader, with its columns removed, as it was before accelerate wrapped it."""
    wrapped = trainer.get_train_dataloader()
    batches = wrapped.batch_sampler
    is_random = type(batches.sampler).__name__ == "SeedableRandomSampler"  # accelerate's RandomSampler
    return DataLoader(
        wrapped.dataset,
        batch_size=batches.batch_size,
        sampler=None if is_random else batches.sampler,
        drop_last=batches.drop_last,
        **{name: getattr(wrapped, name) for name in KEPT},
    )
