"""What goes with aggregation = "secure", and what does not: said before anything is started."""

from typing import TYPE_CHECKING

from fl_dp.config.flat import require

if TYPE_CHECKING:
    from fl_dp.config.run import RunConfig

SECURE = "secure"
_WHY = 'with aggregation = "secure"'


def require_secure(config: "RunConfig") -> None:
    """ConfigError for a setting that means nothing, or something else, where only sums are seen.

    `local-epochs` is not looked at: a round is one step, whatever it says (docs/secure-aggregation.md).
    """
    for key, value, usual, instead in (
        ("privacy", config.privacy, "on", "on: a sum without noise protects nobody"),
        (
            "sampling",
            config.sampling,
            ("fixed", "budget"),
            "fixed or budget: how many members there are is public",
        ),
        ("weights", config.weights, "declared", "declared: each record counts alike in a sum"),
        ("momentum", config.momentum, 0.0, "0: the server descends; take server-optimizer = fedavgm"),
        ("optimizer", config.optimizer, "sgd", "sgd: the server descends; take server-optimizer = fedadam"),
        (
            "local-algorithm",
            config.local_algorithm,
            "fedavg",
            "fedavg: clients take one step, from the weights sent",
        ),
        ("adaptive-clipping", config.adaptive_clipping, "", "none: all members clip to one bound"),
        ("personal", config.personal, "", "none: all members give to all parameters"),
        ("strategy", config.strategy, "", "none of one's own: the sum is opened by fl_dp"),
        (
            "min-updates",
            config.min_updates,
            ("auto", config.fit_clients - config.secure_dropouts),
            "auto: a sum is opened of all but secure-dropouts members",
        ),
    ):
        fits = value in usual if isinstance(usual, tuple) else value == usual
        require(fits, key, value, f"{instead} ({_WHY})")
