import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fl_dp.choices import PARTITIONS
from fl_dp.config.client import ClientConfig
from fl_dp.data import partition_scheme
from fl_dp.data.partition import partition_indices
from fl_dp.data.partition import parts_of as of_data
from fl_dp.data.partition_scheme import Partition, PartitionSettings
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError, DataError
from fl_dp.tasks.records import load_part

LABELS = np.repeat(np.arange(10), 60)  # sorted, as many data sets are
ARGUMENTS = {
    "shards": "shards:2",
    "dirichlet": "dirichlet:0.5",
    "pathological": "pathological:2",
    "sizes": "sizes:100, 200,50,1",
    "inner_dirichlet": "inner_dirichlet:0.5:100,200,50,1",
}
SCHEMES = [
    ARGUMENTS.get(name, name)
    for name in PARTITIONS.built_in()
    for scheme in [PARTITIONS.load(name, Partition)]
    if scheme.by == "labels" and scheme.labels != "number" and (scheme.argument is None or name in ARGUMENTS)
]


def parts_of(scheme: str, number: int = 4, labels: np.ndarray = LABELS, **changed: Any) -> list[np.ndarray]:
    return partition_indices(labels, PartitionSettings(scheme, number, **({"seed": 3} | changed)))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_parts_are_disjoint_sorted_and_not_empty_and_those_of_their_seed(
    scheme: str, capfd: pytest.CaptureFixture[str]
) -> None:
    parts = parts_of(scheme)
    together = np.concatenate(parts)
    assert len(np.unique(together)) == len(together)
    assert together.min() >= 0
    assert together.max() < len(LABELS)
    assert all(len(part) > 0 and (np.diff(part) > 0).all() for part in parts)
    again, other = parts_of(scheme), parts_of(scheme, seed=4)
    assert all((a == b).all() for a, b in zip(parts, again, strict=True))
    assert any(len(a) != len(b) or (a != b).any() for a, b in zip(parts, other, strict=True))
    assert capfd.readouterr() == ("", "")


def test_iid_parts_are_equal_shares_of_all_classes() -> None:
    parts = parts_of("iid")
    assert [len(part) for part in parts] == [150] * 4
    assert all(len(np.unique(LABELS[part])) == 10 for part in parts)
    assert (parts_of("iid", 1)[0] == np.arange(600)).all()


def test_dirichlet_gives_every_record_away_and_small_alpha_is_uneven() -> None:
    def unevenness(alpha: float) -> float:
        parts = parts_of(f"dirichlet:{alpha}")
        assert sum(map(len, parts)) == 600
        shares = np.array([np.bincount(LABELS[part], minlength=10) for part in parts]) / 60
        return float(shares.std())

    assert unevenness(0.1) > 2 * unevenness(100.0)


def test_pathological_parts_have_few_classes() -> None:
    parts = parts_of("pathological:2", 10)
    assert all(len(np.unique(LABELS[part])) == 2 for part in parts)
    assert sum(map(len, parts)) == 600  # as many clients as classes: none goes unused
    assert sum(map(len, parts_of("pathological:2", 2))) < 600


def test_shards_are_neighbours_of_the_sorted_labels() -> None:
    """Of 600 records, sorted, 8 shards of 75, two for each client: of four classes at most."""
    parts = parts_of("shards:2")
    assert [len(part) for part in parts] == [150] * 4
    assert all(len(np.unique(LABELS[part])) <= 4 for part in parts)
    shuffled = np.random.default_rng(0).permutation(LABELS)
    assert all(len(np.unique(shuffled[part])) <= 4 for part in parts_of("shards:2", labels=shuffled))


@pytest.mark.parametrize(
    ("scheme", "sizes"),
    [
        ("sizes:100,200,50,1", [100, 200, 50, 1]),
        ("linear", [60, 120, 180, 240]),
        ("square", [20, 80, 180, 320]),
        ("exponential", [19, 52, 142, 387]),
    ],
)
def test_sizes_are_exact_or_follow_from_a_clients_number_and_are_drawn_from_everywhere(scheme, sizes) -> None:
    parts = parts_of(scheme)
    assert [len(part) for part in parts] == sizes
    assert all(len(np.unique(LABELS[part])) == 10 for part in parts if len(part) > 90)


