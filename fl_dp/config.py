"""Flat run-config keys become validated dataclasses, once, at the door.

Two files, two owners. `RunConfig` is the server's: what is trained and what it asks for. Flower's
flat run-config format, kebab-case keys. `ClientConfig` is the client's own and lives on its disk:
its data, its ledger, its limits. A server's message can never change it.
"""

import dataclasses
import math
import tomllib
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from fl_dp.errors import ConfigError

AUTO = "auto"
Auto = Literal["auto"]
Scalar = str | int | float | bool

DATA_SETS = ("digits", "mnist", "fashion_mnist", "cifar10", "cifar100", "npz:PATH", "folder:PATH")
MODELS = ("linear", "tanh-cnn", "lenet-gn", "torchvision:NAME")
PARTITIONS = ("iid", "dirichlet", "pathological", "sizes")
ACCOUNTANTS = ("pld", "rdp")
WEIGHTS = ("declared", "uniform")
PRIVACY = ("on", "off")
SAMPLINGS = ("fixed", "poisson")
_UNIONS = (typing.Union, types.UnionType)


def _key(field: str) -> str:
    return field.replace("_", "-")


def _typed(key: str, value: Any, hint: Any) -> Any:
    """`value` as the type that `hint` declares; an int serves where a float is declared."""
    options = typing.get_args(hint) if typing.get_origin(hint) in _UNIONS else (hint,)
    for option in options:
        if typing.get_origin(option) is Literal:
            if value in typing.get_args(option):
                return value
        elif option is float and type(value) in (int, float):
            return float(value)
        elif type(value) is option:  # not isinstance: a bool must not pass for an int
            return value
    words = " or ".join(
        repr(typing.get_args(o)[0]) if typing.get_origin(o) is Literal else o.__name__ for o in options
    )
    raise ConfigError(f"{key} = {value!r}: expected {words}.")


class _Flat:
    """Conversion between a frozen dataclass and a flat mapping with kebab-case keys."""

    @classmethod
    def from_flat(cls, flat: Mapping[str, Any]) -> Self:
        """Build from a flat mapping; unknown keys and wrong types raise ConfigError by name."""
        hints = typing.get_type_hints(cls)
        known = {_key(name): name for name in hints}
        for key in flat:
            if key not in known:
                raise ConfigError(f"{key}: unknown key; known keys are {', '.join(sorted(known))}.")
        return cls(**{known[k]: _typed(k, v, hints[known[k]]) for k, v in flat.items()})

    @classmethod
    def from_toml(cls, path: Path) -> Self:
        """Read a flat TOML file; every error names the file."""
        try:
            return cls.from_flat(tomllib.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise ConfigError(f"{path}: no such config file.") from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"{path}: not a readable TOML file: {error}") from None
        except (ConfigError, TypeError) as error:
            raise ConfigError(f"{path}: {error}") from None

    def to_flat(self) -> dict[str, Scalar]:
        """The flat mapping that `from_flat` turns back into an equal object."""
        return {_key(f.name): getattr(self, f.name) for f in dataclasses.fields(self)}  # type: ignore[arg-type]


def _require(condition: bool, key: str, value: object, expected: str) -> None:
    if not condition:
        raise ConfigError(f"{key} = {value!r}: expected {expected}.")


def _require_positive(config: object, *fields: str) -> None:
    for field in fields:
        value = getattr(config, field)
        _require(0 < value < math.inf, _key(field), value, "a finite number > 0")


def _require_delta(delta: float | Auto) -> None:
    if delta != AUTO:
        _require(0 < typing.cast(float, delta) < 1, "delta", delta, "a number between 0 and 1, or 'auto'")


def _require_batch(size: int | Auto) -> None:
    fits = isinstance(size, str) or size >= 1
    _require(fits, "physical-batch-size", size, "an integer >= 1, or 'auto'")


