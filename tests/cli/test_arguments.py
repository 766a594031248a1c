import re
from pathlib import Path

import pytest

from fl_dp.cli.arguments import ARGUMENTS, name_arguments, naming_places, read_request
from fl_dp.errors import ConfigError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "run.toml"
    path.write_text("clients = 3\nmin-clients = 2\nfit-clients = 3\nexpected-batch-size = 128\n")
    return path


def test_noise_and_the_physical_batch_may_be_auto(file):
    config = read_request(file, ["3", "2", "2", "3", "61", "auto", "1", "auto"]).config
    assert (config.physical_batch_size, config.noise_multiplier) == ("auto", "auto")
    file.write_text('physical-batch-size = "auto"\n')
    request = read_request(file, ["3", "2", "2", "3", "5"])
    assert (request.config.physical_batch_size, request.notes) == ("auto", ())
    assert read_request(file, ["3", "2", "2", "3", "64", "32"]).config.physical_batch_size == 32


def test_all_positional_arguments_reach_their_keys(file):
    words = ["5", "3", "4", "7", "96", "32", ".25", "1.5", "2", "0.5"]
    config = read_request(file, words).config
    values = [config.to_flat()[argument.key] for argument in ARGUMENTS]
    assert values == [5, 3, 4, 7, 96, 32, 0.25, 1.5, 2.0, 0.5]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("-1", "NBCLIENTS (clients) = -1: expected an integer from 1 to 1000000"),
        ("2.5", "NBCLIENTS (clients) = '2.5': expected an integer"),
        ("2 3", "NBMINCLIENTS (min-clients) = 3: expected at most NBCLIENTS (clients) = 2"),
        ("2 2 3", "NBFITCLIENTS (fit-clients) = 3: expected at most NBCLIENTS (clients) = 2"),
        ("2 2 2 3 60 64", "VBATCHSIZE (expected-batch-size) = 60: expected a multiple of BATCHSIZE"),
        ("2 2 2 3 64 all", "BATCHSIZE (physical-batch-size) = 'all': expected an integer or auto"),
        ("2 2 2 3 64 64 nan", "LR (learning-rate) = nan"),
        ("2 2 2 3 64 64 1 Auto", "NM (noise-multiplier) = 'Auto': expected a number or auto"),
        ("2 2 2 3 64 64 1 1 inf", "MGN (max-grad-norm) = inf"),
        ("2 2 2 3 64 64 1 1 1 1 9", "9: one argument too many"),
        ("--simulat 2", "--simulat: no such option"),
        ("--epsilon 3", "--epsilon: no such option; write --set epsilon=3"),
        ("2 --lr=0.1", "--lr=0.1: no such option; write --set learning-rate=0.1"),
        ("--momentum --track a", "write --set optimizer-settings=momentum=VALUE"),
        ("--output-dir a", "did you mean --out?"),
        ("-m epsilon=1,3", "-m: no such option; did you mean fl_dp.study in"),
        ("-c run.toml", "-c: no such option; did you mean --config?"),
        ("lr=0.1", "for a setting write --set learning-rate=0.1"),
        ("epsilon=1,3", "for several runs use fl_dp.study"),
        ("lr=0.1,0.3", "for several runs use fl_dp.study"),
        ("metrics=auroc,f1", "for a setting write --set metrics=auroc,f1"),  # a list for one run
        ("2 2 2 3 64 64 1 1 -inf", "MGN (max-grad-norm) = -inf"),
        ("rounds = 3", "write KEY=VALUE without spaces"),
        ("--multirun", "did you mean fl_dp.study in Python"),
        ("--run-config epsilon=3", "did you mean --set?"),
        ("+epsilon=3", "for a setting write --set epsilon=3"),
        ("study.py", "for a task write --set task=study.py"),
        ("run.toml", "for a config write --config run.toml"),
        ("epsilon=3", "for a setting write --set epsilon=3"),
    ],
)
def test_every_bad_argument_is_named(file, words, expected):
    with pytest.raises(ConfigError, match=re.escape(expected)):
        read_request(file, words.split())


