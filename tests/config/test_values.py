"""What is wrong with each value by itself, and what was meant."""

import pickle

import pytest

from fl_dp.config.client import ClientConfig
from fl_dp.config.flat import places_in
from fl_dp.config.run import RunConfig
from fl_dp.config.values import SettingsError
from fl_dp.errors import ConfigError


@pytest.mark.parametrize(
    ("kind", "flat", "words"),
    [
        (RunConfig, {"epsilonn": 1}, "epsilonn: unknown key; did you mean epsilon?"),
        (RunConfig, {"lr": 1.0}, "lr: unknown key; did you mean learning-rate?"),
        (RunConfig, {"learning_rate": 1.0}, "learning_rate: unknown key; did you mean learning-rate?"),
        (RunConfig, {"zzz": 1}, "zzz: unknown key; fl-dp keys lists all keys."),
        (RunConfig, {"epsilon-alone": 5.0}, "epsilon-alone: a key of a client, .* FILE --set KEY=VALUE."),
        (
            ClientConfig,
            {"rounds": 3},
            "rounds: a key of the run, .*: fl-dp server --config FILE --set KEY=VALUE.",
        ),
        (ClientConfig, {"roundz": 3}, "roundz: unknown key; .*."),
        (RunConfig, {"partition-id": 1}, "partition-id: a key of a client, which runs do not set; .*"),
        (ClientConfig, {"zzz": 1}, "zzz: unknown key; fl-dp keys --client lists all keys."),
        (RunConfig, {"clients": True}, "clients = True: expected an integer from 1 to 1000000."),
        (RunConfig, {"data": 3}, "data = 3: expected a string."),
        (
            RunConfig,
            {"server-optimizer": ()},
            "server-optimizer = a tuple: expected a string, how the aggregated weights change the global "
            "ones; fedadam:RATE uses RATE instead of its default learning rate "
            "(docs/strategies.md#at-the-server).",
        ),
        (
            RunConfig,
            {"delta": "atuo"},
            "delta = 'atuo': expected a number > 0 and <= 0.1, or auto; did you mean auto?",
        ),
        (ClientConfig, {"vary-mechanism": "yes"}, "vary-mechanism = 'yes': expected true or false."),
        (
            RunConfig,
            {"weights": "Uniform"},
            "weights = 'Uniform': expected declared or .*; did you mean uniform?",
        ),
        *(
            (
                kind,
                {"arithmetic": "assumed"},
                "arithmetic = 'assumed': expected steady-rows or proven.",
            )
            for kind in (RunConfig, ClientConfig)
        ),
        (RunConfig, {"image-mode": "P"}, "image-mode = 'P': expected L or RGB."),
        (RunConfig, {"metrics": "auro"}, "metrics = 'auro': expected one of .*; did you mean auroc?"),
    ],
)
def test_each_mistake_says_what_was_expected(kind, flat, words):
    needed = {"client": "a", "ledger": "l"} if kind is ClientConfig else {}
    with pytest.raises(SettingsError) as told:
        kind.from_flat({**needed, **flat})
    (mistake,) = told.value.mistakes
    assert mistake.key == next(iter(flat))
    head, _, tail = words.partition(".*")
    assert mistake.words.startswith(head)
    assert mistake.words.endswith(tail)


def test_missing_and_wrong_ones_are_told_together_in_the_order_of_the_file():
    with pytest.raises(SettingsError) as told:
        ClientConfig.from_flat({"epsilon": -1.0, "round": 2, "unit": "person"})
    assert [one.key for one in told.value.mistakes] == ["epsilon", "round", "client", "ledger"]


def test_built_by_hand_a_config_is_held_to_the_same_and_its_error_crosses_processes():
    with pytest.raises(
        SettingsError, match=r"2 mistakes:\n  clients = 0: .*\n  sampling = 'fix': .*fixed"
    ) as told:
        RunConfig(clients=0, sampling="fix")
    copy = pickle.loads(pickle.dumps(told.value))
    assert (copy.mistakes, str(copy)) == (told.value.mistakes, str(told.value))


def test_where_keys_stand_in_a_file(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text('# rounds = 1\nrounds = 2\n\n "epsilon"=3\n[extra]\nx = 1\nrounds = 3\n')
    assert places_in(file) == {
        key: f"{file}, line {line}" for key, line in {"rounds": 2, "epsilon": 4, "extra": 5, "x": 6}.items()
    }


@pytest.mark.parametrize("key", ["data", "data-root", "schema", "start", "task", "out", "tokenizer"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("npz:a\0b", "without a NUL character"),
        ("npz:a\udc80b", "expected a string in UTF-8"),
        ("npz:~no-such-user/a", "~no-such-user is not a user of this machine"),
        ("~no-such-user/a", "~no-such-user is not a user of this machine"),
        ("a" * 5000, "expected 4096 characters at most"),
    ],
)
def test_a_text_that_names_no_file_is_refused(key, text, words):
    with pytest.raises(ConfigError, match=rf"^{key} = .*{words}"):
        RunConfig.from_flat({key: text})


def test_a_clients_ledger_is_held_to_it_as_well():
    ClientConfig(client="a", ledger="~/ledger.sqlite")
    with pytest.raises(ConfigError, match="ledger = "):
        ClientConfig(client="a", ledger="~no-such-user/ledger.sqlite")
