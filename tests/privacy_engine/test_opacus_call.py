"""Loops of Opacus' ghost clipping, written for it and changed in three lines: they train the definition."""

import difflib
import inspect
from contextlib import nullcontext

import opacus
import pytest
import torch
import torch.nn.functional as F
from attached import small_batch, small_model
from dp_accounting import dp_event, pld
from privacy_engine.turns import ByHand
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import fl_dp
from fl_dp.errors import ConfigError, ProbeError
from fl_dp.privacy_engine.engine import PrivacyEngine

RECORDS, BATCH = 60, 6


class SampleConvNet(nn.Module):
    """In the manner of Opacus' MNIST example."""

    def __init__(self):
        super().__init__()
        self.conv1, self.fc1 = nn.Conv2d(1, 4, 4, 2), nn.Linear(4 * 2 * 2, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2, 1)  # -> [B, 4, 2, 2]
        return self.fc1(x.view(-1, 4 * 2 * 2))


def digits():
    generator = torch.Generator().manual_seed(2)
    images = torch.randn(RECORDS, 1, 8, 8, generator=generator)
    return TensorDataset(images, torch.randint(0, 10, (RECORDS,), generator=generator))


# Written anew in the order of Opacus' mnist.py, with its ghost clipping.
THEIRS = """
from opacus import PrivacyEngine


def train(args, model, device, train_loader, optimizer, criterion, privacy_engine):
    model.train()
    losses = []
    for _batch_idx, (data, target) in enumerate(train_loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        output = model(data)
        loss = criterion(output, target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return privacy_engine.get_epsilon(delta=args.delta)


def test(model, device, test_loader):
    model.eval()
    criterion = nn.CrossEntropyLoss()
    test_loss = 0
    with torch.no_grad():
        for data, target in test_loader:
            output = model(data.to(device))
            test_loss += criterion(output, target.to(device)).item()
    return test_loss / len(test_loader)


def main(args, model, train_loader, test_loader, device="cpu"):
    optimizer = optim.SGD(model.parameters(), lr=args.lr, momentum=0)
    privacy_engine = PrivacyEngine()
    model, optimizer, criterion, train_loader = privacy_engine.make_private(
        module=model,
        optimizer=optimizer,
        criterion=nn.CrossEntropyLoss(),
        data_loader=train_loader,
        noise_multiplier=args.sigma,
        max_grad_norm=args.max_per_sample_grad_norm,
        grad_sample_mode="ghost",
        poisson_sampling=True,
    )
    for epoch in range(1, args.epochs + 1):
        epsilon = train(args, model, device, train_loader, optimizer, criterion, privacy_engine)
        test(model, device, test_loader)
    return optimizer, epsilon
"""
CHANGED = {
    "from opacus import PrivacyEngine": "import fl_dp",
    "privacy_engine = PrivacyEngine()": "privacy_engine = fl_dp",
    "privacy_engine.get_epsilon(delta=args.delta)": "optimizer.get_privacy_spent().epsilon",
}
OURS = THEIRS
for before, after in CHANGED.items():
    OURS = OURS.replace(before, after)


def test_three_lines_of_the_example_change():
    changed = [line for line in difflib.ndiff(THEIRS.splitlines(), OURS.splitlines()) if line[0] == "+"]
    assert len(changed) == len(CHANGED) == 3


@pytest.mark.filterwarnings("ignore:.*")  # of Opacus
@pytest.mark.parametrize("program", [THEIRS, OURS], ids=["theirs", "ours"])
def test_the_example_runs_as_it_was_written_and_as_it_was_changed(program):
    class Args:
        lr, sigma, max_per_sample_grad_norm, epochs, delta = 0.1, 1.0, 1.0, 2, 1e-5

    space = {"nn": nn, "optim": torch.optim, "torch": torch}
    exec(program, space)
    data, model = digits(), SampleConvNet()
    loader = DataLoader(data, batch_size=20, shuffle=True)  # Opacus counts in whole batches, too
    optimizer, epsilon = space["main"](Args, model, loader, DataLoader(data, batch_size=RECORDS))
    event = dp_event.PoissonSampledDpEvent(20 / RECORDS, dp_event.GaussianDpEvent(1.0))
    expected = pld.PLDAccountant().compose(event, 6).get_epsilon(1e-5)
    assert epsilon == pytest.approx(expected, rel=0.02)
    if program is OURS:
        assert type(optimizer) is torch.optim.SGD
        assert all(one is not None for one in optimizer.param_groups)


def private(model, criterion=None, *, data=None, lr=0.5, batch_size=BATCH, **options):
    if data is None:
        x, y = small_batch(RECORDS)
        data = TensorDataset(x.double(), y)
    return fl_dp.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=lr),
        criterion=criterion,
        data_loader=DataLoader(data, batch_size=batch_size, shuffle=True),
        **{"noise_multiplier": 1.0, "max_grad_norm": 0.3, **options},
    )


def step(model, optimizer, criterion, x, y):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


@pytest.mark.parametrize("noise", [0.0, 1.1])
def test_the_loop_is_one_backward_per_example(noise):
    given = small_model().double()
    by_hand = ByHand(given, batch_size=BATCH, noise=noise)
    context = pytest.warns(UserWarning, match="nothing is protected") if noise == 0 else nullcontext()
    with context:
        model, optimizer, criterion, loader = private(
            given, noise_multiplier=noise, generator=torch.Generator().manual_seed(4)
        )
    assert model is given
    sizes = []
    while 0 not in sizes:
        for x, y in loader:
            assert step(model, optimizer, criterion, x, y).isnan()
            by_hand.step(x, y)
            sizes.append(len(x))
    by_hand.twin.assert_same(model)
    assert optimizer.get_privacy_spent().steps == len(sizes)
    assert optimizer.get_privacy_spent().sampling == "seen"