@pytest.mark.parametrize("clients", [1, 3])
def test_who_asks_for_other_clients_means_all_of_them_and_is_told(clients, tmp_path):
    """Beside tests/config/test_dependent.py."""
    file = tmp_path / "equal.toml"
    file.write_text("clients = 2\nmin-clients = 2\nfit-clients = 2\n")
    for words, settings in (([str(clients)], []), ([], [f"clients={clients}"])):
        request = read_request(file, words, settings)
        assert (request.config.min_clients, request.config.fit_clients) == (clients, clients)
        keys = ("min-clients", "fit-clients")
        assert request.notes == tuple(
            f"{key} = {clients}, as clients is (the config or default has 2)" for key in keys
        )
    with pytest.raises(ConfigError, match="fit-clients"):  # what the user gives is never changed
        read_request(file, ["1"], ["fit-clients=2"])


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("partition=dirichlet:2", "dirichlet:2"),
        ('partition="dirichlet:2"', "dirichlet:2"),
        ("data-name=100", "100"),
        ("data = npz:/some where/x.npz", "npz:/some where/x.npz"),
        ("local-epochs=2", 2.0),
        ("delta=1e-6", 1e-6),
        ("delta=auto", "auto"),
    ],
)
def test_set_takes_toml_and_bare_words(file, setting, value):
    assert read_request(file, settings=[setting]).config.to_flat()[setting.partition("=")[0].strip()] == value


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("rounds", "--set rounds: expected key=value"),
        ("epsilon-alone=5", r"^--set: epsilon-alone: a key of a client, which runs do not set; set it in "),
        ("round=3", "round: unknown key; did you mean rounds?"),
        ("rounds=three", r"^--set: rounds = 'three': expected an integer from 1 to 1000000\.$"),
        ("partition=dirichle", r"^--set: partition = 'dirichle': expected .*; did you mean dirichlet\?$"),
        ("server-optimizer=fedadan:1", r"expected .*; did you mean fedadam\?$"),
        ("rounds=1\nclients=2", r"--set: rounds = .*: expected an integer"),
    ],
)
def test_a_bad_setting_is_named(file, setting, expected):
    with pytest.raises(ConfigError, match=expected):
        read_request(file, settings=[setting])


def test_a_key_given_twice_is_refused(file):
    with pytest.raises(ConfigError, match=r"NBCLIENTS \(clients\) = 2: given twice"):
        read_request(file, ["3"], ["clients=2"])
    with pytest.raises(ConfigError, match="seed = 1: given twice"):
        read_request(file, settings=["seed=2"], options={"seed": 1})


def test_an_error_of_the_file_names_the_file(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text("rounds = 0\n")
    with pytest.raises(ConfigError, match=r"bad\.toml, line 1: rounds = 0"):
        read_request(path)
    with pytest.raises(ConfigError, match="no such config file"):
        read_request(tmp_path / "absent.toml")


def test_only_whole_keys_before_an_equals_sign_are_named():
    both = ["clients", "min-clients"]
    assert name_arguments("min-clients = 3: of clients = 2", both) == (
        "NBMINCLIENTS (min-clients) = 3: of NBCLIENTS (clients) = 2"
    )
    assert name_arguments("min-clients = 3: of clients = 2", ["clients"]) == (
        "min-clients = 3: of NBCLIENTS (clients) = 2"
    )
    assert name_arguments("two clients, data = x", both) == "two clients, data = x"
    assert name_arguments("clients = 2", []) == "clients = 2"


def test_what_is_wrong_together_is_told_where_the_setting_at_fault_stands(file):
    with pytest.raises(ConfigError, match=r"^--set: fit-clients = 4: expected at most clients = 3\.$"):
        read_request(file, settings=["fit-clients=4"])
    with pytest.raises(ConfigError, match=r"^--set: fit-clients = 4: expected at most NBCLIENTS \(clients\)"):
        read_request(file, ["2"], settings=["fit-clients=4"])
    file.write_text("rounds = 5\n\nparticipations = 4\n")
    with pytest.raises(ConfigError, match=r"run\.toml, line 3: participations = 4: .* rounds = 2\.$"):
        read_request(file, settings=["rounds=2"])


def test_all_mistakes_of_the_command_line_and_of_a_file_are_told_at_once(file):
    def told(*given, **more):
        with pytest.raises(ConfigError) as error:
            read_request(file, *given, **more)
        first, *others = str(error.value).splitlines()
        assert first == f"{len(others)} mistakes:"
        return [line.strip().partition(" = ")[0] for line in others]

    assert told(["two", "2", "x"]) == ["NBCLIENTS (clients)", "NBFITCLIENTS (fit-clients)"]
    file.write_text('round = 3\nepsilon = -1\n\nweights = "noisy"\nclients = "2"\n')
    lines = [line.partition(f"{file}, ")[2].partition(":")[0] for line in told()]
    assert lines == ["line 1", "line 2", "line 4", "line 5"]
    file.write_text("")
    assert told(["0"], ["epsilon=0"], options={"seed": -1}) == [
        "--seed: seed",
        "NBCLIENTS (clients)",
        "--set: epsilon",
    ]


def test_what_is_found_later_is_told_where_it_stands_too(file):
    file.write_text('\ndata = "digts"\n')
    for request, place in (
        (read_request(file), f"{file}, line 2: "),
        (read_request(file, settings=["data=y"]), "--set: "),
        (read_request(file, ["3"]), f"{file}, line 2: "),
    ):
        for words, told in (
            ("data = 'x': unknown", place),
            ("model = 'x': unknown", ""),
            ("Nothing of ours.", ""),
        ):
            with pytest.raises(ConfigError, match=f"^{re.escape(told + words)}"), naming_places(request):
                raise ConfigError(words)


def test_a_run_without_privacy_is_announced(file):
    request = read_request(file, settings=["privacy=off"])
    assert not request.config.private
    assert len(request.notes) == 2
    assert all(note.startswith("NOT PRIVATE: ") for note in request.notes)
    with pytest.raises(ConfigError, match=r"privacy = 'no': .* write privacy = \"off\""):
        read_request(file, settings=["privacy=no"])
