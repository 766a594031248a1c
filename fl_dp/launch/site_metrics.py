"""What the evaluation on the sites' own test records will cost, and how much its noise hides."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from fl_dp.accounting.budget import auto_delta
from fl_dp.accounting.calibration import calibrate_noise
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.config.flat import AUTO
from fl_dp.config.run import RunConfig
from fl_dp.engine.noise.grid import noise_grid
from fl_dp.engine.sum_error import sum_error
from fl_dp.records import Entry
from fl_dp.reporting.console import rounded_up
from fl_dp.reporting.wording import counted
from fl_dp.tasks.held_out import cap_of
from fl_dp.tasks.load import task_of
from fl_dp.tasks.score_histogram import BINS, Layout

_USUAL = (100, 1000, 10_000)  # test records of all sites together, if their number is not known
_NORMAL = 1.96  # deviations of an interval of 95 %
_GUESS = 0.5


@dataclass(frozen=True, slots=True)
class SiteMetricsForecast:
    """noise: its multiplier. epsilon: what the evaluation costs each site's test records at delta, within
    `evaluate-epsilon`. deviation: of the noise in each cell. sites: with test records. records: of all sites,
    about; 0: not known; of_persons: persons were counted, and each may have more.
    """

    noise: float
    epsilon: float
    delta: float
    deviation: float
    sites: int
    records: int
    of_persons: bool = False

    def half_width(self, records: int, *, noisy: bool = True) -> float:
        """The largest half-width of accuracy's interval, whatever the accuracy is.

        Let a be right over all, and s the deviation. Half of the cells of the block of all records count
        right answers, BINS of 2 BINS. To first order a moves by (1 - a) of the noise of these and by -a of
        that of the others, over n: by s^2 BINS ((1 - a)^2 + a^2) / n^2, at most s^2 BINS / n^2. That of the
        sample is a (1 - a) / n, at most 1 / 4n.
        """
        noise = self.deviation**2 * BINS / records**2 if noisy else 0.0
        return _NORMAL * math.sqrt(noise + 0.25 / records)

    def lines(self) -> Iterator[str]:
        yield (
            f"sites' own test records: an evaluation at {counted(self.sites, 'site')} costs them epsilon "
            f"{rounded_up(self.epsilon)} at delta {self.delta:g}, in accounts of their own, with noise "
            f"multiplier {self.noise:g}"
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
    config's evaluate-epsilon. ConfigError for a task without classes; AccountingError if no noise is enough.
    """
    if not config.site_metrics or task_of(config).known_form is None:
        return None
    share = config.test_share
    tests = [round(size * share / (1 - share)) for size in sizes]
    delta = auto_delta(max([1, *tests])) if config.delta == AUTO else float(config.delta)
    noise = calibrate_noise(1.0, 1, config.evaluate_epsilon, delta, accountant=config.accountant)
    layout, sites = Layout.of(task_of(config).form, cap_of(config)), config.clients
    grid = noise_grid(layout.sensitivity, noise, layout.size, sum_error(1))
    return SiteMetricsForecast(
        noise,
        compute_epsilon([Entry(1.0, noise, 1)], delta, config.accountant),
        delta,
        math.sqrt(sites) * grid.deviation,
        sites,
        sum(tests),
        of_persons=bool(config.person_column),
    )