def test_a_loss_of_several_numbers_is_their_mean_for_each_record():
    model, x = small_model().double(), small_batch(RECORDS)[0].double()
    targets = torch.randn(RECORDS, 3, dtype=torch.float64)
    by_hand = ByHand(model, batch_size=BATCH)
    with pytest.warns(UserWarning, match="nothing is protected"):
        model, optimizer, criterion, loader = private(
            model, nn.MSELoss(), data=TensorDataset(x, targets), noise_multiplier=0, show_loss=True
        )
    for x, y in loader:
        expected = nn.MSELoss()(model(x), y) if len(x) else torch.tensor(0.0)
        loss = step(model, optimizer, criterion, x, y)
        torch.testing.assert_close(loss.double(), expected.double())
        by_hand.step(x, y, losses=lambda model, x, y: (model(x) - y).square().mean(1))
    by_hand.twin.assert_same(model)


def test_targets_that_make_a_loss_of_all_pairs_are_refused():
    model = nn.Sequential(nn.Linear(6, 1))
    data = TensorDataset(small_batch(RECORDS)[0], torch.randn(RECORDS))
    model, optimizer, criterion, loader = private(model, nn.MSELoss(), data=data, batch_size=30)
    x, y = next(iter(loader))
    with (
        pytest.warns(UserWarning, match="target size"),
        pytest.raises(ProbeError, match=r"other examples|Another example"),
    ):
        step(model, optimizer, criterion, x, y)
    assert optimizer.privacy_engine.steps == 0


def test_a_draw_beyond_one_pass_is_refused_with_the_way_on():
    model, optimizer, criterion, loader = private(
        small_model().double(), physical_batch_size=10, batch_size=50
    )
    x, y = next(iter(loader))
    with pytest.raises(ConfigError, match=r"more records than physical_batch_size=10.*loss = engine\.loss"):
        step(model, optimizer, criterion, x, y)
    assert optimizer.privacy_engine.steps == 0


def test_a_locked_engine_touches_no_data_in_this_loop():
    model, optimizer, criterion, loader = private(small_model().double())
    x, y = next(iter(loader))
    optimizer.privacy_engine.lock()
    with pytest.raises(ConfigError, match="is locked"):
        criterion(model(x), y)


def test_an_evaluation_takes_the_criterion_that_was_given():
    model, _, criterion, loader = private(small_model().double())
    x, y = next(iter(loader))
    with torch.no_grad(), pytest.raises(ConfigError, match="to evaluate, use the one that was given"):
        criterion(model(x), y)


SAME = {
    "batch_first": True,
    "loss_reduction": "mean",
    "poisson_sampling": True,
    "clipping": "flat",
    "noise_generator": None,
    "grad_sample_mode": "ghost",
    "wrap_model": False,
    "rand_on_empty": False,
}


def test_every_keyword_of_opacus_is_taken_where_it_asks_for_what_is_done_and_else_refused_by_name():
    theirs = set(inspect.signature(opacus.PrivacyEngine.make_private).parameters)
    own = set(inspect.signature(fl_dp.make_private).parameters) | set(
        inspect.signature(PrivacyEngine.__init__).parameters
    )
    assert theirs - {"kwargs"} - own - {"data_loader"} == SAME.keys() - {"clipping"}
    private(small_model().double(), **SAME)
    other = {
        "batch_first": False,
        "loss_reduction": "sum",
        "poisson_sampling": False,
        "clipping": "per_layer",
        "noise_generator": torch.Generator(),
        "grad_sample_mode": "hooks",
        "wrap_model": True,
        "rand_on_empty": True,
    }
    for name, value in other.items():
        with pytest.raises(ConfigError, match=rf"{name}=.* cannot be honoured: "):
            private(small_model().double(), **{name: value})
    with pytest.raises(ConfigError, match="adaptive bound"):
        private(small_model().double(), clipping="adaptive", target_unclipped_quantile=0.5)
    with pytest.raises(TypeError, match="unexpected keyword argument 'total_step'"):
        private(small_model().double(), total_step=1)
    with pytest.raises(ConfigError, match="the criterion makes the losses"):
        private(small_model().double(), losses_of=print)


@pytest.mark.parametrize("criterion", [F.cross_entropy, nn.CrossEntropyLoss(reduction="sum"), nn.Softmax()])
def test_a_criterion_that_hides_each_record_s_loss_is_refused(criterion):
    with pytest.raises(ConfigError, match=r"no reduction='mean'.*losses_of"):
        private(small_model(), criterion)


def test_with_epsilon_the_noise_is_calibrated_and_said_of_the_given_delta():
    model = small_model()
    _, optimizer, _, loader = fl_dp.make_private_with_epsilon(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(TensorDataset(*small_batch(RECORDS)), batch_size=BATCH),
        target_epsilon=2.0,
        target_delta=1e-4,
        epochs=3,
        max_grad_norm=1.0,
    )
    spent = optimizer.get_privacy_spent(steps=3 * len(loader))
    assert (spent.delta, spent.epsilon) == (1e-4, pytest.approx(2.0, abs=0.01))
    assert spent.epsilon <= 2.0