def test_inner_dirichlet_has_exact_sizes_and_uneven_classes() -> None:
    even, uneven = (parts_of(f"inner_dirichlet:{alpha}:100,100,100,100") for alpha in (1000, 0.1))
    assert [len(part) for part in even] == [len(part) for part in uneven] == [100] * 4
    most = [max(np.bincount(LABELS[part]).max() for part in parts) for parts in (even, uneven)]
    assert most[0] < 30 <= most[1]
    gaps = np.repeat([3, 7], 300)  # classes without a record leave gaps
    parts = parts_of("inner_dirichlet:0.5:10,20,30,40", labels=gaps)
    assert [len(part) for part in parts] == [10, 20, 30, 40]


def test_a_strictness_of_1_gives_each_client_neighbours_and_of_0_none() -> None:
    numbers = np.random.default_rng(0).normal(size=600).astype(np.float32)

    def spread(scheme: str) -> float:
        parts = parts_of(scheme, labels=numbers)
        assert [len(part) for part in parts] == [150] * 4
        return float(np.mean([numbers[part].std() for part in parts]))

    assert spread("continuous:1") < spread("continuous:0.6") < spread("continuous:0") - 0.2
    assert spread("continuous:0") > 0.9


@pytest.mark.parametrize("scheme", ["iid", "sizes:100,200,50,1", "linear", "square"])
def test_tokens_and_numbers_can_be_split_without_looking_at_them(scheme: str) -> None:
    for labels in (np.zeros((600, 7), dtype=np.int64), np.zeros((600, 2), dtype=np.float32)):
        assert len(parts_of(scheme, labels=labels)) == 4


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"scheme": "iid", "number": 601}, DataError, "600 records cannot be split among 601 clients"),
        ({"scheme": "dirichlet:1e-4", "number": 50}, DataError, "a larger alpha"),
        ({"scheme": "dirichlet"}, ConfigError, "dirichlet takes an argument; write dirichlet:ALPHA"),
        ({"scheme": "dirichlet:0"}, ConfigError, "expected an alpha from 1e-6 to 1e9, as in dirichlet:0.5"),
        ({"scheme": "pathological:1.5"}, ConfigError, "expected a whole number of classes"),
        ({"scheme": "inner_dirichlet:x:1,1,1,1"}, ConfigError, "expected an alpha"),
        ({"scheme": "inner_dirichlet:0.5"}, ConfigError, "expected sizes as in sizes:100,50"),
        ({"scheme": "pathological:11"}, DataError, "fewer classes"),
        ({"scheme": "sizes:599,1,1,1"}, DataError, "add up to 602, the data have 600"),
        ({"scheme": "sizes:599,1"}, ConfigError, "expected one size for each client, clients = 4"),
        *(
            ({"scheme": f"sizes:{wrong}"}, ConfigError, "partition = 'sizes|write sizes:SIZE,SIZE")
            for wrong in ("", "a", "0,1,1,1", "1,-2,1,1", "1;2", "1,")
        ),
        ({"scheme": "iid:3", "number": 1}, ConfigError, "partition = 'iid:3': iid takes no argument"),
        ({"scheme": "shards"}, ConfigError, "shards takes an argument; write shards:N"),
        ({"scheme": "shards:0"}, ConfigError, "partition = 'shards:0': expected a number of shards >= 1"),
        ({"scheme": "shards:x"}, ConfigError, "expected a number of shards"),
        ({"scheme": "shards:200"}, DataError, "try fewer shards or clients"),
        ({"scheme": "continuous:1.1"}, ConfigError, "a strictness from 0 to 1"),
        ({"scheme": "continuous:0.5"}, DataError, "a number for each record; these are int64 of shape"),
        (
            {"scheme": "exponential", "number": 40},
            DataError,
            "600 records cannot be split in this way among 40",
        ),
        ({"scheme": "inner_dirichlet:0.5:600,1,1,1"}, DataError, "add up to 603"),
        ({"scheme": "dirichlet:0.5", "labels": np.zeros(600, np.float32)}, DataError, "a class for each"),
        ({"scheme": "shards:2", "labels": np.zeros((600, 2), int)}, DataError, "a class for each record"),
        ({"scheme": "dirichle"}, ConfigError, "expected .*; did you mean dirichlet"),
    ],
)
def test_what_cannot_be_split_is_refused(arguments: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        parts_of(**arguments)


def test_no_error_counts_the_records_of_a_class() -> None:
    with pytest.raises(DataError) as error:
        parts_of("pathological:2", 20, labels=np.array([0] * 50 + [1] * 7))
    assert "7" not in str(error.value).replace("57", "")


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([[0, 1], [1, 2]], "puts a record into the parts more than once"),
        ([[0, 0], [1, 2]], "puts a record into the parts more than once"),
        ([[0, 1]], "made 1 parts of 2"),
        ([[0], [1], [2]], "made 3 parts of 2"),
        ([[0, 1], []], "cannot be split in this way among 2 clients; try fewer clients"),
    ],
)
def test_a_scheme_that_breaks_its_promise_is_refused(parts: Any, words: str, monkeypatch: Any) -> None:
    """A record in two parts would have two budgets."""
    broken = Partition(lambda labels, settings: [np.array(rows, dtype=np.int64) for rows in parts])
    monkeypatch.setattr(partition_scheme, "_named", lambda settings: broken)
    with pytest.raises(DataError, match=words):
        parts_of("broken", 2)


