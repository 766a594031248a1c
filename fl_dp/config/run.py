"""The server's settings of a run, in Flower's flat format: what is trained, what clients are asked for."""

from dataclasses import dataclass
from typing import Annotated

from fl_dp.choices import AGGREGATIONS, LOCAL_ALGORITHMS, METRICS, SERVER_OPTIMIZERS
from fl_dp.config.flat import (
    Auto,
    key_of,
    require,
    require_arithmetic,
    require_delta,
    require_own_accountant,
)
from fl_dp.config.inline import inline_table
from fl_dp.config.ranges import Clients, Examples, Mebibytes, Positive, Range, Rounds, Seconds
from fl_dp.config.schedule import check_schedule
from fl_dp.config.task import TaskSettings
from fl_dp.records import (
    ASSUMED,
    FLOAT32,
    LEAST_NOISE,
    MOST_NOISE,
    MOST_PULL,
    OPTIMIZER_STATES,
    PRECISIONS,
    RESET,
)

WEIGHTS = DECLARED, UNIFORM, BY_NOISE = ("declared", "uniform", "noise")
PRIVACY = ("on", "off")
EVALUATE = ("server", "off")
KEEP_MODEL = LAST, BEST = ("last", "best")
SAMPLINGS = _, POISSON, _ = ("fixed", "poisson", "budget")


@dataclass(frozen=True, kw_only=True)
class RunConfig(TaskSettings):
    """One run, as the server's operator asks for it. README.md explains every key."""

    # federation
    clients: Clients = 2
    min_clients: Clients = 2
    fit_clients: Clients = 2
    sampling: str = "fixed"
    rounds: Rounds = 3
    weights: str = "declared"
    max_weight: Annotated[float, Range(0, 1e6)] = 2.0
    min_updates: Clients | Auto = "auto"
    aggregation: str = "mean"
    malicious_clients: Annotated[int, Range(0, 10**6)] = 1
    server_optimizer: str = "fedavg"
    server_learning_rate: Positive | Auto = "auto"
    strategy: str = ""
    round_timeout: Seconds = 3600.0
    evaluate: str = "server"
    evaluate_every: Annotated[int, Range(0, 10**6)] = 1
    keep_model: str = "last"
    metrics: str = ""
    # local training
    local_epochs: Annotated[float, Range(0, 1e6, open=True)] = 1.0
    expected_batch_size: Examples = 64
    physical_batch_size: Examples | Auto = 64
    memory_mib: Mebibytes = 1024
    learning_rate: Positive = 0.5
    learning_rate_schedule: str = "constant"
    momentum: Annotated[float, Range(0, 1)] = 0.0
    optimizer: str = "sgd"
    optimizer_settings: str = ""
    optimizer_state: str = RESET
    precision: str = FLOAT32
    local_algorithm: str = "fedavg"
    pull: Annotated[float, Range(0, MOST_PULL)] = 0.0
    # privacy
    privacy: str = "on"
    noise_multiplier: Annotated[float, Range(LEAST_NOISE, MOST_NOISE)] | Auto = "auto"
    participations: Annotated[int, Range(0, 10**6)] | Auto = 0
    max_grad_norm: Positive = 1.0
    epsilon: Positive = 3.0
    delta: Annotated[float, Range(0, 1, open=True)] | Auto = "auto"
    accountant: str = "pld"
    arithmetic: str = ASSUMED
    clients_per_person: Clients = 1
    # machine
    device: str = "auto"
    clients_per_cpu: Annotated[float, Range(0, 1e6, open=True)] | Auto = "auto"
    clients_per_gpu: Annotated[float, Range(0, 1e6, open=True)] | Auto = "auto"
    client_timeout: Seconds = 600.0
    out: str = ""

    @property
    def private(self) -> bool:
        """Whether clients train with differential privacy: always, unless privacy = "off"."""
        return self.privacy == "on"

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Of what is reported on the test data; empty: what the task says."""
        return tuple(name for word in self.metrics.split(",") if (name := word.strip()))

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("min_clients", "fit_clients"):
            value = getattr(self, field)
            require(value <= self.clients, key_of(field), value, f"at most clients = {self.clients}")
        if isinstance(self.physical_batch_size, int):
            require(
                self.expected_batch_size % self.physical_batch_size == 0,
                "expected-batch-size",
                self.expected_batch_size,
                f"a multiple of physical-batch-size = {self.physical_batch_size}",
            )
        for name in self.metric_names:
            METRICS.check(name)
        if isinstance(self.participations, int):
            require(
                0 <= self.participations <= self.rounds, "participations", self.participations,
                f"auto, 0 for every round, or an integer up to rounds = {self.rounds}",
            )  # fmt: skip
        require(
            self.max_weight == 0 or self.max_weight >= 1, "max-weight", self.max_weight,
            "0 for no limit, or a number >= 1",
        )  # fmt: skip
        if isinstance(self.min_updates, int):
            require(
                1 <= self.min_updates <= self.fit_clients, "min-updates", self.min_updates,
                f"auto, or an integer from 1 to fit-clients = {self.fit_clients}",
            )  # fmt: skip
        AGGREGATIONS.check(self.aggregation)
        SERVER_OPTIMIZERS.check(self.server_optimizer)
        LOCAL_ALGORITHMS.check_built_in(self.local_algorithm, "an algorithm that all sites have")
        require_delta(self.delta)
        require(0 <= self.momentum < 1, "momentum", self.momentum, "a number in [0, 1)")
        check_schedule(self.learning_rate_schedule, self.learning_rate, self.rounds)
        inline_table("optimizer-settings", self.optimizer_settings)
        require(
            self.optimizer_state in OPTIMIZER_STATES,
            "optimizer-state",
            self.optimizer_state,
            " or ".join(OPTIMIZER_STATES),
        )
        require(self.precision in PRECISIONS, "precision", self.precision, " or ".join(PRECISIONS))
        require_own_accountant(self.accountant)
        require_arithmetic(self.arithmetic)
        require(self.weights in WEIGHTS, "weights", self.weights, " or ".join(WEIGHTS))
        require(
            self.private or self.weights != BY_NOISE, "weights", self.weights,
            f"{DECLARED} or {UNIFORM} beside privacy = off: there is no noise",
        )  # fmt: skip
        require(self.sampling in SAMPLINGS, "sampling", self.sampling, " or ".join(SAMPLINGS))
        require(self.evaluate in EVALUATE, "evaluate", self.evaluate, " or ".join(EVALUATE))
        require(self.keep_model in KEEP_MODEL, "keep-model", self.keep_model, " or ".join(KEEP_MODEL))
        require(
            self.keep_model == LAST or (self.evaluate == "server" and self.evaluate_every > 0),
            "keep-model", self.keep_model, f"{LAST}, without an evaluation on the server's data after rounds",
        )  # fmt: skip
        require(
            not self.personal or self.evaluate == "off", "evaluate", self.evaluate,
            f"off beside personal = {self.personal!r}: the server has no trained values of these parameters",
        )  # fmt: skip
        require(self.privacy in PRIVACY, "privacy", self.privacy, " or ".join(PRIVACY))
