"""A client's own settings: data, ledger, limits. They are on its disk, and no message changes them."""

import math
from dataclasses import dataclass, field
from typing import Annotated

from fl_dp.choices import ACCOUNTANTS
from fl_dp.config.data import GONE_ARITHMETICS, require_not_proven
from fl_dp.config.flat import Auto, require, require_delta, require_own_accountant
from fl_dp.config.setting import Clients, Examples, Mebibytes, Records, about, setting
from fl_dp.config.task import TaskSettings
from fl_dp.decoding import Range
from fl_dp.records import (
    ARITHMETICS,
    LEAST_EPSILON,
    MOST_DELTA,
    MOST_EPSILON,
    MOST_MEMBERS,
    MOST_NOISE,
    STEADY_ROWS,
)

MOST_NAME = 64  # characters
_NAME = (
    f"a name of 1 to {MOST_NAME} printable characters without slash or backslash, which names files; it "
    "begins with a letter or a digit, and ends with neither a blank nor a point"
)


def is_name(text: str) -> bool:
    """Whether a client may have this name: on every system it is the name of one file in its folder."""
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
            "a run's own key, which no client sets; the server's operator writes it in the run's file, or "
            "gives it there: fl-dp server --config FILE --set KEY=VALUE.",
        ),
    )

    client: str = field(
        metadata=about(
            _CLIENT, "name in reports; left out: the kit's name for this site, or the host's", common=True
        )
    )
    ledger: str = field(
        metadata=about(
            _CLIENT, "the SQLite file of what these data have spent, NAME.sqlite; left out: one below "
            "~/.local/state",
            page="ledger.md", common=True,
        )
    )  # fmt: skip
    one_run_ledger: bool = setting(
        False, _CLIENT, "written by run.sh, where it makes the ledger for one run alone; entries and "
        "statements say so. A site's ledger lasts, and fl-dp client refuses this there",
        page="ledger.md#one-ledger-for-each-machine",
    )  # fmt: skip
    partition_id: Annotated[int, Range(0, 10**6)] = setting(
        0, _CLIENT, "which part of a common data set this client holds, from 0"
    )
    num_partitions: Clients = setting(1, _CLIENT, "parts that a common data set is split into; 1: no split")
    public_size: Records | Auto = setting(
        "auto",
        _CLIENT,
        "records that are declared public: no fewer than there are; auto: counted once, when "
        "the data are registered, and rounded up",
        page="ledger.md#the-declared-number",
    )
    epsilon: Annotated[float, Range(LEAST_EPSILON, MOST_EPSILON)] = setting(
        3.0, _LIMITS, "the most that these data may spend, over all rounds of all runs", common=True
    )
    delta: Annotated[float, Range(0, MOST_DELTA, open=True)] | Auto = setting(
        "auto", _LIMITS, "at which epsilon holds; auto: the largest power of ten below 1/n, at most 1e-5",
        common=True,
    )  # fmt: skip
    min_noise_multiplier: Annotated[float, Range(0, MOST_NOISE)] = setting(
        0.0, _LIMITS, "least noise multiplier that is accepted"
    )
    max_grad_norm: Annotated[float, Range(0, math.inf, open=True)] = setting(
        math.inf, _LIMITS, "largest clipping bound that is accepted"
    )
    vary_mechanism: bool = setting(
        False, _LIMITS, "servers may change sample rate and noise after the data's first round",
        page="privacy.md#servers-that-adapt",
    )  # fmt: skip
    allow_unprotected: bool = setting(
        False, _LIMITS, "servers may train without any protection; no epsilon holds for the data afterwards",
        page="privacy.md#runs-without-privacy",
    )  # fmt: skip
    accountant: str = setting(
        "pld", _LIMITS, "pld is tight, rdp fast; only a proven upper bound may hold a budget",
        choices=ACCOUNTANTS, checked=False, page="accounting.md",
    )  # fmt: skip
    arithmetic: str = setting(
        STEADY_ROWS, _LIMITS, "proven: decline rounds that assume steady rows, see the run's arithmetic",
        choices=ARITHMETICS, gone=GONE_ARITHMETICS,
        page="privacy.md#the-noise-and-what-a-machine-adds-to-the-theorem",
    )  # fmt: skip
    allow_secure_sum: bool = setting(
        False, _SECURE, "servers may take this client's steps, with a share of the noise, into sums of "
        "several clients, of which nobody sees the parts",
        page="secure-aggregation.md",
    )  # fmt: skip
    epsilon_alone: Annotated[float, Range(0, MOST_EPSILON)] = setting(
        0.0, _SECURE, "the most that all steps may spend if the assumption behind these sums fails; 0: no "
        "limit",
        page="secure-aggregation.md",
    )  # fmt: skip
    secure_least_clients: Annotated[int, Range(2, MOST_MEMBERS)] = setting(
        3, _SECURE, "no sum of fewer clients is opened: the least that members less drop-outs may be"
    )
    secure_most_dropouts: Annotated[int, Range(0, MOST_MEMBERS)] = setting(
        10, _SECURE, "the most members that a sum may lose and still be opened"
    )
    secure_least_colluders: Annotated[int, Range(1, MOST_MEMBERS)] = setting(
        1, _SECURE, "members that a sum must allow to work with the server, at least: each knows its own "
        "share of the noise",
    )  # fmt: skip
    min_share_multiplier: Annotated[float, Range(0, MOST_NOISE)] = setting(
        0.0, _SECURE, "least noise multiplier of this client's own share, which its epsilon alone rests on",
        page="secure-aggregation.md",
    )  # fmt: skip
    clients_per_person: Annotated[int, Range(1, MOST_MEMBERS)] = setting(
        1, _SECURE, "clients of one sum at which a person may have records; more cost more, by pld alone",
        page="accounting.md#a-person-at-several-clients-of-a-sum",
    )  # fmt: skip
    max_lost_rounds: Annotated[int, Range(1, 10**6)] = setting(
        10, _SECURE, "sums that were paid for and never opened, over all runs, after which this client gives "
        "to none any more",
    )  # fmt: skip
    physical_batch_size: Examples | Auto = setting(
        64, _MACHINE, "the most examples in memory at once; auto: what fits memory-mib"
    )
    memory_mib: Mebibytes = setting(
        1024,
        _MACHINE,
        "MiB that a step may take beside process, model and data; kernels fit it, auto batches too",
    )
    device: str = setting("auto", _MACHINE, "cpu, cuda, cuda:1; auto: a GPU where there is one")
    approve: bool = setting(
        False, _OPERATOR, "train a run only when the operator has said yes to its plan",
        page="joining.md#may-it-train", common=True,
    )  # fmt: skip
    approval_wait: Annotated[float, Range(0, 1e8)] = setting(
        300.0, _OPERATOR, "with approve: seconds that a round waits for the operator"
    )
    evaluate_received: bool = setting(
        False, _OPERATOR, "measure each global model on this site's test rows, here",
        page="joining.md#how-good-is-it-here",
    )  # fmt: skip
    save_model: str = setting("", _OPERATOR, "folder that final models are kept in; empty: they are not")

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
        require(
            self.epsilon_alone == 0 or self.epsilon_alone >= LEAST_EPSILON,
            "epsilon-alone",
            self.epsilon_alone,
            f"0, or a number of at least {LEAST_EPSILON:g}",
        )
        require_not_proven(self.features, self.arithmetic)
