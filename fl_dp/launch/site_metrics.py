"""What the evaluations on the sites' own test records will cost, and how much their noise hides."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from fl_dp.accounting.alone import compute_epsilon_alone
from fl_dp.accounting.budget import auto_delta
from fl_dp.accounting.calibration import calibrate_noise
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.shares import honest_shares
from fl_dp.config.flat import AUTO
from fl_dp.config.run import RunConfig
from fl_dp.config.site_metrics import planned_evaluations
from fl_dp.engine.noise.grid import noise_grid
from fl_dp.engine.sum_error import sum_error
from fl_dp.federation.secure_sum.vector import grid_of
from fl_dp.federation.server.site_metrics import layout_of
from fl_dp.records import Entry
from fl_dp.reporting.console import alone_words, rounded_up
from fl_dp.reporting.wording import counted
from fl_dp.tasks.load import task_of

_USUAL = (100, 1000, 10_000)  # test records of all sites together, if their number is not known
_NORMAL = 1.96  # deviations of an interval of 95 %
_GUESS = 0.5


@dataclass(frozen=True, slots=True)
class SiteMetricsForecast:
    """evaluations: what all of them cost each site's test records, as an entry. epsilon: at delta, within
    `evaluate-epsilon`; alone: if the assumption behind secure sums fails, None without these. deviation: of
    the noise in each cell; bins: of the scores. sites: with test records. records: of all sites, about; 0:
    not known; of_persons: persons were counted, and each may have more.
    """

    evaluations: Entry
    epsilon: float
    delta: float
    alone: float | None
    deviation: float
    bins: int
    sites: int
    records: int
    of_persons: bool = False

    def half_width(self, records: int, *, noisy: bool = True) -> float:
        """The largest half-width of accuracy's interval, whatever the accuracy is.

        Let a be right over all, and s the deviation. Half of the cells of the block of all records count
        right answers, `bins` of 2 bins. To first order a moves by (1 - a) of the noise of these and by -a of
        that of the others, over n: by s^2 bins ((1 - a)^2 + a^2) / n^2, at most s^2 bins / n^2. That of the
        sample is a (1 - a) / n, at most 1 / 4n.
        """
        noise = self.deviation**2 * self.bins / records**2 if noisy else 0.0
        return _NORMAL * math.sqrt(noise + 0.25 / records)

    def lines(self) -> Iterator[str]:
        many = counted(self.evaluations.steps, "evaluation")
        alone = "" if self.alone is None else f", alone {alone_words(self.alone)}"
        yield (
            f"sites' own test records: {many} at {counted(self.sites, 'site')} cost them epsilon "
            f"{rounded_up(self.epsilon)}{alone} at delta {self.delta:g}, in accounts of their own, with "
            f"noise multiplier {self.evaluations.noise_multiplier:g}"
        )
        one_each = ", one of each person," if self.of_persons and self.records else ""
        for records in (self.records,) if self.records else _USUAL:
            width, plain = self.half_width(records), self.half_width(records, noisy=False)
            found = "is hidden by the noise" if width >= _GUESS else f"is known to within {width:.2g} at most"
            yield (
                f"of about {records} test records{one_each} at all sites together the accuracy {found}, "
                f"with 95 % (without noise {plain:.2g})"
            )


def forecast_site_metrics(config: RunConfig, sizes: tuple[int, ...] = ()) -> SiteMetricsForecast | None:
    """None if the sites are not asked, or if the form of the data is not known here.

    sizes: declared training records of the clients; empty: they are elsewhere, and are taken to have the
    config's evaluate-epsilon. ConfigError for a task without classes, and for too few sites for a sum;
    AccountingError if no noise is enough.
    """
    if not config.site_metrics_every or task_of(config).known_form is None:
        return None
    share = config.test_share
    tests = [round(size * share / (1 - share)) for size in sizes]
    delta = auto_delta(max([1, *tests])) if config.delta == AUTO else float(config.delta)
    steps = planned_evaluations(config.rounds, config.site_metrics_every)
    noise = calibrate_noise(1.0, steps, config.evaluate_epsilon, delta, accountant=config.accountant)
    any_way = ("any = one", "any = other") if config.site_metrics_subgroups else ()
    layout, sites = layout_of(config, any_way), config.clients
    deviation, shares = noise_grid(layout.sensitivity, noise, layout.size, sum_error(1)).deviation, 1
    if config.secure:
        shares = honest_shares(sites, config.secure_dropouts, config.secure_colluders)
        deviation = grid_of(layout.sensitivity, noise, shares, layout.size).share_deviation
    spent = [Entry(1.0, noise, steps, shares)]
    return SiteMetricsForecast(
        spent[0],
        compute_epsilon(spent, delta, config.accountant),
        delta,
        compute_epsilon_alone(spent, delta, config.accountant) if config.secure else None,
        math.sqrt(sites) * deviation,
        layout.bins,
        sites,
        sum(tests),
        of_persons=bool(config.person_column),
    )
