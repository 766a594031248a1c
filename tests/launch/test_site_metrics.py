"""What `fl-dp check` says of the evaluations on the sites' own test records."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fl_dp.accounting.calibration import calibrate_noise
from fl_dp.config.run import RunConfig
from fl_dp.form import Form
from fl_dp.launch.forecast import SiteMetricsForecast, forecast_site_metrics
from fl_dp.tasks.load import task_of
from fl_dp.tasks.score_histogram import Layout
from fl_dp.tasks.score_metrics import estimates

CONFIG = RunConfig(
    clients=4, rounds=4, site_metrics=True, test=0.2, evaluate_epsilon=8.0, delta=1e-5, accountant="rdp"
)


def of(**changes):
    config = replace(CONFIG, **changes)
    task_of(config).form = Form((3,), 2)
    return forecast_site_metrics(config, (80, 80, 80, 160))


def test_the_noise_is_that_of_the_run():
    found = of()
    assert found.noise == calibrate_noise(1.0, 1, 8.0, 1e-5, accountant="rdp")
    assert found.deviation == pytest.approx(math.sqrt(4) * found.noise, rel=0.02)
    assert (found.records, found.sites) == (100, 4)
    assert 7.9 < found.epsilon <= 8.0
    assert "an evaluation at 4 sites costs them epsilon 8.00" in " ".join(found.lines())
    own = of(test="own")
    assert own.records == 0
    assert len(list(own.lines())) == 4  # of three usual numbers
    assert of(site_metrics=False) is None


def test_of_persons_it_is_said_that_each_counts_once():
    """Each may have more records: then more is known."""
    persons = of(unit="person:who", records_per_person=4)
    assert persons.records == 100
    assert "of about 100 test records, one of each person, at all" in " ".join(persons.lines())
    assert "of about 100 test records at all" in " ".join(of().lines())


@pytest.mark.parametrize("layout", [Layout(2), Layout(10)])
@pytest.mark.parametrize("right", [0.5, 0.9])
@pytest.mark.parametrize("deviation", [0.0, 10.0])
def test_accuracy_is_known_at_least_as_well(layout, right, deviation):
    """Beside the interval that a run would report, of 2,000 records."""
    records = 2000
    counts = np.zeros((8, 2))
    if layout.binary:  # right answers: no below the middle, yes above
        counts[:4, 0] = counts[4:, 1] = right
        counts[:4, 1] = counts[4:, 0] = 1 - right
    else:
        counts[:, 0], counts[:, 1] = 1 - right, right
    cells = np.zeros(layout.size)
    cells[:16] = (counts * records / 8).reshape(-1)
    told = estimates(layout, cells, deviation or 1e-9)["accuracy"]
    width = (told.high - told.low) / 2
    forecast = SiteMetricsForecast(1.0, 1.0, 1e-5, deviation, 1, records)
    assert 0.55 * forecast.half_width(records) < width < 1.06 * forecast.half_width(records)
    assert forecast.half_width(records, noisy=False) <= forecast.half_width(records)
