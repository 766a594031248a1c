"""A training plan at one client: phases of equal rounds. Also steps given in epochs, and chosen rounds."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fl_dp.accounting.epsilon import MAX_STEPS
from fl_dp.errors import ConfigError
from fl_dp.records import Entry

_MOST_RECORDS = 10**15  # products with it stay exact integers in double precision
ENOUGH = 0.9  # of the clients take part no more often than what "auto" plans for


@dataclass(frozen=True, slots=True)
class Phase:
    """`rounds` equal rounds in which the client takes part, of `steps` steps each.

    batch_size: expected records of one Poisson draw, out of `records`; noise_multiplier: None if it is still
    to be chosen. shares: as in `Entry`. ConfigError for a number out of range.
    """

    records: int
    batch_size: int
    rounds: int
    steps: int
    noise_multiplier: float | None = None
    shares: int = 1

    def __post_init__(self) -> None:
        for name in ("records", "batch_size", "rounds", "steps"):
            value = getattr(self, name)
            if value < 1:
                raise ConfigError(f"{name.replace('_', '-')} = {value}: expected an integer >= 1.")
        if self.batch_size > self.records:
            raise ConfigError(
                f"batch-size = {self.batch_size}: expected at most records = {self.records}. A client with "
                f"fewer records than that takes all in every step: batch-size = {self.records}."
            )
        if self.rounds * self.steps > MAX_STEPS:
            raise ConfigError(
                f"rounds = {self.rounds} of steps = {self.steps}: expected at most {MAX_STEPS} steps."
            )
        if self.noise_multiplier is not None and not 0.0 < self.noise_multiplier < math.inf:
            raise ConfigError(f"noise-multiplier = {self.noise_multiplier}: expected a finite number > 0.")

    @property
    def sample_rate(self) -> float:
        return self.batch_size / self.records

    def round(self) -> Entry:
        """The entry of one of its rounds; its noise multiplier must have been chosen."""
        if self.noise_multiplier is None:
            raise ConfigError("noise-multiplier: the plan has none; calibrate it first.")
        return Entry(self.sample_rate, self.noise_multiplier, self.steps, self.shares)

    def with_noise(self, noise_multiplier: float) -> "Phase":
        """The phase with this noise multiplier, unless it has its own."""
        return self if self.noise_multiplier is not None else replace(self, noise_multiplier=noise_multiplier)


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """Phases, one after the other."""

    phases: tuple[Phase, ...]

    def rounds(self) -> Iterator[Entry]:
        """The entry of every round, in order; each phase must have its noise multiplier."""
        for phase in self.phases:
            yield from [phase.round()] * phase.rounds

    def with_noise(self, noise_multiplier: float) -> "TrainingPlan":
        """The plan with this noise multiplier in every phase that has none."""
        return TrainingPlan(tuple(phase.with_noise(noise_multiplier) for phase in self.phases))

    def split(self) -> "tuple[TrainingPlan, TrainingPlan]":
        """The phases that have a noise multiplier, and those that have none."""
        chosen = tuple(phase for phase in self.phases if phase.noise_multiplier is not None)
        not_chosen = tuple(phase for phase in self.phases if phase.noise_multiplier is None)
        return TrainingPlan(chosen), TrainingPlan(not_chosen)


def steps_of_epochs(records: int, batch_size: int, local_epochs: float) -> int:
    """Steps of `local_epochs` expected passes over the records, rounded up, as a federation takes them."""
    if records < 1 or batch_size < 1:
        raise ConfigError(f"records = {records}, batch-size = {batch_size}: expected integers >= 1.")
    if not 0.0 < local_epochs < math.inf:
        raise ConfigError(f"local-epochs = {local_epochs}: expected a finite number > 0.")
    if records > _MOST_RECORDS:
        raise ConfigError(f"records: expected at most {_MOST_RECORDS:g}; more are not counted exactly.")
    steps = local_epochs * records / batch_size
    if not math.isfinite(steps):
        raise ConfigError(f"local-epochs = {local_epochs} of records = {records}: too many steps to count.")
    return math.ceil(steps)


def planned_participations(rounds: int, share: float) -> int:
    """The smallest number of rounds that a client, chosen in each with probability `share`, rarely exceeds.

    It is the 0.9 quantile of the binomial distribution, at least 1. A client that is chosen more often stops
    at its budget, as always: this number decides how much noise its rounds have, never what it may spend.
    """
    from scipy.stats import binom  # type: ignore[import-untyped]  # late: it takes a while to import

    return max(1, int(binom.ppf(ENOUGH, rounds, min(1.0, share))))
