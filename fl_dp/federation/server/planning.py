"""The mechanism and plan of one client's round, from public numbers alone."""

import math
from dataclasses import replace
from functools import lru_cache

from fl_dp.accounting.alone import alone_of
from fl_dp.accounting.budget import Budget
from fl_dp.accounting.calibration import calibrate_noise
from fl_dp.accounting.one_mechanism import conflict
from fl_dp.accounting.shares import honest_shares
from fl_dp.accounting.training_plan import chosen_rounds, steps_of_epochs, turns_of
from fl_dp.config.flat import AUTO
from fl_dp.config.run import RunConfig
from fl_dp.config.run_settings import POISSON, TURNS
from fl_dp.config.schedule import value_in
from fl_dp.errors import AccountingError, FederationError
from fl_dp.federation.client.policy import MAX_STEPS
from fl_dp.models.names import common_name
from fl_dp.records import ClientProfile, Entry, RoundPlan

UNPROTECTED = 0.0  # the noise multiplier of a run without privacy
MOST_NOISE_OVER_FRESH = 10.0  # with "auto": the most noise, in multiples of a fresh budget's


def round_mechanism(profile: ClientProfile, config: RunConfig) -> Entry:
    """The mechanism of one whole round, the same in the whole run: sample rate, noise multiplier, steps.

    With noise-multiplier = "auto": if the client allows only one mechanism and has trained before, it keeps
    its multiplier. Otherwise the multiplier is calibrated for all rounds, or for `participations` of them:
    - together with what the client has spent before, they fit its own budget, at its own delta, and its
      epsilon-alone;
    - alone they fit the run's epsilon;
    - the multiplier is at least the client's minimum.
    Without privacy there is no noise, and no budget.

    Raises AccountingError if the budget is spent or no noise is enough, and FederationError if the client's
    data, history or policy do not suit the run.
    """
    size = profile.public_size
    steps = steps_of_round(config, size)
    if steps > MAX_STEPS:
        raise FederationError(
            f"declares {size} {config.unit_name}s: a round would take {steps} steps, more than {MAX_STEPS}"
        )
    if not config.private:
        if not profile.allow_unprotected:
            raise FederationError(
                "does not train without protection: its operator has not set allow-unprotected"
            )
        return Entry(sample_rate(config, size), UNPROTECTED, steps)
    _check_budget(profile)
    if config.secure and not profile.allow_secure_sum:
        raise FederationError("joins no secure sums: its operator has not set allow-secure-sum")
    noise = _noise_multiplier(profile, config, steps)
    mechanism = Entry(sample_rate(config, size), noise, steps, members_shares(config))
    if not profile.vary_mechanism:
        reason = conflict(mechanism, profile.spent)
        if reason:
            raise FederationError(reason)
    return mechanism


def expected_batch(config: RunConfig, public_size: int) -> int:
    """A client's expected batch size: as configured, or all its records if it has fewer.

    If it has fewer, every step is a plain Gaussian mechanism: sound, but without amplification by sampling.
    """
    return min(config.expected_batch_size, public_size)


def sample_rate(config: RunConfig, public_size: int) -> float:
    """The probability with which a step draws each record; see `RoundPlan.sample_rate`."""
    return expected_batch(config, public_size) / public_size


def steps_of_round(config: RunConfig, public_size: int) -> int:
    """A client's local steps: one for a secure sum, otherwise as many as `local-epochs` takes."""
    if config.secure:
        return 1
    return steps_of_epochs(public_size, expected_batch(config, public_size), config.local_epochs)


def members_shares(config: RunConfig) -> int:
    """The number of honest shares in the noise of a round of fit-clients clients; 1 without secure sums."""
    if not config.secure:
        return 1
    return honest_shares(config.fit_clients, config.secure_dropouts, config.secure_colluders)


