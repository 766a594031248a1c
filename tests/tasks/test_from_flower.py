"""A Flower app with a `train` and an `evaluate` of its own: what a task takes over, and what it refuses."""

import runpy
import sys
from pathlib import Path
from textwrap import dedent

import pytest
import torch
from definition import clipped_one_by_one
from docs.blocks import ROOT, file_in
from flwr.clientapp import ClientApp
from trainers import plan_of, trainer_for

import fl_dp
from fl_dp.config.task import TaskSettings
from fl_dp.errors import ConfigError, TaskError
from fl_dp.federation.server.evaluation import evaluate
from fl_dp.tasks.load import give, new_model, task_of
from fl_dp.tasks.records import records_of, train_records
from fl_dp.tasks.task import Task
from fl_dp.training.trainer import take_steps

CPU = torch.device("cpu")

# As `flwr new` lays an app out: model, loaders and loops in one file, the ClientApp in another.
APP = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.fc = nn.Conv2d(1, 3, 3), nn.Linear(48, 10)
        def forward(self, x):
            return self.fc(torch.relu(self.conv(x)).flatten(1))

    def rows(count, seed):
        random = torch.Generator().manual_seed(seed)
        images = torch.randn(count, 1, 6, 6, generator=random)
        return [{"img": img, "label": int(img.sum() > 0) + int(img.sum() > 5)} for img in images]

    def load_data(partition_id, num_partitions, batch_size):
        mine = rows(200, 0)[partition_id::num_partitions]
        return (DataLoader(mine[:16], batch_size=batch_size, shuffle=True),
                DataLoader(mine[16:], batch_size=batch_size))

    def load_centralized_dataset():
        return DataLoader(rows(64, 1), batch_size=16)

    def train(net, trainloader, epochs, lr, device):
        criterion = torch.nn.CrossEntropyLoss()
        optimizer = torch.optim.SGD(net.parameters(), lr=lr)
        net.train()
        for _ in range(epochs):
            for batch in trainloader:
                optimizer.zero_grad()
                loss = criterion(net(batch["img"]), batch["label"])
                loss.backward()
                optimizer.step()

    def test(net, testloader, device):
        criterion = torch.nn.CrossEntropyLoss()
        correct, loss = 0, 0.0
        with torch.no_grad():
            for batch in testloader:
                outputs = net(batch["img"])
                loss += criterion(outputs, batch["label"]).item()
                correct += (outputs.argmax(1) == batch["label"]).sum().item()
        return loss / len(testloader), correct / len(testloader.dataset)
"""
PAGE = ROOT / "docs" / "migrating.md"
LEARNED = file_in(PAGE, "my_task.py")
TASK = f"""{LEARNED}
    # as the page says of a real site's
    def train_data(self):
        return whole(load_data(0, 10, batch_size=32)[0])

    def test_data(self):
        return whole(load_centralized_dataset())

import torch
from my_app.task import load_centralized_dataset, load_data

def whole(loader):
    batches = list(loader)
    return torch.cat([b["img"] for b in batches]), torch.cat([b["label"] for b in batches])
"""


def write_files(folder: Path, task: str = TASK) -> Path:
    (folder / "my_app").mkdir(exist_ok=True)
    (folder / "my_app" / "task.py").write_text(dedent(APP))
    (folder / "my_task.py").write_text(task)
    return folder / "my_task.py"


@pytest.fixture
def ours(tmp_path: Path) -> Task:
    return task_of(TaskSettings(task=str(write_files(tmp_path))))


def local_round(task, model, **asked):
    """Three steps on all 16 records; the bound is far below the lengths of their gradients."""
    data = train_records(task.settings)
    assert len(data) == 16
    plan = plan_of(expected_batch_size=16, learning_rate=0.2, max_grad_norm=0.05, **asked)
    take_steps(trainer_for(model, task.objective, plan), data, 3, 1.0, 5)
    return data


def test_without_privacy_its_rounds_are_those_of_the_apps_own_train(ours):
    model, net, app = new_model(ours), new_model(ours), sys.modules["my_app.task"]
    local_round(ours, model, private=False, noise_multiplier=0.0)
    app.train(net, app.load_data(0, 10, batch_size=16)[0], epochs=3, lr=0.2, device="cpu")
    for name, parameter in net.named_parameters():
        torch.testing.assert_close(model.get_parameter(name), parameter, rtol=1e-4, atol=1e-6)


def test_with_privacy_its_steps_are_clipped_example_by_example_with_the_apps_own_criterion(ours):
    """Next to no noise, so that all else is seen."""
    model, net = new_model(ours), new_model(ours).double()
    data = local_round(ours, model, noise_multiplier=1e-5)
    criterion = torch.nn.CrossEntropyLoss()
    for _ in range(3):
        one_by_one = (criterion(net(data.x[n : n + 1].double()), data.y[n : n + 1]) for n in range(16))
        total = clipped_one_by_one(net, one_by_one, 0.05)
        with torch.no_grad():
            for name, parameter in net.named_parameters():
                parameter -= 0.2 * total[name] / 16
    for name, parameter in net.named_parameters():
        torch.testing.assert_close(model.get_parameter(name).double(), parameter, rtol=1e-4, atol=1e-5)


def test_in_the_pages_simulation_each_client_has_its_own_partition(ours, tmp_path, monkeypatch):
    app, given = sys.modules["my_app.task"], {}
    (tmp_path / "simulation.py").write_text(file_in(PAGE, "simulation.py"))
    monkeypatch.setattr("fl_dp.simulate", lambda **arguments: given.update(arguments))
    monkeypatch.syspath_prepend(tmp_path)
    runpy.run_path(str(tmp_path / "simulation.py"), run_name="__main__")
    assert list(given["data"]) == [f"partition {k}" for k in range(10)]
    for k, data in enumerate(given["data"].values()):
        loader, _ = app.load_data(k, 10, batch_size=16)
        mine = torch.stack([one["img"] for one in loader.dataset])
        assert torch.equal(data.x.sort(0).values, mine.sort(0).values)
    own = ours.settings.task
    for arguments in ({"task": own}, {"task": "", "config": fl_dp.RunConfig(task=own)}):
        with pytest.raises(ConfigError, match=r"data: the task reads its own records, by train_data\(\)"):
            fl_dp.check(**{**given, **arguments})


def test_the_server_measures_what_the_apps_own_test_measures(ours):
    app, model = sys.modules["my_app.task"], new_model(ours)
    found = evaluate(model, records_of(ours, "test"), ours, CPU)
    loss, accuracy = app.test(model, app.load_centralized_dataset(), "cpu")
    assert (found.loss, found.metrics["accuracy"]) == (pytest.approx(loss), pytest.approx(accuracy))


@pytest.mark.parametrize("loop", ["train", "fit", "evaluate"])
def test_a_task_with_a_loop_of_its_own_is_refused_before_anything_is_read(loop, tmp_path):
    with pytest.raises(ConfigError, match=rf"Looped\.{loop}\(\) would never be called: .* losses\(model"):
        type("Looped", (Task,), {loop: lambda self, parameters, config: None})
    path = write_files(tmp_path, f"{LEARNED}\n    def {loop}(self): pass\n")
    with pytest.raises(TaskError, match=rf"cannot be imported: ConfigError: Ours\.{loop}\(\)"):
        task_of(TaskSettings(task=str(path)))


def test_a_client_app_is_no_task():
    """Nor can its SuperNode join: tests/attacks/test_strangers_at_the_port.py has one that tries."""
    with pytest.raises(ConfigError, match=r"ClientApp .*: expected a class that is a fl_dp\.Task"):
        give(ClientApp())
