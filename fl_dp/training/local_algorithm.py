"""What a client does besides descending along its noised gradients: the interface of `local_algorithms.py`.

An algorithm sees only received weights and gradients with noise. So all it does is post-processing, and costs
no privacy.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor

from fl_dp.choices import LOCAL_ALGORITHMS
from fl_dp.errors import ConfigError
from fl_dp.models.patterns import chosen
from fl_dp.records import RoundPlan

Arrays = Mapping[str, Tensor]
Sums = Sequence[Tensor | None]


class LocalAlgorithm:
    """One for each client and round. `FedAvg` is this class itself: it adds nothing to the gradients.

    pulled: whether it pulls to other weights, as strongly as `pull` says. keeps_model: whether a client's
    rounds continue from its own model.

    parameters: the trained ones, by name; their values are not used before `begin`. personal: the names of
    those that never leave the client; shared: of all others.
    """

    pulled: ClassVar[bool] = False
    keeps_model: ClassVar[bool] = False

    def __init__(self, plan: RoundPlan, parameters: Arrays) -> None:
        self.parameters = {name: parameter.detach() for name, parameter in parameters.items()}
        self.pull = plan.pull
        self.personal = personal_names(plan.personal, tuple(parameters))
        self.shared = tuple(name for name in parameters if name not in self.personal)

    @property
    def own(self) -> frozenset[str]:
        """The names of the parameters that continue from the client's last round."""
        return frozenset(self.parameters) if self.keeps_model else self.personal

    @torch.no_grad()
    def begin(self, start: Arrays, kept: Arrays) -> None:
        """Let the round begin. The model holds the global weights before, and its own ones afterwards.

        start: the received arrays, by name; they are not changed. kept: what `kept` gave after the client's
        last round; empty if there was none.
        """
        for name in self.own & kept.keys():
            self.parameters[name].copy_(kept[name])

    def corrected(self, sums: Sums, divisor: float) -> Sums:
        """What a step descends along. sums: its noised gradients, in the order of the parameters.

        divisor: turns the sums into means; whatever is added to the sums is multiplied by it. None: the
        parameter has no gradient in any step.
        """
        return sums

    def kept(self) -> dict[str, Tensor]:
        """After the last step: what the client's next round continues from."""
        return {name: self.parameters[name].clone() for name in sorted(self.own)}

    def update(self) -> dict[str, Tensor]:
        """All that leaves the client, by name: its shared parameters, which share the model's memory."""
        return {name: self.parameters[name] for name in self.shared}

    def pulled_to(self, anchor: Arrays, sums: Sums, divisor: float) -> Sums:
        """The sums, plus `pull` times the difference between each shared parameter and `anchor`."""
        return [
            total
            if total is None or name not in self.shared
            else total + divisor * self.pull * (parameter - anchor[name])
            for total, (name, parameter) in zip(sums, self.parameters.items(), strict=True)
        ]


def algorithm_class(name: str) -> type[LocalAlgorithm]:
    """The class of that name, from `local_algorithms.py`; ConfigError for an unknown one."""
    kind = LOCAL_ALGORITHMS.load(name, type)
    if not issubclass(kind, LocalAlgorithm):
        raise ConfigError(f"local-algorithm = {name!r}: {kind.__name__} is not a subclass of LocalAlgorithm.")
    return kind


def algorithm_of(plan: RoundPlan, parameters: Arrays) -> LocalAlgorithm:
    """A new algorithm for one round of that plan."""
    return algorithm_class(plan.local_algorithm)(plan, parameters)


def has_own_models(algorithm: str, personal: str) -> bool:
    """Whether sites keep parameters of their own; if not, all clients' steps begin at the global weights."""
    return bool(personal) or algorithm_class(algorithm).keeps_model


@lru_cache(maxsize=8)
def personal_names(patterns: str, names: tuple[str, ...]) -> frozenset[str]:
    """Those of the trained parameters that never leave a client; ConfigError if no other one is left."""
    if not patterns:
        return frozenset()
    found = chosen("personal", patterns, names, "trained parameter")
    if len(found) == len(names):
        raise ConfigError(
            f"personal = {patterns!r}: leaves no parameter that is shared; for a model of its own at each "
            "site see local-algorithm = mr-mtl."
        )
    return found


def check_algorithm(value: str, pull: float, learning_rate: float, optimizer: str) -> None:
    """ConfigError for NAME:PULL with a pull that the algorithm does not have, or that would overshoot."""
    kind = algorithm_class(value)
    LOCAL_ALGORITHMS.argument(value, "PULL" if kind.pulled else None, optional=kind.keeps_model)
    if kind.pulled and not pull and not kind.keeps_model:
        raise ConfigError(f"local-algorithm = {value!r}: without a pull this is fedavg; name a pull above 0.")
    if optimizer == "sgd" and pull * learning_rate > 1:
        raise ConfigError(
            f"local-algorithm = {value!r}: the pull times learning-rate = {learning_rate:g} is above 1, "
            "so a step would go beyond the global weights that it pulls to; expected a pull of at most "
            f"{1 / learning_rate:g}."
        )
