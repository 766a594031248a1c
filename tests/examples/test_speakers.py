"""The example of speakers, on a play that is made up: the real text is named by who has it."""

import gzip
import json
import math
import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from fl_dp.config.run import RunConfig
from fl_dp.data.partition import parts_of
from fl_dp.data.partition_scheme import PartitionSettings
from fl_dp.data.persons import PersonData, by_unit
from fl_dp.data.tensor_data import TensorData
from fl_dp.tasks.load import new_model, task_of
from fl_dp.tasks.records import records_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "speakers"
NAMES = [f"Speaker {k}" for k in range(60)]
LONG = (
    "What is said here is longer than a passage, and so it becomes two of them, and a rest that is dropped: "
    * 2
)


@pytest.fixture(autouse=True)
def modules_of_the_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(EXAMPLE)])


def module(name: str) -> ModuleType:
    return SimpleNamespace(**runpy.run_path(str(EXAMPLE / f"{name}.py")))  # type: ignore[return-value]


@pytest.fixture
def play(tmp_path: Path) -> Path:
    speeches = [f"{name}:\n{LONG if k % 2 else f'No. {k}'}\n\n" for k, name in enumerate(NAMES)]
    file = tmp_path / "play.txt"
    file.write_text("".join(speeches), encoding="utf-8")
    return file


@pytest.fixture
def prepared(play: Path, tmp_path: Path) -> Path:
    module("prepare").main(play, tmp_path / "to")
    return tmp_path / "to"


def config(name: str, folder: Path, **more: Any) -> RunConfig:
    flat = RunConfig.from_toml(EXAMPLE / f"{name}.toml").to_flat()
    own = {"task": str(EXAMPLE / str(flat["task"]))} if flat["task"] else {}
    return RunConfig.from_flat(flat | own | {"data": f"npz:{folder / 'speakers.npz'}"} | more)


def records(settings: RunConfig, split: str = "train") -> TensorData:
    found = records_of(task_of(settings), split)  # type: ignore[arg-type]
    assert found is not None
    return found


def model_of(settings: RunConfig) -> torch.nn.Module:
    task = task_of(settings)
    assert records_of(task, "train") is not None
    return new_model(task)


def with_random_weights(settings: RunConfig) -> torch.nn.Module:
    torch.manual_seed(0)
    model = model_of(settings)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    return model


def text_of(tokens: np.ndarray) -> str:
    return "".join(module("prepare").VOCABULARY[token] for token in tokens)


def test_who_says_what() -> None:
    text = "\n\nA B:\nOne,\ntwo.\n\nC:\nThree.\n\n\nstill three.\n\nA B:\n\nC:\n\nA B:\nFour: five.\n"
    assert module("prepare").speeches(text) == {"A B": "One,\ntwo.\nFour: five.", "C": "Three.\nstill three."}


def test_passages_share_no_character_and_have_the_next_ones() -> None:
    text = "".join(chr(33 + k % 90) for k in range(150))
    x, y = module("prepare").passages(text)
    assert x.shape == y.shape == (2, 64)
    assert [text_of(one) for one in x] == [text[:64], text[65:129]]
    assert [text_of(one) for one in y] == [text[1:65], text[66:130]]


def test_a_short_text_is_one_passage_and_what_fills_it_up_counts_nowhere() -> None:
    prepare = module("prepare")
    x, y = prepare.passages("né!")
    assert text_of(x[0, :2]) == "n?"
    assert text_of(y[0, :2]) == "?!"
    assert (y[0, 2:] == -100).all()
    assert len(prepare.passages("n" * 64)[0]) == 1
    assert len(prepare.passages("n")[0]) == 0


def test_the_vocabulary_is_declared_and_all_that_can_be_printed(prepared: Path) -> None:
    prepare = module("prepare")
    assert len(set(prepare.VOCABULARY)) == len(prepare.VOCABULARY) == 96
    form = records(config("bigram", prepared)).form
    assert (form.vocabulary, form.outputs, form.input_shape) == (96, 96, (64,))


