"""What each client's update counts in the average: a function of public numbers."""

from fl_dp.config.run import BY_NOISE, DECLARED
from fl_dp.records import ClientProfile, Entry


def weight_of(weights: str, profile: ClientProfile, mechanism: Entry) -> float:
    """The weight, > 0, by the run config's `weights`. mechanism: of the client's round.

    By noise: the inverse of the variance that noise gives each number of the update, up to a factor that all
    clients share. A step adds noise of (rate sigma C / batch)^2, and all steps of a round add up; learning
    rate and C are the same for all. The mean with these weights has the least noise of all means.
    """
    if weights == DECLARED:
        return float(profile.public_size)
    if weights == BY_NOISE:
        batch = mechanism.sample_rate * profile.public_size
        return batch**2 / (mechanism.noise_multiplier**2 * mechanism.steps)
    return 1.0
