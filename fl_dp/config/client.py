"""A client's own settings: data, ledger, limits. They are on its own disk; no message changes them."""

import math
from dataclasses import dataclass, field
from typing import Annotated

from fl_dp.choices import ACCOUNTANTS
from fl_dp.config.flat import OWN_ACCOUNTANT, Auto, require
from fl_dp.config.setting import Clients, Examples, Mebibytes, Range, Records, about, setting
from fl_dp.config.task import TaskSettings
from fl_dp.records import (
    ARITHMETICS,
    LEAST_EPSILON,
    MOST_DELTA,
    MOST_EPSILON,
    MOST_MEMBERS,
    MOST_NOISE,
    STEADY_ROWS,
)

USUAL_IN_A_SUM = 3  # fewest clients of an opened sum, if the operator does not say
MOST_NAME = 64  # characters
_NAME = (
    f"a name of 1 to {MOST_NAME} printable characters without slash or backslash, as files get this name; "
    "it begins with a letter or a digit, and does not end with a space or a full stop"
)


def is_name(text: str) -> bool:
    """Whether a client may have this name: every file system accepts it as a file's name."""
    return (
        0 < len(text) <= MOST_NAME
        and text.isprintable()
        and text[0].isalnum()
        and text[-1] not in " ."
        and not set(text) & set("/\\")
    )


_CLIENT, _LIMITS, _MACHINE, _OPERATOR = "This client", "Limits", "Machine", "Operator"
_SECURE = "Secure sums"


