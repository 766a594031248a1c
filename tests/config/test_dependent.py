"""What a setting is that nobody gave, beside one that somebody gave."""

import pytest

from fl_dp.config.dependent import dependent_values
from fl_dp.config.run import RunConfig
from fl_dp.launch.request import read_config

EQUAL = {
    "clients": 4, "min-clients": 4, "fit-clients": 4, "expected-batch-size": 64, "physical-batch-size": 64,
}  # fmt: skip


@pytest.mark.parametrize("clients", [1, 3, 9])
def test_what_equals_clients_follows_it_up_and_down(clients):
    assert dependent_values(EQUAL, {"clients": clients}) == {"min-clients": clients, "fit-clients": clients}


def test_a_smaller_value_was_chosen_and_stays_as_long_as_it_fits():
    base = {**EQUAL, "min-clients": 2, "fit-clients": 3}
    assert dependent_values(base, {"clients": 9}) == {}
    assert dependent_values(base, {"clients": 2}) == {"fit-clients": 2}


def test_what_is_given_is_not_touched():
    assert dependent_values(EQUAL, {"clients": 9, "min-clients": 2}) == {"fit-clients": 9}
    assert dependent_values(EQUAL, {"clients": 9, "min-clients": 2, "fit-clients": 3}) == {}
    assert dependent_values(EQUAL, {"min-clients": 2}) == {}
    assert dependent_values(EQUAL, {"clients": 4}) == {}


def test_the_physical_batch_is_lowered_and_never_raised():
    assert dependent_values(EQUAL, {"expected-batch-size": 16}) == {"physical-batch-size": 16}
    assert dependent_values(EQUAL, {"expected-batch-size": 128}) == {}
    assert dependent_values({**EQUAL, "physical-batch-size": "auto"}, {"expected-batch-size": 16}) == {}


@pytest.mark.parametrize("clients", ["three", 2.5, True, 0, -1])
def test_what_is_no_number_of_clients_is_left_to_the_config_s_own_check(clients):
    assert dependent_values(EQUAL, {"clients": clients}) == {}


def test_a_file_that_says_clients_alone_means_all_of_them(tmp_path):
    file = tmp_path / "run.toml"
    for number in (1, 5):
        file.write_text(f"clients = {number}\n")
        config = read_config(file)
        assert (config.clients, config.min_clients, config.fit_clients) == (number, number, number)
    file.write_text("expected-batch-size = 16\n")
    assert read_config(file).physical_batch_size == 16


def test_a_config_that_was_written_is_read_as_it_was():
    config = RunConfig(clients=5, min_clients=2, fit_clients=3)
    assert RunConfig.from_flat(config.to_flat()) == config
