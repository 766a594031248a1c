"""An engine that pays: before a record is read, never more than the account has, and nothing twice."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import dp_accounting
import pytest
import torch
from attached import losses_of, small_batch, small_model
from dp_accounting.pld import PLDAccountant
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Subset, TensorDataset

from fl_dp import Ledger, PoissonSampler, PrivacyEngine
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.engine.sampling import poisson_draw
from fl_dp.errors import BudgetExhaustedError, ConfigError, DeclinedError, LedgerError, ModelError
from fl_dp.privacy_engine import private_step
from fl_dp.records import Entry, total_steps

N, RATE, NOISE = 40, 0.25, 2.0
PATHS = [str(Path(__file__).parent), *sys.path]  # of another process


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledgers" / "ehr.sqlite"


@pytest.fixture
def dataset():
    return TensorDataset(*small_batch(N))


class Loop:
    """A user's loop. seen: what the ledger had for this run when each record was read."""

    def __init__(self, path, dataset, run="job-7", *, epsilon=3.0, steps=4, account=None, **options):
        self.ledger = Ledger.open(path)
        given = {"records": dataset, "epsilon": epsilon, "delta": 1e-5, **(account or {})}
        self.account = self.ledger.account("ehr", **given)
        self.model = model = small_model()
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        settings = {"noise_multiplier": NOISE, "account": self.account, "run": run, **options}
        self.engine = PrivacyEngine(
            model,
            batch_size=10,
            sample_size=N,
            max_grad_norm=1.0,
            losses_of=lambda x, y: losses_of(model, x, y),
            **settings,
        )
        self.sampler = PoissonSampler(N, expected_batch_size=10, physical_batch_size=4, steps=steps)
        self.engine.attach(self.optimizer, sampler=self.sampler)
        self.loader = DataLoader(dataset, batch_sampler=self.sampler)

    def epoch(self, most=None):
        """One pass; left early after `most` steps."""
        for number, batches in enumerate(self.sampler.logical_batches(self.loader)):
            if number == most:
                return
            for x, y in batches:
                self.optimizer.virtual_step(loss=self.engine.losses(x, y))
            self.optimizer.step(loss=None)

    def rounds(self):
        (account,) = self.ledger.accounts()
        return [(one.run, one.server_round, one.entry.steps, one.committed) for one in account.rounds]


class Unsized:
    """A data set that does not tell how many records it has."""

    def __init__(self, records):
        self.records = records

    def __getitem__(self, index):
        return self.records[index]


class Watched(TensorDataset):
    """paid: for each record that is read, the steps that another process finds paid for."""

    def __init__(self, path, *tensors):
        super().__init__(*tensors)
        self.path, self.paid = path, []

    def __getitem__(self, index):
        with Ledger.open(self.path) as ledger:
            self.paid.append(total_steps(ledger.spent("ehr")))
        return super().__getitem__(index)


def test_a_round_is_paid_for_before_its_first_record_is_read(path):
    watched = Watched(path, *small_batch(N))
    loop = Loop(path, watched)
    assert loop.rounds() == []
    loop.epoch()
    assert set(watched.paid) == {4}
    assert loop.rounds() == [("job-7", 1, 4, True)]
    loop.epoch()
    assert set(watched.paid) == {4, 8}


def test_a_loader_that_reads_ahead_reads_no_unpaid_step(path):
    watched = Watched(path, *small_batch(N))
    loop = Loop(path, watched, steps=6, steps_per_payment=2)
    ahead, read = 0, len
    for batches in loop.sampler.logical_batches(loop.loader):
        ahead = read(watched.paid)
        for x, y in batches:
            loop.optimizer.virtual_step(loss=loop.engine.losses(x, y))
        loop.optimizer.step(loss=None)
    assert ahead
    assert loop.rounds() == [("job-7", number, 2, True) for number in (1, 2, 3)]
    assert sorted(set(watched.paid)) == [2, 4, 6]


def test_workers_that_prefetch_lose_no_step_that_is_paid_for(path, dataset):
    most = Loop(path, dataset).account.left(sample_rate=RATE, noise_multiplier=NOISE).steps
    loop = Loop(path, dataset, steps=2 * most, steps_per_payment=3)
    loop.loader = DataLoader(
        dataset,
        batch_sampler=loop.sampler,
        num_workers=1,
        prefetch_factor=most,
        multiprocessing_context="fork",
    )
    loop.epoch()
    assert loop.engine.steps == most
    assert all(committed for *_, committed in loop.rounds())