@dataclass(frozen=True, kw_only=True)
class ClientConfig(TaskSettings):
    """One client's own settings, from its own disk: data, ledger and the limits that it accepts.

    A round that asks for more than the limits is declined. Each setting's meaning stands beside it.
    """

    LISTED_BY = "fl-dp keys --client"
    ELSEWHERE = (  # keys of other configs that clients get by mistake, and what to say
        (
            "fl_dp.config.run:RunConfig",
            "a key of the run, which clients do not set; the server's operator sets it in the run config, "
            "or with: fl-dp server --config FILE --set KEY=VALUE.",
        ),
    )

    client: str = field(
        metadata=about(
            _CLIENT, "name in reports; default: the kit's name for this site, or the host name", common=True
        )
    )
    ledger: str = field(
        metadata=about(
            _CLIENT,
            "SQLite file, NAME.sqlite, that records what these data have spent; default: one below "
            "~/.local/state",
            page="ledger.md",
            common=True,
        )
    )
    one_run_ledger: bool = setting(
        False,
        _CLIENT,
        "set only by run.sh, when it makes a ledger for one run; entries and statements "
        "say so. A site's ledger lasts, so fl-dp client refuses this key",
        page="ledger.md#one-ledger-for-each-machine",
    )
    partition_id: Annotated[int, Range(0, 10**6)] = setting(
        0, _CLIENT, "number of this client's part of a common data set, counted from 0"
    )
    num_partitions: Clients = setting(1, _CLIENT, "parts that a common data set is split into; 1: no split")
    public_size: Records | Auto = setting(
        "auto",
        _CLIENT,
        "publicly declared number of records, at least the real one; auto: counted once, when the data "
        "are registered, and rounded up",
        page="ledger.md#the-declared-number",
    )
    epsilon: Annotated[float, Range(LEAST_EPSILON, MOST_EPSILON)] = setting(
        3.0,
        _LIMITS,
        "budget: the most epsilon that these data may spend over all rounds of all runs",
        common=True,
    )
    delta: Annotated[float, Range(0, MOST_DELTA, open=True)] | Auto = setting(
        "auto",
        _LIMITS,
        "delta of epsilon; auto: the largest power of ten below 1/n, at most 1e-5",
        common=True,
    )
    min_noise_multiplier: Annotated[float, Range(0, MOST_NOISE)] = setting(
        0.0, _LIMITS, "smallest noise multiplier that is accepted"
    )
    max_grad_norm: Annotated[float, Range(0, math.inf, open=True)] = setting(
        math.inf, _LIMITS, "largest clipping bound that is accepted"
    )
    vary_mechanism: bool = setting(
        False,
        _LIMITS,
        "servers may change sample rate and noise after the first round on these data",
        page="privacy.md#servers-that-adapt",
    )
    allow_unprotected: bool = setting(
        False,
        _LIMITS,
        "servers may train without any protection; then no epsilon holds for these data",
        page="privacy.md#runs-without-privacy",
    )
    evaluate_epsilon: Annotated[float, Range(LEAST_EPSILON, MOST_EPSILON)] = setting(
        1.0,
        _LIMITS,
        "budget of the site's own test records (test): the most epsilon that all metrics from them may "
        "spend, over all runs",
        page="site-metrics.md",
    )
    accountant: str = setting(
        "pld",
        _LIMITS,
        "pld is tight, rdp fast; only a proven upper bound may enforce a budget",
        choices=ACCOUNTANTS,
        own=OWN_ACCOUNTANT,
        page="accounting.md",
    )
    arithmetic: str = setting(
        STEADY_ROWS,
        _LIMITS,
        "proven: decline rounds that assume steady rows, see the run's arithmetic",
        choices=ARITHMETICS,
        page="privacy.md#the-noise-and-what-a-machine-adds-to-the-theorem",
    )
    allow_secure_sum: Annotated[int, Range(0, MOST_MEMBERS)] = setting(
        0,
        _SECURE,
        "minimum number of clients, such as 3, of a secure sum that may include this client's steps; nobody "
        "sees a step alone, and each has a share of the noise; 0: no secure sums",
        page="secure-aggregation.md",
    )
    epsilon_alone: Annotated[float, Range(0, MOST_EPSILON)] = setting(
        0.0,
        _SECURE,
        "if the assumption behind secure sums fails: the most epsilon that all steps may spend, and the "
        "most that all evaluations on test records may spend; 0: no limit",
        page="secure-aggregation.md",
    )
    secure_most_dropouts: Annotated[int, Range(0, MOST_MEMBERS)] = setting(
        10, _SECURE, "largest number of members that may drop out of a sum that is still opened"
    )
    secure_least_colluders: Annotated[int, Range(1, MOST_MEMBERS)] = setting(
        1,
        _SECURE,
        "smallest number of members colluding with the server that a sum must tolerate; each knows its own "
        "share of the noise",
    )
    min_share_multiplier: Annotated[float, Range(0, MOST_NOISE)] = setting(
        0.0,
        _SECURE,
        "smallest noise multiplier of this client's share, which protects it if the assumption fails",
        page="secure-aggregation.md",
    )
    physical_batch_size: Examples | Auto = setting(
        64, _MACHINE, "maximum number of examples in memory at once; auto: what fits in memory-mib"
    )
    memory_mib: Mebibytes = setting(
        1024,
        _MACHINE,
        "MiB that a step may use in addition to process, model and data; kernels and auto batch sizes stay "
        "within it",
    )
    device: str = setting("auto", _MACHINE, "cpu, cuda, cuda:0,cuda:1; auto: a GPU if there is one")
    approve: Annotated[float, Range(0, 1e8)] = setting(
        0.0,
        _OPERATOR,
        "seconds, such as 300, that a round waits for the operator to approve the run's plan; 0: it trains "
        "without asking",
        page="site.md#5-all-the-run",
        common=True,
    )
    save_model: str = setting("", _OPERATOR, "folder for final models; empty: they are not kept")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(is_name(self.client), "client", self.client[:MOST_NAME], _NAME)
        self._require("ledger", bool(self.ledger), "the path of the ledger file")
        self._require(
            "partition-id",
            0 <= self.partition_id < self.num_partitions,
            f"an integer from 0 to num-partitions - 1 = {self.num_partitions - 1}",
        )
        self._require(
            "allow-secure-sum",
            self.allow_secure_sum != 1,
            "0, or at least 2, as a sum of one client is no sum",
        )
        self._require(
            "epsilon-alone",
            self.epsilon_alone == 0 or self.epsilon_alone >= LEAST_EPSILON,
            f"0, or a number of at least {LEAST_EPSILON:g}",
        )
        self._check_features(self.arithmetic)
