"""A client's own settings: data, ledger, limits. They live on its disk; no message changes them."""

import math
from dataclasses import dataclass
from typing import Annotated

from fl_dp.config.flat import (
    Auto,
    require,
    require_arithmetic,
    require_delta,
    require_own_accountant,
)
from fl_dp.config.ranges import Clients, Examples, Mebibytes, Range, Records
from fl_dp.config.task import TaskSettings
from fl_dp.records import ASSUMED, LEAST_EPSILON, MOST_EPSILON, MOST_NOISE

MOST_NAME = 64  # characters
_NAME = (
    f"a name of 1 to {MOST_NAME} printable characters without slash or backslash, which names files; it "
    "begins with a letter or a digit, and ends with neither a blank nor a point"
)


def is_name(text: str) -> bool:
    """Whether a client can be called so: on every system such a name is that of one file in its folder."""
    return (
        0 < len(text) <= MOST_NAME
        and text.isprintable()
        and text[0].isalnum()
        and text[-1] not in " ."
        and not set(text) & set("/\\")
    )


@dataclass(frozen=True, kw_only=True)
class ClientConfig(TaskSettings):
    """One client's own settings, from its own disk: data, ledger and the limits that it accepts.

    A round that asks for more than the limits is declined.

    client: the name in reports, see `is_name`. ledger: the SQLite file. public_size: the number of records
    that the client declares public; "auto" counts them once, when the data are registered in the ledger.
    vary_mechanism: servers may change sample rate and noise after the data's first round; docs/privacy.md
    says what is claimed then. allow_unprotected: servers may train without any protection; no epsilon holds
    for the data afterwards. arithmetic: "proven" declines rounds in which what rounding adds is only assumed,
    see `ARITHMETICS`. memory_mib: what a step may take besides process, model and data, when the physical
    batch size is "auto". approve: a run is trained only when the operator has said yes to its plan, for which
    a round waits `approval_wait` seconds. evaluate_received: `client.py` measures global models.
    save_model: the folder that final models are written to; empty: they are not kept.
    """

    client: str
    ledger: str
    # data
    partition_id: Annotated[int, Range(0, 10**6)] = 0
    num_partitions: Clients = 1
    public_size: Records | Auto = "auto"
    # limits
    epsilon: Annotated[float, Range(LEAST_EPSILON, MOST_EPSILON)] = 3.0
    delta: Annotated[float, Range(0, 1, open=True)] | Auto = "auto"
    min_noise_multiplier: Annotated[float, Range(0, MOST_NOISE)] = 0.0
    max_grad_norm: Annotated[float, Range(0, math.inf, open=True)] = math.inf
    vary_mechanism: bool = False
    allow_unprotected: bool = False
    accountant: str = "pld"
    arithmetic: str = ASSUMED
    # machine
    physical_batch_size: Examples | Auto = 64
    memory_mib: Mebibytes = 1024
    # operator
    approve: bool = False
    approval_wait: Annotated[float, Range(0, 1e8)] = 300.0
    evaluate_received: bool = False
    save_model: str = ""
    device: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(is_name(self.client), "client", self.client[:MOST_NAME], _NAME)
        require(bool(self.ledger), "ledger", self.ledger, "the path of the ledger file")
        require(
            0 <= self.partition_id < self.num_partitions,
            "partition-id",
            self.partition_id,
            f"an integer from 0 to num-partitions - 1 = {self.num_partitions - 1}",
        )
        require_delta(self.delta)
        require_own_accountant(self.accountant)
        require_arithmetic(self.arithmetic)
