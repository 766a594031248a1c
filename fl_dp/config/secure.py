"""Which settings go with aggregation = "secure": checked before anything starts."""

from collections.abc import Mapping

from fl_dp.config.flat import Scalar, require

SECURE = "secure"
_WHY = 'with aggregation = "secure"'


def require_secure(flat: Mapping[str, Scalar], least_updates: int) -> None:
    """Raise ConfigError for a setting that has no meaning, or another one, if only sums are seen.

    flat: the run's settings by key. least_updates: the number of members of which a sum is opened.
    `local-epochs` is not checked: a round is one step, whatever it says (docs/secure-aggregation.md).
    """
    fitting: dict[str, tuple[tuple[Scalar, ...], str]] = {
        "privacy": (("on",), "on, as a sum without noise protects nobody"),
        "sampling": (("fixed",), "fixed, as the number of members is public"),
        "weights": (("declared",), "declared, as each record counts equally in a sum"),
        "momentum": (
            (0.0,),
            "0, as the server takes the steps; for momentum set server-optimizer = fedavgm, and for all "
            "settings of sums ask fl-dp plan",
        ),
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
        "min-updates": (("auto", least_updates), "auto, as a sum opens with all but secure-dropouts members"),
    }
    for key, (values, instead) in fitting.items():
        require(flat[key] in values, key, flat[key], f"{instead} ({_WHY})")
