"""Secure sums under both views: the opened sum, and one member's own share if nothing hides it.

The canaries' client and other members, one for each share of the noise, train by the shipped code, each with
its share. The observer sees their sum, or the canaries' client's share alone. No masks are used: they hide
single shares (`federation/secure_sum`), and the second view assumes that they do not.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.audit.ways import Way
from fl_dp.config.client import ClientConfig
from fl_dp.data.persons import Examples
from fl_dp.engine.noise.grid import noise_grid
from fl_dp.federation.wire.arrays import NDArray
from fl_dp.records import Entry, LocalUpdate, RoundPlan
from fl_dp.tasks.task import Task

View = Literal["sum", "alone"]
MakeWay = Callable[[ClientConfig, Examples, Task, Ledger], Way]


def seen_entry(whole: Entry, view: View | None) -> Entry:
    """The noise that protects in that view: all shares, or the client's own. None: no secure sum."""
    return whole.alone() if view == "alone" else whole


def in_sums(make: MakeWay, view: View, others: Callable[[int], Examples]) -> MakeWay:
    """A way to train into secure sums. make: how each member trains; others: data of members 1, 2, ..."""
    return partial(_InSums, make, view, others)


class _InSums:
    """The server descends along what it sees, as after a round. The canaries are looked for in the result."""

    def __init__(
        self,
        make: MakeWay,
        view: View,
        others: Callable[[int], Examples],
        settings: ClientConfig,
        data: Examples,
        task: Task,
        ledger: Ledger,
    ) -> None:
        self._own, self._view = make(settings, data, task, ledger), view
        self._members: list[Way] = []

        def member(number: int) -> Way:
            name = f"member {number}"
            own = replace(settings, client=name, data_name=name)
            return make(own, others(number), task, ledger)

        self._member = member

    def train(self, plan: RoundPlan, weights: Mapping[str, NDArray]) -> LocalUpdate:
        update = self._own.train(plan, weights)
        total = {name: np.asarray(array, np.int64) for name, array in update.arrays.items()}
        for member in self._others(plan):
            for name, share in member.train(plan, weights).arrays.items():
                total[name] = total[name] + share
        multiplier = seen_entry(Entry(1.0, plan.noise_multiplier, 1, plan.shares), "alone").noise_multiplier
        spacing = noise_grid(plan.max_grad_norm, multiplier, sum(one.size for one in total.values())).spacing
        step = plan.learning_rate / plan.expected_batch_size * spacing
        arrays = {name: weights[name] - step * whole for name, whole in total.items()}
        return replace(
            update, arrays={name: array.astype(weights[name].dtype) for name, array in arrays.items()}
        )

    def _others(self, plan: RoundPlan) -> list[Way]:
        """The members whose shares complete the noise together with that of the canaries' client."""
        if self._view == "sum" and not self._members:
            self._members = [self._member(number) for number in range(1, plan.shares)]
        return self._members
