"""Two processes that train one model, each on weights of its own.

A script is started by torchrun and wraps its model in DistributedDataParallel, which averages gradients when
`backward()` makes them. The engine never calls it and sets `.grad` itself: no error, and after three steps
the processes' weights were 0.03 apart, each counting its own steps alone. So an engine without `ranks=`
refuses every step among several processes, and every engine refuses a wrapper. One that takes a step lets the
processes print weights here, which differ. With `ranks="all"` the engine adds up clipped sums itself.
"""

import subprocess
import sys

PROCESS = """
import sys
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from fl_dp import PoissonSampler, PrivacyEngine
from fl_dp.errors import ConfigError

def engine_of(model, **options):
    return PrivacyEngine(
        model, batch_size=2, sample_size=8, max_grad_norm=1.0, noise_multiplier=1.0, **options
    )

def three_steps(model, engine):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine.attach(optimizer)
    for _ in range(3):
        optimizer.step(loss=model(torch.randn(2, 3)).square().sum(1))

def told(train):
    torch.manual_seed(0)
    model = nn.Linear(3, 1, bias=False)
    try:
        train(model)
    except ConfigError as error:
        return f"refused: {error}"
    return f"trained: {model.weight.tolist()}"

def wrapped(model):
    model = DistributedDataParallel(model)
    three_steps(model, engine_of(model))

def made_before(model):
    engine = engine_of(model)
    begin()
    three_steps(model, engine)

def with_ranks(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sampler = PoissonSampler(8, expected_batch_size=2, physical_batch_size=1, steps=3)
    engine_of(model, ranks="all").attach(optimizer, sampler=sampler)
    records = torch.randn(8, 3)
    for passes in sampler.logical_batches(sampler):
        for numbers in passes:
            optimizer.virtual_step(loss=model(records[numbers]).square().sum(1))
        optimizer.step(loss=None)

def begin():
    rank, store = int(sys.argv[1]), f"file://{sys.argv[2]}"
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=2)

print(told(made_before), told(wrapped), told(with_ranks), sep=chr(10))
distributed.destroy_process_group()
"""


def test_two_processes_take_no_step_or_the_same(tmp_path):
    """With the wrapper, where the engine was made before there were two processes, and with ranks."""
    commands = [[sys.executable, "-c", PROCESS, str(rank), str(tmp_path / "store")] for rank in range(2)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
    told = [process.communicate(timeout=300)[0].splitlines() for process in started]
    assert [len(lines) for lines in told] == [3, 3]
    for line in told[0][:2] + told[1][:2]:
        assert line.startswith("refused: torch.distributed runs 2 processes"), told
        assert "Train in one process" in line
        assert "ranks='all'" in line
    assert told[0][2] == told[1][2]
    assert told[0][2].startswith("trained: ")
