"""What a run has left, as Python has it, and whose code is run to have it."""

import json
import pickle
import sys
from dataclasses import replace

import pytest
import torch
from torch import nn

import fl_dp
from fl_dp.errors import ConfigError
from fl_dp.form import Form
from fl_dp.tasks.load import give


class Own(fl_dp.Task):
    classes = ("no", "yes")

    def model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


class Other(Own):
    def model(self) -> nn.Module:
        return nn.Linear(3, 2)


def test_a_run_has_rounds_budgets_settings_and_what_was_spent(make_run, monkeypatch):
    folder = make_run(rounds=7, learning_rate=0.25)
    result = fl_dp.load_run(folder)
    assert (result.status, result.private, result.epsilon, result.delta) == ("completed", True, 1.5, 1e-5)
    assert (result.settings.rounds, result.settings.learning_rate) == (7, 0.25)
    assert list(result.budgets["client"]) == ["secret-name"]
    (row,) = result.rounds.to_dict("records")
    assert (row["round"], row["accuracy"], row["epsilon"]) == (1, 0.75, 1.5)
    assert (row["trained"], row["declined"], row["failed"]) == (1, 1, 0)
    monkeypatch.setattr("fl_dp.api.result.find_spec", lambda name: None)
    lists = fl_dp.load_run(folder)  # without pandas
    assert lists.rounds == [row]
    spent = {"epsilon": 1.5, "budget": 3.0, "delta": 1e-5, "accountant": "pld"}
    (budget,) = lists.budgets
    assert budget.items() >= {"client": "secret-name", **spent}.items()