def test_what_still_fits_is_taken_then_the_loop_ends_and_the_next_raises(path, dataset):
    loop = Loop(path, dataset)
    most = loop.account.left(sample_rate=RATE, noise_multiplier=NOISE).steps
    loop.sampler.steps = most - 1
    loop.epoch()
    loop.epoch()
    assert loop.engine.steps == most
    before = [one.clone() for one in loop.model.parameters()]
    with pytest.raises(BudgetExhaustedError, match=r"epsilon 2\.9\d+ of 3 is spent at delta 1e-05, by pld"):
        loop.epoch()
    assert all(map(torch.equal, before, loop.model.parameters()))
    assert loop.rounds()[-1] == ("job-7", 2, 1, True)
    assert loop.account.left(sample_rate=RATE, noise_multiplier=NOISE).steps == 0


def test_epsilon_is_dp_accountings_for_the_steps_that_were_paid(path, dataset):
    loop = Loop(path, dataset)
    loop.epoch()
    theirs = PLDAccountant().compose(
        dp_accounting.PoissonSampledDpEvent(RATE, dp_accounting.GaussianDpEvent(NOISE)), 4
    )
    expected = theirs.get_epsilon(1e-5)
    assert loop.account.spent().epsilon == pytest.approx(expected, rel=2e-3)
    assert loop.account.left().epsilon == 3.0 - loop.account.spent().epsilon
    assert loop.engine.get_privacy_spent().epsilon == loop.account.spent().epsilon


def test_steps_paid_and_not_taken_stay_spent_and_a_resumed_loop_takes_them(path, dataset):
    loop = Loop(path, dataset)
    loop.epoch(most=1)
    assert loop.rounds() == [("job-7", 1, 4, False)]
    loop.epoch()  # its other three steps
    assert (loop.engine.steps, loop.rounds()) == (4, [("job-7", 1, 4, True)])
    loop.epoch(most=1)
    loop.engine.detach()
    again = Loop(path, dataset)  # another process: it pays anew, in new rounds
    again.epoch()
    assert again.rounds()[1:] == [("job-7", 2, 4, False), ("job-7", 3, 4, True)]


def test_no_payment_is_for_more_steps_than_the_pass_still_has(path, dataset):
    loop = Loop(path, dataset, steps=4, steps_per_payment=3)
    loop.epoch()
    assert loop.rounds() == [("job-7", 1, 3, True), ("job-7", 2, 1, True)]


def test_draws_and_noise_are_the_payments_and_never_the_same_twice(path, dataset, monkeypatch):
    sources, keys = [], []
    noised = private_step.noised
    monkeypatch.setattr(
        private_step, "noised", lambda r, c, source: (sources.append(source), noised(r, c, source))[1]
    )
    loop = Loop(path, dataset)
    reserve = loop.ledger.reserve
    monkeypatch.setattr(loop.ledger, "reserve", lambda *given: (keys.append(reserve(*given)), keys[-1])[1])
    drawn = []
    for _ in range(2):
        for batches in loop.sampler.logical_batches(loop.sampler):
            drawn.append([i for which in batches for i in which])
            for part in torch.tensor(drawn[-1], dtype=torch.int64).split(4) if drawn[-1] else ():
                loop.optimizer.virtual_step(loss=loop.engine.losses(*dataset[part]))
            loop.optimizer.step(loss=None)
    steps = [Randomness(paid.key).child("step", i) for paid in keys for i in range(4)]
    assert sources == steps  # as in a federation's round
    assert len(set(map(repr, drawn))) == len({one.key for one in sources}) == 8
    assert drawn == [poisson_draw(N, RATE, one.child("draw")).tolist() for one in steps]


