"""The model on several devices of one machine, which take the passes of a step in turn.

Each pass's sum comes to the first device, where all are added in the order of the passes. So the result has
the same bits for any number of devices, if a row has the same bits on each. With one record more, later ones
move to other passes and so to other devices; so this is compared before anything is paid (`steady_rows.py`).

A device waits only for what it needs: passes are queued, and run at the same time. Random masks that a GPU
draws come from its own generator, keyed by the step and the device's place: another number of GPUs draws
other masks.
"""

from collections.abc import Sequence

import torch

from fl_dp.training.passes import Passes


class Replicas:
    """first: the passes of the model that is trained. devices: of its copies; may be none."""

    def __init__(self, first: Passes, devices: Sequence[torch.device]) -> None:
        self.all = (first, *(first.on(device) for device in devices))

    @property
    def copies(self) -> Sequence[Passes]:
        return self.all[1:]

    @property
    def devices(self) -> Sequence[torch.device]:
        return [one.device for one in self.all]

    def of_pass(self, number: int) -> Passes:
        """The model that takes the pass of that number in a step."""
        return self.all[number % len(self.all)]

    @torch.no_grad()
    def follow(self) -> None:
        """Give all copies the first one's parameters, buffers and kernels."""
        first = self.all[0]
        for one in self.copies:
            one.chooser = first.chooser
            for mine, given in zip(one.state.values(), first.state.values(), strict=True):
                mine.copy_(given, non_blocking=True)

    def as_before(self) -> None:
        """As `Passes.as_before`, for all of them."""
        for one in self.all:
            one.as_before()