@dataclass(frozen=True, kw_only=True)
class RunConfig(_Flat):
    """One run, as the server's operator asks for it. README.md explains every key."""

    # data and its parts
    data: str = "digits"
    data_root: str = "data"
    partition: str = "iid"
    partition_alpha: float = 0.5
    partition_classes: int = 2
    partition_sizes: str = ""
    # model
    model: str = "linear"
    # federation
    clients: int = 2
    min_clients: int = 2
    fit_clients: int = 2
    sampling: str = "fixed"
    rounds: int = 3
    weights: str = "declared"
    round_timeout: float = 3600.0
    evaluate_every: int = 1
    # local training
    local_epochs: float = 1.0
    expected_batch_size: int = 64
    physical_batch_size: int | Auto = 64
    memory_mib: int = 1024
    learning_rate: float = 0.5
    momentum: float = 0.0
    # privacy
    privacy: str = "on"
    noise_multiplier: float | Auto = "auto"
    max_grad_norm: float = 1.0
    epsilon: float = 3.0
    delta: float | Auto = "auto"
    accountant: str = "pld"
    clients_per_person: int = 1
    # machine
    device: str = "auto"
    clients_per_cpu: float | Auto = "auto"
    clients_per_gpu: float | Auto = "auto"
    client_timeout: float = 600.0
    seed: int = 0
    out: str = ""

    @property
    def private(self) -> bool:
        """Whether clients train with differential privacy: always, unless privacy = "off"."""
        return self.privacy == "on"

    def __post_init__(self) -> None:
        for field in ("clients", "min_clients", "fit_clients", "rounds"):
            value = getattr(self, field)
            _require(value >= 1, _key(field), value, "an integer >= 1")
        for field in ("min_clients", "fit_clients"):
            value = getattr(self, field)
            _require(value <= self.clients, _key(field), value, f"at most clients = {self.clients}")
        for field in ("expected_batch_size", "partition_classes", "memory_mib", "clients_per_person"):
            value = getattr(self, field)
            _require(value >= 1, _key(field), value, "an integer >= 1")
        _require_batch(self.physical_batch_size)
        if isinstance(self.physical_batch_size, int):
            _require(
                self.expected_batch_size % self.physical_batch_size == 0,
                "expected-batch-size",
                self.expected_batch_size,
                f"a multiple of physical-batch-size = {self.physical_batch_size}",
            )
        _require_positive(
            self, "learning_rate", "max_grad_norm", "epsilon", "local_epochs", "partition_alpha",
            "round_timeout", "client_timeout",
        )  # fmt: skip
        for field in ("clients_per_cpu", "clients_per_gpu"):
            if getattr(self, field) != AUTO:
                _require_positive(self, field)
        if self.noise_multiplier != AUTO:
            _require_positive(self, "noise_multiplier")
        _require_delta(self.delta)
        _require(0 <= self.momentum < 1, "momentum", self.momentum, "a number in [0, 1)")
        for field in ("seed", "evaluate_every"):
            value = getattr(self, field)
            _require(value >= 0, _key(field), value, "an integer >= 0")
        _require(self.partition in PARTITIONS, "partition", self.partition, " or ".join(PARTITIONS))
        _require(self.accountant in ACCOUNTANTS, "accountant", self.accountant, " or ".join(ACCOUNTANTS))
        _require(self.weights in WEIGHTS, "weights", self.weights, " or ".join(WEIGHTS))
        _require(self.sampling in SAMPLINGS, "sampling", self.sampling, " or ".join(SAMPLINGS))
        _require(self.privacy in PRIVACY, "privacy", self.privacy, " or ".join(PRIVACY))
        if self.partition == "sizes":
            sizes = parse_sizes(self.partition_sizes)
            _require(
                len(sizes) == self.clients,
                "partition-sizes",
                self.partition_sizes,
                f"as many sizes as clients = {self.clients}",
            )


@dataclass(frozen=True, kw_only=True)
class ClientConfig(_Flat):
    """One client's own settings, from its own disk: data, ledger and the limits that it accepts.

    A round that asks for more than the limits is declined. `client` names the client in reports;
    `public_size` is the number of records that it declares public ("auto": counted once, when the
    data are first entered in the ledger); `ledger` is the SQLite file. `vary_mechanism` lets servers
    change sample rate and noise after the data's first round: docs/privacy.md says what is claimed then.
    `allow_unprotected` lets them train without any protection, after which no epsilon holds for the data.
    `memory_mib` is what a step may take, beside the process, model and data, where the physical batch
    size is "auto".
    """

    client: str
    ledger: str
    data: str = "digits"
    data_root: str = "data"
    partition: str = "iid"
    partition_alpha: float = 0.5
    partition_classes: int = 2
    partition_sizes: str = ""
    partition_id: int = 0
    num_partitions: int = 1
    seed: int = 0
    public_size: int | Auto = "auto"
    # limits
    epsilon: float = 3.0
    delta: float | Auto = "auto"
    min_noise_multiplier: float = 0.0
    max_grad_norm: float = math.inf
    vary_mechanism: bool = False
    allow_unprotected: bool = False
    accountant: str = "pld"
    # machine
    physical_batch_size: int | Auto = 64
    memory_mib: int = 1024
    device: str = "auto"

    def __post_init__(self) -> None:
        _require(bool(self.client), "client", self.client, "a name")
        _require(bool(self.ledger), "ledger", self.ledger, "the path of the ledger file")
        _require(self.partition in PARTITIONS, "partition", self.partition, " or ".join(PARTITIONS))
        _require(self.num_partitions >= 1, "num-partitions", self.num_partitions, "an integer >= 1")
        _require(
            0 <= self.partition_id < self.num_partitions,
            "partition-id",
            self.partition_id,
            f"an integer from 0 to num-partitions - 1 = {self.num_partitions - 1}",
        )
        if self.public_size != AUTO:
            _require(
                typing.cast(int, self.public_size) >= 1, "public-size", self.public_size, "an integer >= 1"
            )
        _require(self.seed >= 0, "seed", self.seed, "an integer >= 0")
        _require(self.partition_classes >= 1, "partition-classes", self.partition_classes, "an integer >= 1")
        _require_positive(self, "epsilon", "memory_mib", "partition_alpha")
        _require_batch(self.physical_batch_size)
        _require_delta(self.delta)
        _require(
            self.min_noise_multiplier >= 0,
            "min-noise-multiplier",
            self.min_noise_multiplier,
            "a number >= 0",
        )
        _require(self.max_grad_norm > 0, "max-grad-norm", self.max_grad_norm, "a number > 0")
        _require(self.accountant in ACCOUNTANTS, "accountant", self.accountant, " or ".join(ACCOUNTANTS))


def parse_sizes(text: str) -> tuple[int, ...]:
    """'100,50,25' as (100, 50, 25); each at least 1, else ConfigError."""
    try:
        sizes = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ConfigError(f"partition-sizes = {text!r}: expected integers parted by commas.") from None
    if min(sizes) < 1:
        raise ConfigError(f"partition-sizes = {text!r}: every part needs at least one record.")
    return sizes