def speakers(file: Path, split: str) -> set[str]:
    with np.load(file) as arrays:
        return set(arrays[f"groups_{split}"].tolist())


def test_every_speaker_is_in_one_split_and_tuning_never_sees_a_test_speaker(
    prepared: Path, play: Path, tmp_path: Path
) -> None:
    packed = tmp_path / "play.txt.gz"
    packed.write_bytes(gzip.compress(play.read_bytes()))
    module("prepare").main(packed, tmp_path / "tuning", tuning=True)
    whole, tuning = prepared / "speakers.npz", tmp_path / "tuning" / "speakers.npz"
    training = speakers(whole, "train")
    for one, other, together, least, most in (
        (training, speakers(whole, "test"), set(NAMES), 5, 20),
        (speakers(tuning, "train"), speakers(tuning, "test"), training, 4, 16),
        (*(speakers(prepared / f"{name}.npz", "train") for name in ("others", "agreed")), training, 3, 16),
    ):
        assert one | other == together
        assert not one & other
        assert least <= len(other) <= most


def test_manuals_are_those_of_the_clone_and_no_speaker(prepared: Path) -> None:
    assert "persons.md" in speakers(prepared / "manuals.npz", "train")
    with np.load(prepared / "manuals.npz") as manuals, np.load(prepared / "speakers.npz") as plays:
        assert (manuals["x_test"] == plays["x_test"]).all()
        assert len(manuals["x_train"]) > 1000


def test_a_person_is_a_speaker_and_stays_at_one_client(prepared: Path) -> None:
    for more in ({}, {"unit": "record", "records-per-person": 0, "partition": "by:speaker"}):
        settings = config("bigram", prepared, **more)
        data = records(settings)
        parts = parts_of(data, PartitionSettings.of(settings))
        names = [{data.groups[row] for row in part} for part in parts]
        assert len(parts) == 10
        assert sum(map(len, names)) == len(set(data.groups))
        assert sum(map(len, parts)) == len(data)
    persons = by_unit(data, config("bigram", prepared))
    assert isinstance(persons, PersonData)
    assert len(persons) == len(set(data.groups))


@pytest.mark.parametrize("name", ["bigram", "context", "transformer"])
def test_no_model_sees_what_comes_later(prepared: Path, name: str) -> None:
    model = with_random_weights(config(name, prepared))
    tokens = torch.randint(96, (2, 64))
    other = tokens.clone()
    other[:, 40:] = (other[:, 40:] + 1) % 96
    before, after = model(tokens), model(other)
    assert before.shape == (2, 64, 96)
    assert torch.allclose(before[:, :40], after[:, :40], atol=1e-5)
    assert not torch.allclose(before[:, 40], after[:, 40], atol=1e-2)


def test_bigrams_see_one_character_and_contexts_four(prepared: Path) -> None:
    for name, sees in (("bigram", 1), ("context", 4)):
        model = with_random_weights(config(name, prepared))
        tokens = torch.randint(96, (1, 64))
        other = tokens.clone()
        other[:, 20] = (other[:, 20] + 1) % 96
        moved = (model(tokens) != model(other)).any(2)[0].nonzero().flatten().tolist()
        assert moved == list(range(20, 20 + sees)), name


def test_bigrams_start_as_if_all_characters_were_alike(prepared: Path) -> None:
    settings = config("bigram", prepared)
    outputs = model_of(settings)(records(settings).x[:2])
    assert (outputs == 0).all()


def test_weights_from_manuals_fit_the_model_that_starts_from_them(prepared: Path, tmp_path: Path) -> None:
    from fl_dp.models.start import load_start

    of_manuals = config("start", prepared, data=f"npz:{prepared / 'manuals.npz'}")
    first, second = (model_of(one) for one in (of_manuals, config("context", prepared)))
    torch.save(first.state_dict(), tmp_path / "start.pt")
    load_start(second, str(tmp_path / "start.pt"))


