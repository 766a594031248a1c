"""Several processes of one site that train one model: the ranks of `PrivacyEngine(..., ranks=...)`.

All ranks together are one mechanism, with the epsilon of one process:

- One draw. Rank 0 draws a secret key and sends it to all. So every rank makes the same Poisson draw over the
  numbers of all records, and the same cut into passes; rank i mod the number of ranks clips pass i. Keys of
  their own, or numbers of a part of the records, would make other draws than those that are priced.
- One sum. Each pass becomes integers (`pass_grid` says what this costs), and integers add up to
  the same sum however they are spread. `equal_ranks.py` compares the ranks, so that it does not matter which
  of them clips a record.
- One noise. Totals without noise go to rank 0 alone. It adds the noise and sends the noisy total to all, who
  step from nothing else. The others overwrite their part as soon as it is sent.
- All or none. The step is counted on every rank before totals leave it. If a rank ends, every other rank's
  exchange fails, no gradient is set, and no further step is taken.
- Random numbers of the model. With one seed on all ranks, whether two records share a dropout mask would
  depend on how many records come before them. So each rank gets its own from the system's entropy.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Literal

import torch
from torch import Tensor, nn
from torch import distributed as dist

from fl_dp.engine.clipping import ClippedSum
from fl_dp.engine.noise.gaussian import add_noise, count_of, multiples_of, numbers_of
from fl_dp.engine.noise.generators import keyed_generator
from fl_dp.engine.noise.grid import pass_grid
from fl_dp.engine.noise.randomness import KEY_BYTES, Randomness
from fl_dp.engine.rounding import long_type
from fl_dp.engine.sampling import PoissonSampler
from fl_dp.errors import ConfigError, FlDpError, LaunchError
from fl_dp.privacy_engine.equal_ranks import (
    DIGEST_WORDS,
    RANDOM,
    Facts,
    digest,
    facts_of_start,
    facts_of_step,
    records_digest,
)
from fl_dp.training.step import DpSgd

TIMEOUT = timedelta(minutes=10)  # of an exchange: the slowest rank's passes of one step take less
_FACTS = 8  # rows of every comparison, so that ranks that are at different places can still compare
_FAILED = "failed"
_LOST = (
    "An exchange with the other ranks failed: a rank ended, or took longer than the timeout. No further "
    "step can be taken; start all ranks again from a checkpoint."
)


class Ranks:
    """This process among those of the group. given: "all" for all processes, with a group of their own.

    Making one waits for all ranks. Raises ConfigError without `torch.distributed.init_process_group`, and for
    a process outside the group.
    """

    def __init__(self, given: "dist.ProcessGroup | Literal['all']") -> None:
        if not (dist.is_available() and dist.is_initialized()):
            raise ConfigError(
                "ranks= needs torch.distributed: start the program with torchrun, and call "
                "init_process_group('gloo') before the engine is made."
            )
        group = dist.new_group(timeout=TIMEOUT) if given == "all" else given
        if not isinstance(group, dist.ProcessGroup):
            raise ConfigError(f"ranks={given!r}: expected 'all' or a process group of torch.distributed.")
        self._group = group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        if self.rank < 0:
            raise ConfigError("This process is not in the process group that ranks= names.")
        self._zero = dist.get_global_rank(group, 0)
        self._is_lost = False
        self._records = RANDOM
        self._passes: list[Tensor] = []  # one at most: the sum of all that were gathered
        self._sizes: list[int] = []

    @property
    def examples(self) -> int:
        """Of the passes that wait for their step on this rank."""
        return sum(self._sizes)

    def drop(self) -> None:
        """Forget the passes that wait for a step."""
        self._passes, self._sizes = [], []

    def start(
        self,
        rule: DpSgd,
        sensitivity: float,
        settings: Facts,
        module: nn.Module,
        optimizer: torch.optim.Optimizer,
        sampler: PoissonSampler | None,
    ) -> None:
        """Compare the ranks, and give `sampler` the draws that all make. ConfigError where ranks differ."""
        if sampler is None:
            raise ConfigError(
                "Several ranks must make the same draws: attach(optimizer, sampler=sampler), with a "
                "PoissonSampler over all records on each rank."
            )
        self._module, self._parameters, self._optimizer = module, rule.parameters, optimizer
        self._sampler, self._most, self._size = sampler, rule.most, sampler.physical_batch_size
        count = count_of(rule.parameters.values())
        self._grid = pass_grid(sensitivity, rule.noise_multiplier, count, rule.most, self._size)
        self._device = next(iter(rule.parameters.values())).device
        on_gpu = self._device.type == "cuda" and "nccl" in dist.get_backend(self._group)
        self._wire = self._device if on_gpu else torch.device("cpu")
        told = {**sampler.state_dict(), "in all": sampler.steps}
        self._compare("attach", facts_of_start(settings, module, rule.parameters, optimizer, told))
        sampler.spread(self._shared_generator, self.rank, self.size)
        _draw_apart()

    @property
    def are_records_seen(self) -> bool:
        """Whether the ranks compare their records."""
        return self._records != RANDOM

    def see(self, dataset: object) -> None:
        """From now on compare what this data set holds with that of the other ranks."""
        self._records = records_digest(dataset, self._sampler.num_records)

    def gather(self, clipped: ClippedSum) -> None:
        """Add one pass's clipped sum, as integers, to those of this rank."""
        sums = [grad.contiguous() for grad in clipped.grads.values()]  # in one order on all ranks
        multiples = multiples_of(sums, self._grid)
        if self._passes:
            self._passes[0] += multiples
        else:
            self._passes = [multiples]
        self._sizes.append(len(clipped.norms))

    def check(self) -> None:
        """LaunchError after an exchange that failed."""
        if self._is_lost:
            raise LaunchError(_LOST)

    def begin_step(self, step: int, check_may_step: Callable[[], None]) -> None:
        """Compare the ranks before step number `step`.

        check_may_step: raises where this rank may not step. If it does, or if the passes are not those that
        this rank was given, all ranks refuse the step, and it is not counted.
        """
        problem, facts = None, dict[str, object]()
        try:
            check_may_step()
            draw = self._sampler.check_whole(self.examples)
            cut = [min(self._size, draw.drawn - start) for start in range(0, draw.drawn, self._size)]
            if self._sizes != cut[self.rank :: self.size]:
                raise ConfigError(
                    "With ranks= each physical batch of the sampler is one virtual step: the noise covers "
                    "the rounding of so many passes, and no more."
                )
            facts = facts_of_step(self._module, self._parameters, self._optimizer, draw.state_after)
            facts["the records"] = self._records
            self._drawn = draw.drawn
        except FlDpError as error:
            problem = error
        self._compare(f"step {step}", facts, problem)

    def noisy(self) -> dict[str, Tensor]:
        """The sum over all passes of all ranks plus noise, in float64; the same bits on every rank.

        The step must have been counted. Raises ConfigError for a draw of more than `most` records.
        """
        if self._drawn > self._most:
            self.drop()
            raise ConfigError(
                f"A draw of more than {self._most} records, the most that were planned for: its noise would "
                "not cover its rounding. Is the sampler's expected batch size that of the engine?"
            )
        count = count_of(self._parameters.values())
        (total,) = self._passes or [torch.zeros(count, dtype=torch.int64, device=self._device)]
        self.drop()
        total = total.to(self._wire)
        with self._together():
            dist.reduce(total, self._zero, group=self._group)
            if self.rank == 0:
                add_noise(total, self._grid, "secure")
            else:
                total.zero_()  # what an exchange leaves here may be a sum without noise
            dist.broadcast(total, self._zero, group=self._group)
        like = {
            name: torch.empty_like(one, dtype=long_type(one), memory_format=torch.contiguous_format)
            for name, one in self._parameters.items()
        }
        return numbers_of(total.to(self._device), self._grid, like)

    def _shared_generator(self) -> torch.Generator:
        """A generator from a key of rank 0's; all ranks must call it."""
        key = torch.frombuffer(bytearray(Randomness.system().key[:KEY_BYTES]), dtype=torch.uint8)
        key = key.to(self._wire)
        with self._together():
            dist.broadcast(key, self._zero, group=self._group)
        return Randomness(bytes(key.tolist())).generator()

    def _compare(self, call: str, facts: Facts, problem: FlDpError | None = None) -> None:
        """Raise ConfigError, on all ranks, unless all make the same call with the same facts.

        problem: why this rank does not go on; it is raised here, and the others hear that there is one.
        """
        rows = {"what they call": _FAILED if problem else call, **({} if problem else facts)}
        mine = torch.zeros(_FACTS, DIGEST_WORDS, dtype=torch.int64)
        mine[: len(rows)] = torch.tensor([digest(fact) for fact in rows.values()])
        mine = mine.to(self._wire)
        found = [torch.empty_like(mine) for _ in range(self.size)]
        with self._together():
            dist.all_gather(found, mine, group=self._group)
        if problem:
            raise problem
        tables = [one.tolist() for one in found]
        for rank, table in enumerate(tables):
            if table[0] == digest(_FAILED):
                raise ConfigError(f"Rank {rank} refused this step, so no rank takes it; its error says why.")
            if table != tables[0]:
                differing = [name for at, name in enumerate(rows) if table[at] != tables[0][at]]
                differing = differing[:1] if table[0] != tables[0][0] else differing
                raise ConfigError(
                    f"Rank {rank} differs from rank 0 in {', '.join(differing)}: a record would count "
                    "differently on them. Make model, optimizer, engine and sampler alike on all ranks."
                )

    @contextmanager
    def _together(self) -> Iterator[None]:
        """For an exchange: whatever ends it early ends all later steps, too."""
        self.check()
        self._is_lost = True
        try:
            yield
        except RuntimeError as error:  # of torch.distributed
            raise LaunchError(_LOST) from error
        self._is_lost = False


def _draw_apart() -> None:
    """Give torch's global generators random numbers that no other rank has."""
    key = Randomness.system().key
    torch.set_rng_state(keyed_generator(key).get_state())
    torch.cuda.manual_seed_all(int.from_bytes(key[:8], "little") >> 1)
