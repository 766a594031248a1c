"""Which settings go with a schedule of the noise multiplier: checked before anything starts."""

from collections.abc import Mapping

from fl_dp.config.flat import Scalar, require
from fl_dp.config.schedule import values_over
from fl_dp.records import MOST_LISTED, MOST_MULTIPLIERS

KEY = "noise-multiplier-schedule"


def require_noise_schedule(flat: Mapping[str, Scalar]) -> None:
    """Raise ConfigError for a setting with which no list of noise can be registered."""
    rounds, schedule = flat["rounds"], str(flat[KEY])
    assert isinstance(rounds, int)
    require(rounds <= MOST_LISTED, "rounds", rounds, f"at most {MOST_LISTED} with {KEY}")
    different = len(set(values_over(schedule, 1.0, rounds)))
    require(
        different <= MOST_MULTIPLIERS, KEY, schedule,
        f"at most {MOST_MULTIPLIERS} different multipliers, of which {rounds} rounds have {different}; take "
        "step:N:FACTOR with a larger N",
    )  # fmt: skip
    fitting: dict[str, tuple[Scalar, str]] = {
        "privacy": ("on", "on, as there is no noise without it"),
        "adaptive-clipping": ("", "no value, as the bound then follows a count under this noise"),
        "participations": (0, "0, as the list of all rounds must fit each client's budget"),
        "strategy": ("", "no value, as fl_dp itself keeps to the list"),
    }
    require(
        flat["aggregation"] != "secure", "aggregation", flat["aggregation"],
        f"another one with {KEY}: the members of a secure sum have one noise for all rounds",
    )  # fmt: skip
    for key, (value, instead) in fitting.items():
        require(flat[key] == value, key, flat[key], f"{instead} (with {KEY})")