def test_perplexities_to_be_compared_with() -> None:
    baselines = module("baselines")
    x, y = np.array([[0, 1, 0, 1]]), np.array([[1, 0, 2, -100]])
    counts = baselines.pairs(x, y, 3)
    assert counts.tolist() == [[0, 1, 1], [1, 0, 0], [0, 0, 0]]
    assert baselines.perplexity(baselines.by_frequency(counts), counts) == pytest.approx(3.0)
    # after 0 either of two, after 1 always 0
    assert baselines.perplexity(baselines.by_the_last(counts, 0.0), counts) == pytest.approx(2 ** (2 / 3))
    rows = baselines.by_the_last(counts, 1.0)
    assert np.allclose(rows.sum(1), 1)
    assert (rows > 0).all()
    alike = np.full((3, 3), 1 / 3)
    assert math.isclose(baselines.perplexity(alike, counts), 3)


def test_baselines_of_what_was_prepared(prepared: Path) -> None:
    found = module("baselines").baselines(prepared)
    assert found["all characters alike"] == 96
    assert found["pairs, best possible"] < found["frequencies, best possible"] < 96
    assert (
        found["pairs, best possible"]
        < found["pairs of the training speakers"]
        < found["pairs of the manuals"]
    )


def test_a_table_of_what_was_measured(tmp_path: Path) -> None:
    measure, file = module("measure"), tmp_path / "measured"
    rows = [
        (10, "8", "3", 0, 18.0),
        (10, "8", "3", 1, 19.0),
        (10, "8", "off", 0, 11.5),
        (1, "8", "8", 0, 13.0),
    ]
    names = ("clients", "counted", "epsilon", "seed", "perplexity")
    lines = [{"model": "bigram", **dict(zip(names, row, strict=True))} for row in rows]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    table = measure.table(measure.read(file)).splitlines()
    assert table[2:] == [
        "| bigram | 10 | 8 | 18.50 ± 0.50 (2) |  | 11.50 (1) |",
        "| bigram | 1 | 8 |  | 13.00 (1) |  |",
    ]


def test_a_measurement_goes_on_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measure = runpy.run_path(str(EXAMPLE / "measure.py"))
    out = tmp_path / "measured.jsonl"
    done: list[tuple[Any, int]] = []

    def measured(cell: Any, seed: int, *_: Path) -> float:
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append((cell, seed))
        return 20.0

    run_all = measure["run_all"]
    monkeypatch.setitem(run_all.__globals__, "measured", measured)
    with pytest.raises(KeyboardInterrupt):
        run_all(out, ["bigram"], ["3", "8"], 1, tmp_path)
    assert len(out.read_text().splitlines()) == 3
    first = done.copy()
    done.clear()
    with pytest.raises(KeyboardInterrupt):
        run_all(out, ["bigram"], ["3", "8"], 1, tmp_path)
    assert not set(first) & set(done)
    assert all(cell.model == "bigram" and cell.epsilon in ("3", "8") for cell, _ in first + done)


def test_what_is_measured_are_settings_of_a_run(prepared: Path) -> None:
    measure = module("measure")
    all_cells = list(measure.cells())
    assert len(all_cells) == len(set(all_cells))
    for cell in all_cells:
        given = {key.replace("_", "-"): value for key, value in measure.settings(cell).items()}
        given["physical-batch-size"] = min(given.get("physical-batch-size", 32), given["expected-batch-size"])
        settings = config(measure.MODELS[cell.model].config, prepared, **given)
        task_of(settings)
        assert settings.private == (cell.epsilon != "off")
        assert (settings.partition == "by:speaker") == (settings.unit == "record")
        assert settings.unit == ("record" if cell.counted == "each" else "person:speaker")
