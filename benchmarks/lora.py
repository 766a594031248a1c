"""What LoRA under DP-SGD costs over plain LoRA: `python -m benchmarks.lora`.

ViT-tiny of timm with random weights, images as CIFAR-10's in patches of 4x4, frozen but for adapters on the
attention's qkv and the head; one thread, steps taken in turns. The peak is of a process of its own, less what
model and data take. Needs the packages timm and peft.
"""

import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import torch
from torch import nn

from fl_dp.engine.clipping import clipped_grad_sum
from fl_dp.engine.kernel_choice.chooser import KernelChooser
from fl_dp.models.lora import with_lora
from fl_dp.models.trainable import choose_trainable

RANK, BATCH, PATCH, TURNS = 8, 32, 4, 5
KINDS = "plain", "private"


def vit() -> nn.Module:
    """ViT-tiny with adapters; all else is frozen but the head."""
    import timm

    model: nn.Module = timm.create_model(
        "vit_tiny_patch16_224", pretrained=False, num_classes=10, img_size=32, patch_size=PATCH
    )
    model = with_lora(model, RANK, "*.attn.qkv")
    choose_trainable(model, "head.*", adapters=True)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(parameter, std=0.02)  # at zero, as they start, some gradients are zero
    return model.train()


def seconds() -> dict[str, float]:
    """The median step of each kind."""
    model = vit()
    kinds = {kind: step_of(kind, model) for kind in KINDS}
    for step in kinds.values():
        step()
        step()
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(TURNS):
        for name, step in kinds.items():
            start = time.process_time()  # of this process alone: others do not count
            step()
            times[name].append(time.process_time() - start)
    return {name: statistics.median(found) for name, found in times.items()}


def peak_mib(kind: str) -> float:
    """How far two steps of that kind raise a process' peak."""
    torch.set_num_threads(1)
    step = step_of(kind, vit())
    before = _peak()
    step()
    step()
    return _peak() - before


def step_of(kind: str, model: nn.Module) -> Callable[[], object]:
    """A step without the optimizer's."""
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    inputs, labels = torch.randn(BATCH, 3, 32, 32), torch.randint(10, (BATCH,))
    chooser = KernelChooser()

    def step() -> object:
        losses = nn.functional.cross_entropy(model(inputs), labels, reduction="none")
        if kind == "plain":
            return torch.autograd.grad(losses.mean(), list(parameters.values()))
        return clipped_grad_sum(losses, parameters, max_grad_norm=1.0, chooser=chooser)

    return step


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    torch.set_num_threads(1)
    found = seconds()
    peaks = {}
    for kind in found:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
            peaks[kind] = alone.submit(peak_mib, kind).result()
    for kind in found:
        print(f"{kind:8} {found[kind]:7.3f} s a step  {peaks[kind]:7.0f} MiB")
    ratios = found["private"] / found["plain"], peaks["private"] / peaks["plain"]
    print(f"private / plain: time {ratios[0]:.2f} (to reach 1.3), memory {ratios[1]:.2f} (to reach 1.2)")


if __name__ == "__main__":
    main()