def test_two_loops_in_two_processes_never_overspend(path, dataset, tmp_path):
    script = f"""
        import sys, torch
        sys.path[:0] = {PATHS!r}
        from test_payments import BudgetExhaustedError, Loop, TensorDataset, small_batch
        loop = Loop({str(path)!r}, TensorDataset(*small_batch(40)), sys.argv[1], steps=3)
        try:
            while True:
                loop.epoch()
        except BudgetExhaustedError:
            print(loop.engine.steps)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    both = [subprocess.Popen([*command, run], stdout=subprocess.PIPE, text=True) for run in ("a", "a", "b")]
    taken = [int(one.communicate(timeout=300)[0]) for one in both]
    loop = Loop(path, dataset)
    assert sum(taken) == loop.account.spent().taken
    assert loop.account.spent().epsilon <= 3.0
    assert loop.account.left(sample_rate=RATE, noise_multiplier=NOISE).steps == 0
    assert {run for run, *_ in loop.rounds()} <= {"a", "b"}  # a process that begins late finds nothing left


@pytest.mark.parametrize("after", [0, 5])
def test_kill_9_takes_no_step_without_payment_and_pays_no_more_than_was_reserved(path, dataset, after):
    script = f"""
        import sys
        sys.path[:0] = {PATHS!r}
        from test_payments import Loop, TensorDataset, small_batch
        loop = Loop({str(path)!r}, TensorDataset(*small_batch(40)))
        while True:
            for batches in loop.sampler.logical_batches(loop.loader):
                for x, y in batches:
                    loop.optimizer.virtual_step(loss=loop.engine.losses(x, y))
                print("drawn", flush=True)
                loop.optimizer.step(loss=None)
                print("step", flush=True)
    """
    loop = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True
    )
    said = []
    while said.count("step\n") < after or "drawn\n" not in said:
        said.append(loop.stdout.readline())
        assert said[-1], "it ended by itself"
    os.kill(loop.pid, signal.SIGKILL)
    said += loop.communicate(timeout=60)[0].splitlines(keepends=True)
    with Ledger.open(path) as ledger:
        paid = total_steps(ledger.spent("ehr"))
    assert said.count("step\n") <= said.count("drawn\n") <= paid <= 4 * (1 + said.count("drawn\n") // 4)


def test_a_copy_of_the_process_takes_no_step(path, dataset):
    loop = Loop(path, dataset)
    loop.epoch(most=1)
    child = os.fork()
    if not child:
        try:
            loop.epoch()
        except ConfigError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_an_account_that_is_retired_meanwhile_ends_the_round(path, dataset):
    loop = Loop(path, dataset, steps=1)
    batches = next(loop.sampler.logical_batches(loop.loader))
    for x, y in batches:
        loop.optimizer.virtual_step(loss=loop.engine.losses(x, y))
    with Ledger.open(path) as other:
        other.retire("ehr")
    with pytest.raises(LedgerError, match="not open to be committed"):
        loop.optimizer.step(loss=None)


def test_the_line_names_the_account_with_all_its_runs(path, dataset):
    Loop(path, dataset, "job-6").epoch()
    loop = Loop(path, TensorDataset(*small_batch(N)))
    loop.epoch()
    told = str(loop.engine.get_privacy_spent())
    spent = loop.account.budget.in_words([Entry(RATE, NOISE, 8)])
    assert f"of this engine alone; account ehr, all runs together: {spent}" in told
    assert told.endswith("All that can be seen was checked: Poisson draws, each example's own loss, noise.")


def test_what_is_known_by_its_files_alone_is_assumed_to_be_theirs(path, dataset, tmp_path):
    (tmp_path / "ehr.csv").write_text("a,b\n1,2\n")
    loop = Loop(path, dataset, account={"files": [tmp_path / "ehr.csv"]})
    loop.epoch()
    told = str(loop.engine.get_privacy_spent())
    assert (
        "ASSUMED, not checked: that these are the account's records, in 4 steps (to have it checked" in told
    )


@pytest.mark.parametrize("part", [lambda all: Subset(all, range(N)), lambda all: TensorDataset(*all.tensors)])
def test_a_part_of_the_accounts_records_and_the_same_tensors_are_the_accounts(path, dataset, part):
    loop = Loop(path, dataset)
    loop.loader = DataLoader(part(dataset), batch_sampler=loop.sampler)
    loop.epoch()
    assert not loop.engine.get_privacy_spent().assumed


@pytest.mark.parametrize(
    "other",
    [
        lambda all: TensorDataset(*(one.clone() for one in all.tensors)),
        lambda all: list(zip(*all.tensors, strict=True)),
        lambda all: Unsized(all),
        lambda all: ConcatDataset(
            [Subset(all, range(N - 1)), TensorDataset(*(one[:1].clone() for one in all.tensors))]
        ),
    ],
)
def test_other_records_than_the_accounts_are_refused_before_any_is_read(path, dataset, other):
    loop = Loop(path, dataset)
    loop.loader = DataLoader(other(dataset), batch_sampler=loop.sampler)
    with pytest.raises(ConfigError, match=r"not that of account ehr|has no __len__"):
        loop.epoch()
    assert loop.rounds() == []


def test_other_rows_than_the_accounts_part_are_refused(path):
    whole = TensorDataset(*small_batch(2 * N))
    loop = Loop(path, Subset(whole, range(N)))
    loop.loader = DataLoader(Subset(whole, range(1, N + 1)), batch_sampler=loop.sampler)
    with pytest.raises(ConfigError, match="not that of account ehr"):
        loop.epoch()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"run": ""}, 'needs run="..."'),
        ({"generator": torch.Generator()}, "leave out ranks=, generator="),
        ({"steps_per_payment": 0}, "steps_per_payment=0 >= 1"),
        ({"target_delta": 1e-6}, "delta 1e-05 by pld, and the engine has delta 1e-06 by pld"),
        ({"accountant": "rdp"}, "by pld, and the engine has delta 1e-05 by rdp"),
        ({"noise_multiplier": None, "target_epsilon": 4.0, "epochs": 1}, "above the account's limit 3"),
        ({"account": None}, "go with account="),
    ],
)
def test_what_contradicts_the_account_is_refused_when_the_engine_is_made(path, dataset, options, words):
    loop = Loop(path, dataset)
    settings = {"noise_multiplier": NOISE, "account": loop.account, "run": "x", **options}
    with pytest.raises(ConfigError, match=words):
        PrivacyEngine(small_model(), batch_size=10, sample_size=N, max_grad_norm=1.0, **settings)


@pytest.mark.filterwarnings("ignore:noise_multiplier=0")
def test_steps_without_noise_and_more_records_than_declared_are_refused(path, dataset):
    account = Loop(path, dataset).account
    with pytest.raises(ConfigError, match="pays only for steps with noise"):
        PrivacyEngine(
            small_model(),
            batch_size=10,
            sample_size=N,
            max_grad_norm=1.0,
            noise_multiplier=0,
            account=account,
            run="x",
        )
    with pytest.raises(ConfigError, match="above the account's 40 records"):
        PrivacyEngine(
            small_model(),
            batch_size=10,
            sample_size=41,
            max_grad_norm=1.0,
            noise_multiplier=1,
            account=account,
            run="x",
        )


def test_a_batch_norm_is_refused_before_it_is_paid_for(path, dataset, monkeypatch):
    layers = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    monkeypatch.setattr(sys.modules[__name__], "small_model", lambda: layers)
    loop = Loop(path, dataset)
    with pytest.raises(ModelError, match=r"batch: 1 \(BatchNorm1d\)"):
        next(iter(loop.sampler.logical_batches(loop.loader)))
    assert loop.account.spent().epsilon == 0
    layers[1].eval()
    next(iter(loop.sampler.logical_batches(loop.loader)))
    assert loop.account.spent().epsilon > 0


def test_it_must_be_known_who_draws(path, dataset):
    loop = Loop(path, dataset)
    loop.engine.detach()
    with pytest.raises(ConfigError, match="needs a sampler"):
        loop.engine.attach(loop.optimizer)
    known = PoissonSampler(N, expected_batch_size=10, physical_batch_size=4, generator=torch.Generator())
    with pytest.raises(ConfigError, match=r"leave out PoissonSampler\(generator"):
        loop.engine.attach(loop.optimizer, sampler=known)


def test_another_noise_is_declined_unless_the_account_lets_it_vary(path, dataset):
    Loop(path, dataset).epoch()
    with pytest.raises(DeclinedError, match="epsilon holds for one mechanism"):
        Loop(path, TensorDataset(*small_batch(N)), noise_multiplier=3.0).epoch()
    loop = Loop(path, TensorDataset(*small_batch(N)), noise_multiplier=3.0, account={"vary_mechanism": True})
    loop.epoch()
    assert loop.account.spent().charges == (Entry(RATE, NOISE, 4), Entry(RATE, 3.0, 4))


def test_a_sampler_that_is_released_draws_for_itself_again(path, dataset):
    loop = Loop(path, dataset)
    loop.epoch(most=1)
    loop.engine.detach()
    free = [len(batch) for batches in loop.sampler.logical_batches(loop.sampler) for batch in batches]
    assert free
    assert loop.rounds() == [("job-7", 1, 4, False)]


def test_a_loop_that_was_left_pays_for_nothing_after_another_has_gone_on(path, dataset):
    loop = Loop(path, dataset)
    left = loop.engine._payments.sources(4)
    next(left)
    loop.epoch()
    assert (list(left), loop.rounds()) == ([], [("job-7", 1, 4, True)])
