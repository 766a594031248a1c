"""Ray beside the checks; here it is a stand-in."""

import gc
import os
from collections.abc import Iterator

import pytest

from fl_dp.errors import ConfigError, FederationError
from fl_dp.launch.processes import MARKER
from fl_dp.launch.ray_ahead import ray_ahead


@pytest.fixture(autouse=True)
def _nothing_stays_frozen() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_ray_is_there_when_it_was_waited_for_and_goes(ray):
    with ray_ahead("") as ahead, ahead.in_use():
        assert not gc.isenabled()
        ahead.wait()
        assert ray.seen == ["start"]
        assert MARKER in os.environ
        assert gc.isenabled()  # garbage is collected again when all is imported
        assert gc.get_freeze_count() > 0
    assert ray.seen == ["start", "end"]
    assert MARKER not in os.environ


def test_what_goes_wrong_is_raised_where_it_is_waited_for_and_garbage_is_collected_again(ray):
    with pytest.raises(KeyError), ray_ahead("") as ahead, ahead.in_use():
        raise KeyError
    assert gc.isenabled()
    ray.problem = "no Ray"
    with pytest.raises(FederationError, match="no Ray"), ray_ahead("") as ahead, ahead.in_use():
        ahead.wait()


def test_an_address_where_no_cluster_is_is_refused_before_anything_starts(ray):
    with pytest.raises(ConfigError, match="no Ray cluster answers there"), ray_ahead("127.0.0.1:1"):
        pytest.fail("it must not get here")
    assert not ray.seen
