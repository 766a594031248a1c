"""Frozen dataclasses that several layers share."""

import math
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self

from fl_dp.errors import ConfigError
from fl_dp.schema import Range, Read

MOST_RECORDS = 10**15  # of one data set; with more, a delta below 1 / n cannot be resolved
MOST_MEMBERS = 100  # of a secure sum

Mechanism = tuple[float, float, int]  # sample rate, noise multiplier, shares


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """`steps` steps of one sampled Gaussian mechanism.

    sample_rate: probability with which each record enters a step, in (0, 1].
    noise_multiplier: standard deviation of the noise over the sensitivity; 0 for unprotected steps, whose
    epsilon is infinite.
    steps: number of steps, >= 1; an empty Poisson draw is still a step.
    shares: the number of honest clients whose shares add up to the noise, for steps in a secure sum, where
    the server sees only the sum; else 1.
    """

    sample_rate: float
    noise_multiplier: float
    steps: int
    shares: int = 1

    def __post_init__(self) -> None:
        if not 0.0 < self.sample_rate <= 1.0:
            raise ConfigError(f"Expected sample_rate={self.sample_rate} in (0, 1].")
        if not 0.0 <= self.noise_multiplier < float("inf"):
            raise ConfigError(f"Expected noise_multiplier={self.noise_multiplier} >= 0 and finite.")
        if self.steps < 1:
            raise ConfigError(f"Expected steps={self.steps} >= 1.")
        if type(self.shares) is not int or not 1 <= self.shares <= MOST_MEMBERS:
            raise ConfigError(f"Expected shares={self.shares!r}, an integer from 1 to {MOST_MEMBERS}.")
        if not self.private and self.shared:
            raise ConfigError("Expected shares=1 of steps without noise.")

    @property
    def private(self) -> bool:
        """Whether the steps were protected at all."""
        return self.noise_multiplier > 0.0

    @property
    def mechanism(self) -> Mechanism:
        """All but the steps. Entries may be merged only if this is equal."""
        return self.sample_rate, self.noise_multiplier, self.shares

    @property
    def shared(self) -> bool:
        """Whether the steps went into a secure sum, as far as accounting can tell."""
        return self.shares > 1

    def taking(self, steps: int) -> Self:
        return replace(self, steps=steps)

    @property
    def once(self) -> Self:
        return self.taking(1)

    def alone(self) -> Self:
        """The entry that holds if the assumption behind a secure sum fails.

        The client's own share, with 1 / `shares` of the variance, is then all its noise.
        """
        if not self.shared:
            return self
        share = self.noise_multiplier / math.sqrt(self.shares)
        return type(self)(self.sample_rate, share, self.steps)

    def to_dict(self) -> dict[str, Any]:
        """As it is stored: shares of 1 are left out, as ledgers of 1.0 did."""
        found = {
            "sample_rate": self.sample_rate,
            "noise_multiplier": self.noise_multiplier,
            "steps": self.steps,
        }
        return found | ({"shares": self.shares} if self.shared else {})

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; KeyError or ConfigError if it does not fit. Other keys are ignored,
        except `UNKNOWN_STEPS`.
        """
        if what := unknown_steps(found):
            raise ConfigError(f"paid for {what}, whose cost only fl_dp 1.0 knows.")
        return cls(found["sample_rate"], found["noise_multiplier"], found["steps"], found.get("shares", 1))


# Keys of steps that fl_dp 1.0 paid for and whose cost we do not know. Ignored, they would seem cheap.
UNKNOWN_STEPS = {
    "pass_steps": "passes of random allocation",
    "copies": "sums in which a person may have records at several clients",
}


def unknown_steps(found: Mapping[str, Any]) -> str:
    """What an entry of `UNKNOWN_STEPS` paid for; empty for all others."""
    return next((what for key, what in UNKNOWN_STEPS.items() if found.get(key, 1) != 1), "")


@dataclass(frozen=True, slots=True)
class Leaves:
    """Marks a field that leaves a client: Annotated[type, Leaves("why it may")].

    Every number that leaves is a marked field of `ClientProfile`, `LocalUpdate` or `Refusal`. Messages are
    built only from these, and docs/privacy.md lists them.
    shown: the server writes the value, as the client sent it, into the client's line of rounds.jsonl. Only
    int, float and bool can be shown: the sender decides how long a text is.
    """

    because: str
    shown: bool = False


def leaving(record: type) -> dict[str, tuple[Any, Leaves]]:
    """By field name, the type and the `Leaves` mark of a record that leaves a client.

    TypeError for a field without a mark, or of a type that cannot be shown.
    """
    found: dict[str, tuple[Any, Leaves]] = {}
    for name, hint in typing.get_type_hints(record, include_extras=True).items():
        marks = [mark for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, Leaves)]
        if len(marks) != 1:
            raise TypeError(f"{record.__name__}.{name} leaves the client: mark it with why it may.")
        if marks[0].shown and hint.__origin__ not in (int, float, bool):
            raise TypeError(f"{record.__name__}.{name} is shown: only int, float and bool can be.")
        found[name] = hint.__origin__, marks[0]
    return found


def total_steps(entries: Iterable[Entry]) -> int:
    return sum(entry.steps for entry in entries)


# Why a record moves the sum only by its own gradient, the weakest reason first. "steady-rows": we assume that
# the gradient does not depend on the pass, the place in it, threads or neighbours. "proven": the record is
# alone in its pass.
ARITHMETICS = STEADY_ROWS, PROVEN = ("steady-rows", "proven")


def assuming(arithmetic: str, *, shortly: bool = False) -> str:
    """What an epsilon assumes, in words; `arithmetic` itself if it is none of ARITHMETICS."""
    if arithmetic == STEADY_ROWS:
        means = "" if shortly else " (a record's gradient has the same bits whatever is computed beside it)"
        return f"assuming steady rows{means}"
    return "with each record in a pass of its own" if arithmetic == PROVEN else f"{arithmetic!r:.24}"


def _arithmetic(found: object) -> str:
    if found not in ARITHMETICS:
        raise ValueError(f"expected {' or '.join(ARITHMETICS)}")
    return str(found)


Arithmetic = Annotated[str, Read(_arithmetic)]


def weakest(arithmetics: Iterable[str]) -> str:
    """The weakest of these claims of `ARITHMETICS`, which holds for all; "proven" if there are none."""
    return min(arithmetics, key=ARITHMETICS.index, default=PROVEN)


# The client's outcome in a round: it trained, refused, failed, or was not asked.
ClientStatus = Literal["trained", "declined", "failed", "idle"]
CLIENT_STATUSES: tuple[ClientStatus, ...] = typing.get_args(ClientStatus)
RefusalStatus = Literal["declined", "failed"]
REFUSAL_STATUSES: tuple[RefusalStatus, ...] = typing.get_args(RefusalStatus)

# How a gradient is scaled to the clipping bound: names of `engine/clip_functions.py`.
CLIPPINGS = ABADI, AUTOMATIC = ("abadi", "automatic")

# What happens to an optimizer's state, such as a momentum, at the end of a round.
OPTIMIZER_STATES = RESET, KEEP = ("reset", "keep")

# Increased if, and only if, the same round on the same data with the same randomness gives another update.
# Sites with different numbers do not train together, and a round is never repeated under another number.
NUMERICS = 6

# Increased with every change of messages: records, fields, stages. A server refuses sites with another one,
# before anybody pays. 0: sites older than this number.
PROTOCOL = 3

# The largest absolute value of a weight: clients decline larger ones, and clamp the result of a step to it.
MOST_WEIGHT = 1e6

# Noise multipliers that clients accept. A ledger holds no others, except 0 for unprotected steps.
LEAST_NOISE, MOST_NOISE = 1e-3, 1e6
LEAST_EPSILON, MOST_EPSILON = 1e-6, 1e6  # of a client's budget
LEAST_DELTA, MOST_DELTA = 1e-100, 0.1  # of a client's budget: a larger one promises next to nothing
MOST_RETIRED = 10**6  # accounts of a ledger

TEST_RECORDS = ", test records"  # ends the name of a site's account of test records in its ledger

# The fewest test examples behind a number about a class or subgroup: one of few is too easily recognised.
LEAST_CELL = 20

# The largest strength of the pull to the global weights, a setting of some local algorithms.
MOST_PULL = 1e6

# The largest expected size of a logical batch: the proof about rounding covers no larger sums.
MOST_BATCH = 2**20


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """What the server asks of one client for one round. All numbers are public.

    steps: local DP-SGD steps; expected_batch_size: expected examples of one Poisson draw;
    noise_multiplier: sigma over sensitivity; max_grad_norm: the clipping bound C.
    private: False asks for SGD WITHOUT ANY PROTECTION, in batches of `expected_batch_size`. noise_multiplier
    is then 0, and max_grad_norm is not used.
    model, loss: names; task: digest of the code where these are the user's own; trained: which of the
    model's parameters are trained, see `TaskSettings.trained`. They are compared with the client's own
    settings; nothing is loaded by these names. arithmetic: one of `ARITHMETICS`.
    numerics: the server's `NUMERICS`.
    optimizer, optimizer_settings: a name of `training/optimizers.py`, and numbers; optimizer_state: one of
    `OPTIMIZER_STATES`. class_weights: compared like the loss.
    unit: whom privacy protects, and so what an example is, see `DataSettings.unit_of_all`; compared.
    local_algorithm: a name of `training/local_algorithms.py`; pull: its strength. personal: patterns of the
    parameters that never leave the client; compared. origin: the run's first name, if the run continues under
    another; a client finds by it what it keeps between rounds. seen: what training sees of a record, see
    `TaskSettings.seen`; compared. clipping: one of `CLIPPINGS`.
    shares: 0: no secure sum; the client adds all noise. Otherwise the number of honest members whose shares
    add up to the noise of a secure sum; noise_multiplier is then that of the sum.
    """

    run: str
    server_round: int
    model: str
    steps: int
    expected_batch_size: int
    learning_rate: float
    momentum: float
    noise_multiplier: float
    max_grad_norm: float
    private: bool = True
    loss: str = "cross-entropy"
    task: str = ""
    trained: str = ""
    arithmetic: str = STEADY_ROWS
    numerics: int = NUMERICS
    optimizer: str = "sgd"
    optimizer_settings: str = ""
    optimizer_state: str = RESET
    class_weights: str = ""
    unit: str = "record"
    local_algorithm: str = "fedavg"
    pull: float = 0.0
    personal: str = ""
    origin: str = ""
    seen: str = ""
    clipping: str = ABADI
    shares: int = 0

    @property
    def secure(self) -> bool:
        """Whether its one step goes into a secure sum."""
        return self.shares > 0

    def sample_rate(self, public_size: int) -> float:
        """The rate at which each of `public_size` records is drawn in a step."""
        return self.expected_batch_size / public_size

    @property
    def own_multiplier(self) -> float:
        """The noise multiplier of what this client alone adds."""
        return self.noise_multiplier / math.sqrt(max(1, self.shares))

    @property
    def common(self) -> Self:
        """The part that all members of a secure sum share: all but the expected batch size."""
        return replace(self, expected_batch_size=0)

    @property
    def one_by_one(self) -> bool:
        """Whether every record has its own pass."""
        return self.private and self.arithmetic == PROVEN


@dataclass(frozen=True, slots=True)
class ClientProfile:
    """What a client sends to the server before its first round: public numbers only.

    client: its name in reports; public_size: the declared number of records;
    epsilon, delta: the client's own budget; spent: its ledger's entries so far;
    accountant: the one that computes its epsilons; min_noise_multiplier: the least that it accepts;
    vary_mechanism: whether it lets sample rate and noise change after its data's first round;
    retired: how many accounts were retired in its ledger, whose spending no longer counts;
    allow_unprotected: whether it takes part in runs without privacy. arithmetic: the weakest claim under
    which anything was spent, one of `ARITHMETICS`. allow_secure_sum: whether it takes part in secure sums;
    epsilon_alone: a second budget, for the epsilon if the assumption behind secure sums fails; 0: none.
    evaluate_epsilon: the budget of its test records; 0: it declares none.
    """

    client: Annotated[str, Leaves("its operator's choice, else the name of kit or host")]
    public_size: Annotated[int, Range(1, MOST_RECORDS), Leaves("declared public by its operator")]
    epsilon: Annotated[float, Range(LEAST_EPSILON, MOST_EPSILON), Leaves("its operator's choice")]
    delta: Annotated[float, Range(LEAST_DELTA, MOST_DELTA), Leaves("its operator's choice")]
    spent: Annotated[tuple[Entry, ...], Leaves("from servers' plans and public numbers")]
    accountant: Annotated[str, Leaves("its operator's choice")]
    min_noise_multiplier: Annotated[float, Range(0, MOST_NOISE), Leaves("its operator's choice")] = 0.0
    vary_mechanism: Annotated[bool, Leaves("its operator's choice")] = False
    retired: Annotated[int, Range(0, MOST_RETIRED), Leaves("its operator's choice")] = 0
    allow_unprotected: Annotated[bool, Leaves("its operator's choice")] = False
    arithmetic: Annotated[Arithmetic, Leaves("from servers' plans and public numbers")] = STEADY_ROWS
    allow_secure_sum: Annotated[bool, Leaves("its operator's choice")] = False
    epsilon_alone: Annotated[float, Leaves("its operator's choice")] = 0.0
    evaluate_epsilon: Annotated[float, Range(0, MOST_EPSILON), Leaves("its operator's choice")] = 0.0


@dataclass(frozen=True, slots=True)
class LocalUpdate:
    """A client's answer to a round that it trained.

    arrays: the shared parameters after training; NumPy arrays by name.
    spent: what the client's ledger holds, this round included; steps: those taken in this round; epsilon,
    delta: the cost of `spent`; epsilon is infinite without privacy.
    """

    arrays: Annotated[
        Mapping[str, Any],
        Leaves("noised in every step, which epsilon pays for; without privacy if its operator allows it"),
    ]
    spent: Annotated[tuple[Entry, ...], Leaves("from servers' plans and public numbers")]
    steps: Annotated[int, Leaves("from servers' plans and public numbers", shown=True)]
    epsilon: Annotated[float, Range(0, math.inf), Leaves("computed from spent")]
    delta: Annotated[float, Leaves("its operator's choice")]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A client's answer when it has no profile or update to give."""

    status: Annotated[
        RefusalStatus, Leaves("words of fl_dp: names, shapes and settings, never values from data")
    ]
    reason: Annotated[str, Leaves("words of fl_dp: names, shapes and settings, never values from data")]
    budget_exhausted: Annotated[bool, Leaves("computed from spent")] = False