def test_it_says_what_came_out_and_draws_it(make_run, monkeypatch):
    result = fl_dp.load_run(make_run(rounds=7))
    assert "  epsilon  1.50 of 3, at delta 1e-05" in repr(result)
    dear = replace(result, summary={**result.summary, "epsilon": 1.501})
    assert "  epsilon  1.51 of 3, at delta 1e-05" in repr(dear)  # never below what was spent
    off = replace(result, settings=replace(result.settings, privacy="off"))
    assert "  epsilon  no privacy" in repr(off)
    assert [axes.get_ylabel() for axes in result.plot().axes] == ["accuracy", "epsilon"]
    rounds = result.folder / "rounds.jsonl"
    many = {f"own-{number}": number / 8 for number in range(8)} | {"recall[no]": 0.5, "recall[yes]": None}
    line = json.loads(rounds.read_text())
    rounds.write_text(json.dumps(line | {"metrics": {"accuracy": None, **many}}) + "\n")
    said = repr(result).splitlines()
    assert said[4:6] == ["  accuracy hidden", "  own-0    0"]  # hidden: of few records
    assert said[12:] == [
        "  own-7    0.875",
        "  and 2 of single classes or subgroups: result.rounds has a column for each",
    ]
    monkeypatch.setattr("fl_dp.optional.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"plot\(\) needs the package matplotlib, .*the extra report"):
        result.plot()


@pytest.mark.parametrize(("privacy", "name"), [("on", "model.pt"), ("off", "model-NOT-PRIVATE.pt")])
def test_a_built_in_model_comes_with_its_weights_and_ready_to_answer(make_run, privacy, name):
    folder = make_run(privacy=privacy)
    result = fl_dp.load_run(folder)
    saved = torch.load(folder / name, weights_only=True)
    assert result.private is (privacy == "on")
    assert not result.model.training
    assert all(torch.equal(saved[name], value) for name, value in result.model.state_dict().items())
    assert result.description.classes == ("no", "yes")


def test_a_site_has_the_final_model_with_the_parameters_of_its_own(make_run, edit):
    folder = make_run(local_algorithm="mr-mtl:0.1", clients=3, model="mlp")
    kept = folder / "clients" / "kept"
    result = fl_dp.load_run(folder)
    with pytest.raises(ConfigError, match="only simulations with Ray"):
        result.model_of(1)
    state = result.model.state_dict()
    name, other, *_ = state
    kept.mkdir(parents=True)
    for server_round in (2, 10):
        own = {name: torch.full_like(state[name], float(server_round))}
        torch.save({"own": own, "run": "r"}, kept / f"1-{server_round}.pt")
    first, second = (result.model_of(client).state_dict() for client in (1, 2))
    assert (first[name] == 10.0).all()
    assert torch.equal(first[other], state[other])
    assert torch.equal(second[name], state[name])
    with pytest.raises(ConfigError, match="client 3: the run's clients are 0 to 2"):
        result.model_of(3)
    edit(folder, local_algorithm="fedavg")
    with pytest.raises(ConfigError, match="have no models of their own; see local-algorithm = mr-mtl"):
        fl_dp.load_run(folder).model_of(0)


def test_a_task_of_ones_own_is_run_only_if_it_is_handed_over(make_run):
    folder, gone = make_run(Own), give(Own).replace("Own", "Gone")
    for task, words in ((None, "its own task, Own; pass it"), (gone, "of another Python process")):
        with pytest.raises(ConfigError, match=words):
            _ = fl_dp.load_run(folder, task=task).model
    assert [type(part) for part in fl_dp.load_run(folder, task=Own).model] == [nn.Linear, nn.Tanh, nn.Linear]


def test_a_file_that_the_folder_names_is_never_imported(make_run, edit, tmp_path):
    folder = make_run()
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    (folder / "evil_module.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    for task in (str(folder / "evil.py"), "evil_module:Evil"):
        edit(folder, task=task)
        sys.path.insert(0, str(folder))
        try:
            with pytest.raises(ConfigError, match="pass it"):
                _ = fl_dp.load_run(folder).model
        finally:
            sys.path.remove(str(folder))
    assert not (tmp_path / "ran").exists()


def test_a_model_of_code_has_to_be_named_and_is_read_from_where_it_lies_now(make_run, tmp_path, monkeypatch):
    (tmp_path / "ours.py").write_text(MAKE)
    folder = make_run(model=f"{tmp_path}/ours.py:make")
    weights = torch.load(folder / "model.pt", weights_only=True)
    (tmp_path / "moved").mkdir()
    (tmp_path / "ours.py").rename(tmp_path / "moved" / "ours.py")
    monkeypatch.chdir(tmp_path)
    model = fl_dp.load_run(folder, model="moved/ours.py:make").model
    assert torch.equal(model.weight, weights["weight"])
    for named, words in (
        (None, r"model = '.*ours\.py:make': is not built in; if you trust its code, name it"),
        ("moved/ours.py:other", r"model = 'moved/ours.py:other': the run's model is"),
    ):
        with pytest.raises(ConfigError, match=words):
            _ = fl_dp.load_run(folder, model=named).model


def test_weights_are_never_unpickled_as_code_and_those_of_another_model_are_refused(make_run, tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    folder = make_run(Own)
    with (
        pytest.raises(ConfigError, match="its weights belong to another model"),
        pytest.warns(UserWarning, match="its code differs from the run's"),
    ):
        _ = fl_dp.load_run(folder, task=Other).model
    (folder / "model.pt").write_bytes(pickle.dumps(Evil(), protocol=2))
    with pytest.raises(ConfigError, match="cannot be read as weights"):
        _ = fl_dp.load_run(folder, task=Own).model
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("text", ["", "[]", '{"form": 1}', '{"form": {"input_shape": [3]}}'])
def test_a_damaged_description_is_refused(make_run, text):
    folder = make_run()
    (folder / "model.json").write_text(text)
    with pytest.raises(ConfigError, match=r"model\.json: is damaged"):
        _ = fl_dp.load_run(folder).model


def test_a_run_that_goes_on_has_no_summary_yet_and_no_model(make_run, tmp_path):
    folder = make_run()
    for name in ("summary.json", "model.pt", "rounds.jsonl"):
        (folder / name).unlink()
    result = fl_dp.load_run(folder)
    assert (result.status, result.epsilon, len(result.rounds), len(result.budgets)) == ("", None, 0, 0)
    with pytest.raises(ConfigError, match="wrote no model"):
        _ = result.model
    with pytest.raises(ConfigError, match="holds no run"):
        fl_dp.load_run(tmp_path)


MAKE = "from torch import nn\ndef make(form):\n    return nn.Linear(form.input_shape[0], form.outputs)\n"


def test_a_folder_of_transformers_may_have_moved(make_run, tmp_path):
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 8, "n_embd": 4, "n_layer": 1, "n_head": 1, "n_positions": 4}
    config = transformers.GPT2Config(**sizes, pad_token_id=0, bos_token_id=1, eos_token_id=2)
    config.save_pretrained(tmp_path / "here")
    folder = make_run(model=f"hf:{tmp_path}/here", form=Form((3,), 2, vocabulary=8))
    (tmp_path / "here").rename(tmp_path / "there")
    weights = torch.load(folder / "model.pt", weights_only=True)
    state = fl_dp.load_run(folder, model=f"hf:{tmp_path}/there").model.state_dict()
    assert all(torch.equal(state[name], tensor) for name, tensor in weights.items())