def round_plan(
    profile: ClientProfile,
    mechanism: Entry,
    config: RunConfig,
    run: str,
    server_round: int,
    task: str = "",
    origin: str = "",
) -> RoundPlan:
    """The plan for one round's message. task: identity of the server's task. origin: the run's first name."""
    return RoundPlan(
        run=run,
        server_round=server_round,
        model=common_name(config.model),
        trained=config.trained,
        steps=mechanism.steps,
        expected_batch_size=expected_batch(config, profile.public_size),
        learning_rate=value_in(
            config.learning_rate_schedule, config.learning_rate, server_round, config.rounds
        ),
        momentum=config.momentum,
        noise_multiplier=mechanism.noise_multiplier,
        max_grad_norm=config.max_grad_norm,
        private=mechanism.private,
        loss=config.loss,
        task=task,
        arithmetic=config.arithmetic,
        optimizer=config.optimizer,
        optimizer_settings=config.other_settings,
        optimizer_state=config.optimizer_state,
        class_weights=config.class_weights,
        unit=config.unit_of_all,
        local_algorithm=config.algorithm,
        pull=config.pull,
        personal=config.personal,
        seen=config.seen,
        clipping=config.clipping,
        shares=mechanism.shares if config.secure else 0,
        origin="" if origin == run else origin,
    )


def _check_budget(profile: ClientProfile) -> None:
    if not all(entry.private for entry in profile.spent):
        raise FederationError(
            "its data were trained without protection before; no epsilon holds for them any more. Its "
            "operator may start over (fl-dp ledger retire); what is spent cannot be undone"
        )
    budget, spent, alone = budget_of(profile), profile.spent, profile.epsilon_alone
    if budget.epsilon_of(spent) >= budget.epsilon or (alone and budget.epsilon_alone_of(spent) >= alone):
        raise AccountingError(f"{budget.in_words(spent)}.")


def budget_of(profile: ClientProfile) -> Budget:
    return Budget(profile.epsilon, profile.delta, profile.accountant, profile.epsilon_alone or None)


def _noise_multiplier(profile: ClientProfile, config: RunConfig, steps: int) -> float:
    if config.noise_multiplier != AUTO:
        return float(config.noise_multiplier)
    if profile.spent and not profile.vary_mechanism:
        return profile.spent[0].noise_multiplier
    rate = sample_rate(config, profile.public_size)
    steps, budget = steps * participations(config), budget_of(profile)
    noise = _calibrated(rate, steps, budget, profile.spent)
    if profile.epsilon_alone:  # it counts only the client's own share of a sum's noise
        alone = Budget(profile.epsilon_alone, budget.delta, budget.accountant)
        try:
            own = _calibrated(rate, steps, alone, alone_of(profile.spent))
        except AccountingError as error:
            raise AccountingError(f"epsilon-alone: {error}") from error
        noise = max(noise, own * math.sqrt(members_shares(config)))
    if config.epsilon < budget.epsilon:
        of_run = replace(budget, epsilon=config.epsilon)
        noise = max(noise, _calibrated(rate, steps, of_run, ()))
    return max(noise, profile.min_noise_multiplier)


def participations(config: RunConfig) -> int:
    """The number of rounds for which a client's noise is planned. After more, it stops at its budget."""
    if config.participations == AUTO:
        if config.sampling == TURNS:
            return turns_of(config.rounds, config.fit_clients, config.clients)
        return max(1, chosen_rounds(config.rounds, config.fit_clients / config.clients))
    return int(config.participations) or config.rounds


def takes_every_round(config: RunConfig) -> bool:
    """Whether all clients take part in all rounds; otherwise chance decides, and no forecast is exact."""
    return config.fit_clients == config.clients and config.sampling != POISSON


def most_rounds(config: RunConfig) -> int:
    """In how many rounds a client is expected at most: its turns.

    If chance chooses, the rounds that its noise is planned for; all rounds, if the noise is given.
    """
    if config.sampling == TURNS:
        return turns_of(config.rounds, config.fit_clients, config.clients)
    counts = config.noise_multiplier == AUTO and not takes_every_round(config)
    return participations(config) if counts else config.rounds


@lru_cache(maxsize=1024)
def _calibrated(sample_rate: float, steps: int, budget: Budget, spent: tuple[Entry, ...]) -> float:
    """The calibrated noise multiplier; cached, because most clients have equal size and history.

    Also AccountingError if so little budget is left that an update would be mere noise: it would cost privacy
    and teach the model nothing.
    """
    noise = calibrate_noise(
        sample_rate,
        steps,
        budget.epsilon,
        budget.delta,
        spent=spent,
        accountant=budget.accountant,
    )
    fresh = _calibrated(sample_rate, steps, budget, ()) if spent else noise
    if noise > MOST_NOISE_OVER_FRESH * fresh:
        raise AccountingError(
            f"{budget.in_words(spent)}; {steps} more steps would need noise multiplier {noise:g}, and teach "
            "the model nothing"
        )
    return noise
