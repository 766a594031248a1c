"""Which settings go with aggregation = "secure": checked before anything starts."""

from collections.abc import Mapping

from fl_dp.config.flat import AUTO, Scalar, require
from fl_dp.config.inline import without_momentum
from fl_dp.config.run_settings import FIXED, TURNS
from fl_dp.records import MOST_MEMBERS

SECURE = "secure"
_WANTED = (
    f"secure, secure:D or secure:D:C, with D from 0 to {MOST_MEMBERS} members that may drop out, and C from "
    f"1 to {MOST_MEMBERS} that may collude"
)
_WHY = 'with aggregation = "secure"'
Fitting = Mapping[str, tuple[tuple[Scalar, ...], str]]


def members_of(aggregation: str) -> tuple[int, int]:
    """Members of a secure sum that may drop out, and that may collude; 0 and 1 where they are left out."""
    _, *given = aggregation.split(":")
    require(len(given) <= 2 and all(map(str.isdecimal, given)), "aggregation", aggregation, _WANTED)
    dropouts, colluders = [*map(int, given), *(0, 1)[len(given) :]]
    fits = dropouts <= MOST_MEMBERS and 1 <= colluders <= MOST_MEMBERS
    require(fits, "aggregation", aggregation, _WANTED)
    return dropouts, colluders


def require_secure(flat: Mapping[str, Scalar], least_updates: int) -> None:
    """Raise ConfigError for a setting that means nothing, or something else, if the server sees only sums.

    flat: the run's settings by key. least_updates: the fewest members whose sum is opened.
    `local-epochs` is not checked: a round is one step, whatever it says (docs/secure-aggregation.md).
    """
    fitting: Fitting = {
        "privacy": (("on",), "on, as a sum without noise protects nobody"),
        "sampling": ((AUTO, TURNS, FIXED), "fixed or turns, as the number of members is public"),
        "weights": (("declared",), "declared, as each record counts equally in a sum"),
        "optimizer": (
            ("sgd",),
            "sgd, as the server takes the steps; for Adam set server-optimizer = fedadam",
        ),
        "local-algorithm": (("fedavg",), "fedavg, as clients take one step from the weights that were sent"),
        "personal": (("",), "no value, as all members contribute to all parameters"),
        "strategy": (("",), "no value, as fl_dp itself opens the sum"),
        "site-metrics": (
            (False,),
            "false, as the server would see each site's own histogram; measure on the server's test data, or "
            "at each site with fl-dp client --evaluate",
        ),
        "min-updates": (("auto", least_updates), "auto, as a sum opens with all members but D of secure:D:C"),
    }
    momentum, others = without_momentum("optimizer-settings", str(flat["optimizer-settings"]))
    require(
        momentum == 0 and not others.strip(),
        "optimizer-settings",
        flat["optimizer-settings"],
        "no value, as the server takes the steps; for momentum set server-optimizer = fedavgm, and for "
        f"all settings of sums ask fl-dp plan ({_WHY})",
    )
    require_fitting(flat, fitting, _WHY)


def require_fitting(flat: Mapping[str, Scalar], fitting: Fitting, why: str) -> None:
    """Raise SettingsError for a key whose value is none of `fitting`, which also says what is expected."""
    for key, (values, expected) in fitting.items():
        require(flat[key] in values, key, flat[key], f"{expected} ({why})")
