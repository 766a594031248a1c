"""Optimizers by name: torch.optim's own steps, from a closed list, with settings that are numbers."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from torch import nn
from trainers import plan_of, trainer_for

from fl_dp.config.client import ClientConfig
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError, DeclinedError
from fl_dp.federation.client.policy import check_plan
from fl_dp.records import RoundPlan
from fl_dp.training.optimizers import MomentumSGD, TorchDescent, descent_of, optimizers, settings_of
from fl_dp.training.trainer import take_steps

PLAN = plan_of(learning_rate=0.1)


def test_the_list_is_torchs_own_without_those_that_cannot_be() -> None:
    assert {"adam", "adamw", "sgd", "rmsprop", "adagrad", "nadam", "radam", "adafactor"} <= set(optimizers())
    assert not {"lbfgs", "sparseadam", "optimizer", "functional"} & set(optimizers())


@pytest.mark.parametrize("name", sorted(optimizers()))
def test_steps_are_those_of_torch_on_the_mean_gradient(name: str) -> None:
    ours = torch.randn(3, 4)
    theirs = ours.clone().requires_grad_()
    plan = replace(PLAN, optimizer=name, optimizer_settings="weight_decay=0.01" if name != "rprop" else "")
    settings = {} if name == "rprop" else {"weight_decay": 0.01}
    optimizer = optimizers()[name]([theirs], lr=0.1, **settings)
    descent = descent_of(plan, [ours], divisor=20.0)
    for _ in range(4):
        gradient = torch.randn(3, 4)
        theirs.grad = gradient
        optimizer.step()
        descent.step([20.0 * gradient])
    torch.testing.assert_close(ours, theirs.detach(), rtol=1e-4, atol=1e-5)


def test_nothing_is_left_on_the_parameters_and_some_may_have_no_gradient() -> None:
    parameters = [nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))]
    descent = descent_of(replace(PLAN, optimizer="adam"), parameters, divisor=1.0)
    descent.step([torch.ones(2), None])
    assert [p.grad for p in parameters] == [None, None]
    assert parameters[0][0] < 1
    assert parameters[1].tolist() == [1.0, 1.0]


def test_momentum_is_of_sgd_and_so_is_the_usual_way() -> None:
    assert isinstance(descent_of(PLAN, [torch.ones(2)], divisor=1.0), MomentumSGD)
    assert settings_of("sgd", "nesterov=true", 0.9) == {"nesterov": True, "momentum": 0.9}
    with pytest.raises(ConfigError, match=r"momentum = 0.9: only sgd takes it; set those of rmsprop with"):
        settings_of("rmsprop", "", 0.9)
    assert settings_of("rmsprop", "momentum=0.9") == {"momentum": 0.9}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("lbfgs", "", "cannot be used: it computes the loss several times a step"),
        ("sparseadam", "", "cannot be used: it is made for sparse gradients"),
        ("adamm", "", "expected adadelta or adafactor or adagrad or adam or"),
        ("adam", "lr=1.0", "adam has no 'lr' to set; it has amsgrad, betas"),
        ("adam", "maximize=true", "adam has no 'maximize' to set"),
        ("sgd", "momentum=0.5", "sgd has no 'momentum' to set"),
        ("adam", "betas=0.9", "betas = 0.9: expected a list of 2 numbers"),
        ("adam", "betas=[0.9,0.9,0.9]", "expected a list of 2 numbers"),
        ("adam", "betas=[0.9,2.0]", "torch.optim refuses it: Invalid beta"),
        ("adam", "amsgrad=1", "amsgrad = 1: expected true or false"),
        ("adam", "eps='x'", "eps = 'x': expected a number of at most"),
        ("adam", "eps=true", "eps = True: expected a number"),
        ("adam", "eps=nan", "eps = nan: expected a number"),
        ("adam", "weight_decay=1e7", "expected a number of at most 1e\\+06"),
        ("adam", "eps={a=1}", "expected a number"),
    ],
)
def test_nothing_else_can_be_named(name: str, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        settings_of(name, text)
    client = ClientConfig(client="0", ledger="x.sqlite")
    with pytest.raises(DeclinedError, match="the round asks for something that cannot be"):
        check_plan(replace(PLAN, optimizer=name, optimizer_settings=text), client, public_size=64)


def test_parameters_that_it_is_not_for_are_refused_before_a_payment() -> None:
    words = r"optimizer = 'muon': torch.optim refuses it: Muon only supports 2D"
    with pytest.raises(ConfigError, match=words):
        descent_of(replace(PLAN, optimizer="muon"), [torch.ones(2)], divisor=1.0)


@pytest.mark.parametrize("private", [True, False])
def test_training_takes_the_optimizers_steps(private: bool) -> None:
    """With next to no noise and no clipping: steps of Adam on the mean loss, for trainers of both kinds."""
    generator = torch.Generator().manual_seed(0)
    data = TensorData(torch.randn(20, 5, generator=generator), torch.arange(20) % 3, ("a", "b", "c"))
    plan = replace(
        PLAN,
        optimizer="adam",
        optimizer_settings="betas=[0.5,0.9]",
        max_grad_norm=1e3,
        private=private,
        noise_multiplier=1e-9 if private else 0.0,
    )
    torch.manual_seed(1)
    model, other = nn.Linear(5, 3), nn.Linear(5, 3)
    other.load_state_dict(model.state_dict())
    take_steps(trainer_for(model, data, plan, key=bytes(32)), data, 3, 1.0, 16)
    adam = torch.optim.Adam(other.parameters(), lr=0.1, betas=(0.5, 0.9))
    for _ in range(3):
        adam.zero_grad()
        nn.functional.cross_entropy(other(data.x), data.y).backward()
        adam.step()
    for mine, yours in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine, yours, rtol=1e-3, atol=1e-4)


def _adam(plan: RoundPlan, parameter: torch.Tensor) -> TorchDescent:
    made = descent_of(plan, [parameter], divisor=1.0)
    assert isinstance(made, TorchDescent)
    return made


def test_state_goes_on_where_it_was() -> None:
    torch.manual_seed(0)
    gradients = [torch.randn(3, 4) for _ in range(6)]
    plan = replace(PLAN, optimizer="adam", optimizer_state="keep")
    whole, halves = torch.ones(3, 4), torch.ones(3, 4)
    first, (one, two) = _adam(plan, whole), (_adam(plan, halves) for _ in range(2))
    for number, gradient in enumerate(gradients):
        first.step([gradient])
        if number == 3:
            two.load(one.state())
        (one if number < 3 else two).step([gradient])
    torch.testing.assert_close(whole, halves, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["adam", "sgd", "rmsprop", "adamw"])
@pytest.mark.parametrize("rate", [1e38, 1e308])
def test_no_rate_that_a_server_may_ask_for_ends_a_round(name: str, rate: float) -> None:
    """What overflows in a weight is cut afterwards; an optimizer that raises would cost the round."""
    plan = replace(PLAN, optimizer=name, optimizer_state="keep", learning_rate=rate)
    descent = descent_of(plan, [torch.ones(3)], divisor=64.0)
    for _ in range(3):
        descent.step([torch.tensor([1.0, -1.0, 0.0])])


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_steps_are_those_of_torch(momentum):
    torch.manual_seed(0)
    ours = [torch.randn(3, 4), torch.randn(5), torch.randn(2)]
    theirs = [p.clone().requires_grad_() for p in ours]
    optimizer = torch.optim.SGD(theirs, lr=0.3, momentum=momentum)
    descent = MomentumSGD(ours, learning_rate=0.3, momentum=momentum)
    for _ in range(5):
        gradients = [torch.randn(3, 4), torch.randn(5), None]
        for parameter, gradient in zip(theirs, gradients, strict=True):
            parameter.grad = gradient
        optimizer.step()
        before = [None if gradient is None else gradient.clone() for gradient in gradients]
        descent.step(gradients)
        assert all(old is None or torch.equal(new, old) for new, old in zip(gradients, before, strict=True))
    for mine, yours in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, yours.detach(), rtol=0, atol=0)


def test_a_private_step_and_asking_for_an_optimizer_leave_the_compiler_out():
    """Processes that check settings take no step, and those that take steps should not wait for it."""
    code = """
import sys, torch
from fl_dp.training.optimizers import settings_of
settings_of("adam", "")
from fl_dp.engine.probe import probe
from fl_dp.records import RoundPlan
from fl_dp.data.tensor_data import TensorData
from fl_dp.config.task import TaskSettings
from fl_dp.tasks.task import Task
from fl_dp.training.private import PrivateTrainer
data = TensorData(torch.randn(9, 3), torch.zeros(9, dtype=torch.int64), ("a", "b"))
model = torch.nn.Linear(3, 2)
plan = RoundPlan("r", 1, "m", 1, 3, 1.0, 0.5, 1.0, 1.0)
task = Task(TaskSettings())
task.form = data.form
cpu = torch.device("cpu")
PrivateTrainer(model, probe(model, data.x), plan, task.objective, device=cpu).step(data, 0.5, 4)
print(sorted({"sympy", "torch._dynamo"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
