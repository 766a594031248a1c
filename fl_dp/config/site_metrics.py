"""Which settings go with metrics from the sites' own test records: checked before anything starts."""

from collections.abc import Mapping

from fl_dp.config.data import OWN
from fl_dp.config.flat import Scalar, require

BINS = (4, 8, 16, 32)  # of the scores: even, so that one edge is where the two classes are equally likely
MOST_EVALUATIONS = 1000  # of a run; a site's noise is fixed by the number that its first run plans
_WHY = "with site-metrics-every"


def require_site_metrics(flat: Mapping[str, Scalar]) -> None:
    """Raise ConfigError for a setting with which the sites' metrics would be wrong, or not accounted for."""
    bins = flat["site-metrics-bins"]
    require(bins in BINS, "site-metrics-bins", bins, " or ".join(map(str, BINS)))
    every, rounds = flat["site-metrics-every"], flat["rounds"]
    assert isinstance(every, int)
    assert isinstance(rounds, int)
    require(
        planned_evaluations(rounds, every) <= MOST_EVALUATIONS, "site-metrics-every", every,
        f"at least rounds / {MOST_EVALUATIONS}, as noise grows with the number of evaluations",
    )  # fmt: skip
    require(
        not flat["site-metrics-subgroups"] or flat["test"] in (0, OWN), "site-metrics-subgroups",
        flat["site-metrics-subgroups"], f"false with test = {flat['test']}: only test = {OWN} has subgroups",
    )  # fmt: skip
    fitting: dict[str, tuple[Scalar, str]] = {
        "privacy": ("on", "on, as metrics are noised and paid for"),
        "personal": ("", "no value, as sites then have no common model to evaluate"),
        "strategy": ("", "no value, as fl_dp itself asks for the metrics"),
    }
    for key, (value, instead) in fitting.items():
        require(flat[key] == value, key, flat[key], f"{instead} ({_WHY})")


def planned_evaluations(rounds: int, every: int) -> int:
    """How many evaluations a run of so many rounds plans: after every `every` rounds, and after the last."""
    return -(-rounds // every) if every else 0
