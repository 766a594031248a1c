"""The server's config of a run, in Flower's flat format: what is trained, and what clients are asked for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from fl_dp.choices import LOCAL_ALGORITHMS, METRICS, TRACKERS
from fl_dp.config.dependent import dependent_values
from fl_dp.config.flat import Scalar, number_in
from fl_dp.config.inline import inline_table, without_momentum
from fl_dp.config.run_settings import (
    AVERAGE,
    BEST,
    BY_NOISE,
    DECLARED,
    LAST,
    UNIFORM,
    RunSettings,
)
from fl_dp.config.schedule import check_schedule
from fl_dp.config.secure import SECURE, Fitting, members_of, require_fitting, require_secure
from fl_dp.config.setting import abouts_of
from fl_dp.config.values import key_of
from fl_dp.records import MOST_PULL


@dataclass(frozen=True, kw_only=True)
class RunConfig(RunSettings):
    """One run, as the server's operator requests it.

    It takes the keys of docs/keys.md by name, with `_` for `-`; `fl-dp keys` says what each means.

    Raises:
        ConfigError: A setting out of its range, or two that exclude each other.

    Example:
        >>> import fl_dp
        >>> config = fl_dp.RunConfig(clients=10, fit_clients=5, epsilon=3.0)
        >>> config.private, config.to_flat()["fit-clients"]
        (True, 5)
    """

    @classmethod
    def from_flat(cls, flat: Mapping[str, Any]) -> Self:
        """As `FlatConfig.from_flat`; missing keys may depend on those in `flat`: see `dependent.py`."""
        return super().from_flat({**dependent_values(cls().to_flat(), flat), **flat})

    @property
    def private(self) -> bool:
        """Whether clients train with differential privacy: always, unless privacy = "off"."""
        return self.privacy == "on"

    @property
    def server_evaluates(self) -> bool:
        """Whether the server measures its model. With `personal` it lacks part of the trained weights."""
        return self.evaluate == "server" and not self.personal

    @property
    def secure(self) -> bool:
        """Whether clients contribute to secure sums, whose parts nobody sees alone."""
        return self.aggregation.partition(":")[0] == SECURE

    @property
    def secure_dropouts(self) -> int:
        """D: the members of a secure sum that may drop out; more need more noise in each share."""
        return members_of(self.aggregation)[0] if self.secure else 0

    @property
    def secure_colluders(self) -> int:
        """C: the members that may collude with the server; the noise suffices without theirs."""
        return members_of(self.aggregation)[1] if self.secure else 1

    @property
    def algorithm(self) -> str:
        """The local algorithm's name, without `pull`."""
        return self.local_algorithm.partition(":")[0]

    @property
    def pull(self) -> float:
        """How strongly the local algorithm pulls clients to the common model; 0 where it is left out."""
        _, _, pull = self.local_algorithm.partition(":")
        wanted = f"{self.algorithm}:PULL, a number from 0 to {MOST_PULL:g}"
        return number_in("local-algorithm", self.local_algorithm, pull or "0", 0, MOST_PULL, wanted)

    @property
    def momentum(self) -> float:
        """Of the clients' sgd; a plan has a field for it. Other optimizers' stays in `other_settings`."""
        return self._momentum_apart[0]

    @property
    def other_settings(self) -> str:
        """The clients' `optimizer_settings`, without the momentum of sgd."""
        return self._momentum_apart[1]

    @property
    def _momentum_apart(self) -> tuple[float, str]:
        text = self.optimizer_settings
        return without_momentum("optimizer-settings", text) if self.optimizer == "sgd" else (0.0, text)

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Metrics to report on the test data; empty: those of the task."""
        return tuple(name for word in self.metrics.split(",") if (name := word.strip()))

    @property
    def track_names(self) -> tuple[str, ...]:
        """Trackers that the server sends each round to, without duplicates; clients do not see them."""
        return tuple(dict.fromkeys(name for word in self.track.split(",") if (name := word.strip())))

    def __post_init__(self) -> None:
        super().__post_init__()
        at_most = f"at most clients = {self.clients}"
        self._require("min-clients", self.min_clients <= self.clients, at_most)
        self._require("fit-clients", self.fit_clients <= self.clients, at_most)
        if isinstance(self.physical_batch_size, int):
            self._require(
                "expected-batch-size",
                self.expected_batch_size % self.physical_batch_size == 0,
                f"a multiple of physical-batch-size = {self.physical_batch_size}",
            )
        for name in self.metric_names:
            METRICS.check(name, "metrics")
        if isinstance(self.participations, int):
            self._require(
                "participations",
                self.participations <= self.rounds,
                f"auto, 0 for every round, or an integer up to rounds = {self.rounds}",
            )
        if isinstance(self.min_updates, int):
            self._require(
                "min-updates",
                self.min_updates <= self.fit_clients,
                f"auto, or an integer from 1 to fit-clients = {self.fit_clients}",
            )
        for name in self.track_names:
            TRACKERS.check(name)
        check_schedule("learning-rate-schedule", self.learning_rate_schedule, self.learning_rate, self.rounds)
        inline_table("optimizer-settings", self.optimizer_settings)
        LOCAL_ALGORITHMS.check_built_in(self.algorithm, "an algorithm that all sites have")
        _ = self.momentum, self.pull, self.secure_dropouts  # raise for wrong arguments
        if self.secure:
            require_secure(self.to_flat(), self.fit_clients - self.secure_dropouts)
        if self.site_metrics:
            _require_site_metrics(self.to_flat())
        self._check_features(self.arithmetic)
        self._require(
            "weights",
            self.private or self.weights != BY_NOISE,
            f"{DECLARED} or {UNIFORM} with privacy = off, as there is no noise",
        )
        self._require(
            "keep-model",
            self.keep_model != BEST or self.server_evaluates,
            f"{LAST} or {AVERAGE}, as the server measures no model",
        )


def _require_site_metrics(flat: Mapping[str, Scalar]) -> None:
    """Raise ConfigError for a setting with which the sites' metrics would be wrong or not paid for."""
    fitting: Fitting = {
        "privacy": (("on",), "on, as metrics are noised and paid for"),
        "personal": (("",), "no value, as sites then have no common model to evaluate"),
        "strategy": (("",), "no value, as fl_dp itself asks for the metrics"),
    }
    require_fitting(flat, fitting, "with site-metrics")


_ABOUTS = {key_of(name): about for name, about in abouts_of(RunConfig).items()}
MAY_CHANGE = frozenset(key for key, about in _ABOUTS.items() if about.may_change)
PATHS = frozenset(key for key, about in _ABOUTS.items() if about.path)
