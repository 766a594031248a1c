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
        "privacy": (("on",), "on: a sum without noise protects nobody"),
        "sampling": (("fixed", "budget"), "fixed or budget: how many members there are is public"),
        "weights": (("declared",), "declared: each record counts alike in a sum"),
        "momentum": ((0.0,), "0: the server descends; take server-optimizer = fedavgm"),
        "optimizer": (("sgd",), "sgd: the server descends; take server-optimizer = fedadam"),
        "local-algorithm": (("fedavg",), "fedavg: clients take one step, from the weights sent"),
        "adaptive-clipping": (("",), "none: all members clip to one bound"),
        "personal": (("",), "none: all members give to all parameters"),
        "strategy": (("",), "none of one's own: the sum is opened by fl_dp"),
        "min-updates": (("auto", least_updates), "auto: a sum is opened of all but secure-dropouts members"),
    }
    for key, (values, instead) in fitting.items():
        require(flat[key] in values, key, flat[key], f"{instead} ({_WHY})")