def config(**changed: Any) -> ClientConfig:
    return ClientConfig(**({"client": "0", "ledger": "ledger.sqlite", "num_partitions": 3} | changed))


def test_the_set_is_loaded_and_cut_once_for_all_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = config(num_partitions=1)
    assert load_part(whole) is load_part(whole)
    load_part(config(partition_id=0, seed=77))
    monkeypatch.setattr("fl_dp.data.partition.partition_indices", None)
    load_part(config(partition_id=1, seed=77))


def of_two(scheme: str) -> str:
    return scheme.replace("100, 200,50,1", "9,9").replace("100,200,50,1", "9,9")


@pytest.mark.slow
def test_every_process_finds_the_same_parts_and_leaves_the_home_alone(tmp_path: Path) -> None:
    script = (
        "from fl_dp.config.client import ClientConfig\n"
        "from fl_dp.tasks.records import load_part\n"
        f"for p in {[of_two(scheme) for scheme in SCHEMES]}:\n"
        "    c = ClientConfig(client='0', ledger='l', num_partitions=2, partition=p)\n"
        "    print(load_part(c).fingerprint())\n"
    )
    prints = [
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"PYTHONHASHSEED": hash_seed, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert prints[0] == prints[1]
    assert len(set(prints[0].split())) == len(SCHEMES)
    assert list(tmp_path.iterdir()) == []


def people() -> TensorData:
    owners = tuple(f"p{k % 40}" for k in range(120))
    return TensorData(torch.arange(240.0).view(-1, 2), torch.arange(120) % 3, tuple("abc"), 0, owners)


@pytest.mark.parametrize("scheme", ["iid", "linear", "by:person"])
def test_a_persons_records_are_all_in_one_part(scheme: str) -> None:
    train = people()
    parts = of_data(train, PartitionSettings(scheme, 4, seed=3, persons=True))
    holders = [{train.groups[row] for row in part} for part in parts]
    assert sum(map(len, holders)) == len(set.union(*holders)) == 40
    assert sorted(row for part in parts for row in part) == list(range(120))


DIVIDES = r"would divide persons among clients\. Use iid, or by:COLUMN"


@pytest.mark.parametrize(
    ("scheme", "number", "words"),
    [
        ("dirichlet:0.5", 4, DIVIDES),
        ("pathological:2", 4, DIVIDES),
        ("shards:2", 4, DIVIDES),
        ("iid", 41, "40 persons cannot be split among 41 clients"),
    ],
)
def test_what_would_divide_persons_is_refused(scheme: str, number: int, words: str) -> None:
    with pytest.raises(DataError, match=words):
        of_data(people(), PartitionSettings(scheme, number, seed=3, persons=True))
