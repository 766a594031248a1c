"""The familiar surface: attach to an optimizer, then `optimizer.step(loss=losses)` is a private step.

    engine = PrivacyEngine(
        model, losses_of=lambda x, y: F.cross_entropy(model(x), y, reduction="none"),
        batch_size=256, sample_size=50_000, epochs=3, max_grad_norm=0.1, target_epsilon=3.0,
    )
    engine.attach(optimizer, sampler=sampler)
    optimizer.step(loss=engine.losses(x, y))  # no losses.backward()

A thin adapter over `training/step.py`, with the names of private_CNN (Bu, Mao, Xu 2022). The guarantee needs
every batch to be Poisson-sampled with rate batch_size / sample_size, and losses that do not mix examples.
With a `PoissonSampler` and `losses_of` the engine checks both. Every epsilon names what was not checked
(`spent.py`); docs/engine.md lists what is checked. `private_step.py` has what happens at a step.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, overload

import torch
from torch import Tensor, distributed, nn
from torch.utils.data import DataLoader

from fl_dp.accounting.budget import auto_delta
from fl_dp.engine.bounds import Bounds, sensitivity
from fl_dp.engine.clip_functions import ClipFunction, clip_function
from fl_dp.engine.clipping import checked_groups
from fl_dp.engine.kernel_choice.chooser import KernelChooser, Mode
from fl_dp.engine.precision import check_overrides
from fl_dp.engine.sampling import PoissonSampler
from fl_dp.errors import ConfigError
from fl_dp.privacy_engine.attachment import Attachment, UnprotectedSteps, WeakHook, check_attachable
from fl_dp.privacy_engine.checks import CheckedLosses, check_not_spread
from fl_dp.privacy_engine.draw_loader import DrawLoader
from fl_dp.privacy_engine.model_check import ModelCheck
from fl_dp.privacy_engine.payments import payments_of
from fl_dp.privacy_engine.ranks import Ranks
from fl_dp.privacy_engine.reports import Reports
from fl_dp.privacy_engine.settings import (
    EngineNoise,
    check_generator,
    check_kernels,
    check_optimizer,
    check_sizes,
    chosen_accountant,
    chosen_bounds,
    chosen_noise,
    refuse_keywords,
    told_what_is_missing,
    trained_parameters,
)
from fl_dp.privacy_engine.states import States
from fl_dp.privacy_engine.steps import Steps
from fl_dp.privacy_engine.turn_loop import TurnLoop
from fl_dp.records import Entry
from fl_dp.training.step import DpSgd

if TYPE_CHECKING:
    from fl_dp.accounting.ledger.paying import PayingAccount


class PrivacyEngine(Reports, States):
    """Private training of one model with any `torch.optim` optimizer that takes no closure.

    Noise is scaled to `sensitivity`: max_grad_norm, or with several bounds the root of the sum of their
    squares. All settings are fixed when the engine is made: no attribute can be assigned.

    Args:
        module: The model, in no wrapper that spreads training (DistributedDataParallel, FSDP, DataParallel).
        batch_size: Expected size of a logical batch; gradients are divided by it.
        sample_size: Number of records.
        max_grad_norm: Clipping bound; a mapping gives one for each group of parameters (see
            `engine.bounds.grouped`).
        epochs: Passes over the records for which the noise is calibrated.
        noise_multiplier: Deviation of the noise over the sensitivity; 0 is allowed for checks, with a
            warning. Or give `target_epsilon` and `epochs` to have it calibrated.
        target_epsilon: What `epochs` may cost.
        target_delta: None for the largest power of ten below 1 / sample_size, at most 1e-5.
        ghost_clipping: With `mixed`, ghost norms where they pay (True, True), everywhere (True, False), or
            nowhere (False).
        mixed: See `ghost_clipping`.
        kernels: Parameter name -> kernel, for parameters whose kernel is fixed (see `kernel_table`).
        clipping: "abadi", "automatic", or made by `clip_function`.
        named_params: (name, parameter) pairs to train; None for all that require gradients.
        accountant: An accountant that may enforce a budget, such as "pld" or "rdp".
        accounting_mode: private_CNN's name for `accountant`.
        record_snr: Whether `get_training_stats` reports signal and noise.
        generator: Source of the noise: None or "secure" for integers on a grid, or a `torch.Generator`, for
            which the proof does not hold.
        losses_of: Makes the losses (N,) of a batch. Steps then take `engine.losses(*batch)`, and the engine
            checks whether examples mix in them (`find_mixing`): on the first batch, then on one batch in
            `check_every` on average, chosen in secret. Without it, the engine assumes that losses do not
            mix, checks this only as far as gradients show it, and says so with every epsilon.
        check_every: See `losses_of`.
        public_weights: Whether the current weights are public. If not, steps that other engines of this
            process took on them count, too.
        account: Pays for each round before its first record is read (`Ledger.account`), and gives the delta
            and the accountant. Draws and noise follow from the payment. A round is one pass over the sampler.
            If fewer steps fit, the pass ends after them, and the next pass raises BudgetExhaustedError. Steps
            that were paid for and not taken stay spent. `attach` then needs a sampler.
        run: The name under which the account pays. A name that was used before continues with new rounds.
        steps_per_payment: How many steps to pay for at a time; None for a whole pass.
        ranks: "all", or a process group of torch.distributed whose processes train this model together, each
            with all records, and with a share of every batch's passes (`ranks.py`). Then `attach` needs a
            sampler, a formula chooses the kernels, and `get_training_stats` has no numbers. None for one
            process.
        show_loss: Whether the value of `engine.loss` is the mean loss of the draw, else NaN. The mean is raw
            data, which trainers write to logs, so every epsilon then says so.
        other: Refused. For a keyword of Opacus, private_CNN or fastDP the error says what to use.

    Raises:
        ConfigError: Settings that are missing or contradict one another, several processes without `ranks`,
            or a model in a wrapper.

    Example:
        >>> import fl_dp, torch
        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> model = torch.nn.Linear(4, 2)
        >>> engine = fl_dp.PrivacyEngine(
        ...     model, batch_size=20, sample_size=100, max_grad_norm=1.0, target_epsilon=3.0, epochs=1,
        ...     losses_of=lambda x, y: torch.nn.functional.cross_entropy(model(x), y, reduction="none"),
        ... )
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> sampler = fl_dp.PoissonSampler(100, expected_batch_size=20, physical_batch_size=20)
        >>> engine.attach(optimizer, sampler=sampler)
        >>> records = TensorDataset(torch.randn(100, 4), torch.randint(2, (100,)))
        >>> for batches in sampler.logical_batches(DataLoader(records, batch_sampler=sampler)):
        ...     for x, y in batches:
        ...         optimizer.virtual_step(loss=engine.losses(x, y))
        ...     optimizer.step(loss=None)
        >>> engine.get_privacy_spent().epsilon <= 3.0
        True
    """

    @told_what_is_missing
    def __init__(
        self,
        module: nn.Module,
        *,
        batch_size: int,
        sample_size: int,
        max_grad_norm: Bounds,
        epochs: float | None = None,
        noise_multiplier: float | None = None,
        target_epsilon: float | None = None,
        target_delta: float | None = None,
        ghost_clipping: bool = True,
        mixed: bool = True,
        kernels: Mapping[str, str] | None = None,
        clipping: ClipFunction | str = "abadi",
        named_params: Iterable[tuple[str, nn.Parameter]] | None = None,
        accountant: str | None = None,
        accounting_mode: str | None = None,
        record_snr: bool = True,
        generator: EngineNoise | None = None,
        losses_of: Callable[..., Tensor] | None = None,
        check_every: int = 20,
        public_weights: bool = False,
        account: "PayingAccount | None" = None,
        run: str = "",
        steps_per_payment: int | None = None,
        ranks: "distributed.ProcessGroup | Literal['all'] | None" = None,
        show_loss: bool = False,
        **other: Any,
    ) -> None:
        refuse_keywords(other)
        self._ranks = None if ranks is None else Ranks(ranks)
        self._check_processes()
        check_sizes(batch_size, sample_size, check_every)
        check_not_spread(module)
        self.module = module
        self.parameters = MappingProxyType(trained_parameters(module, named_params))
        self.clipping = clip_function(clipping) if isinstance(clipping, str) else clipping
        self.batch_size, self.sample_size = batch_size, sample_size
        self.sample_rate = batch_size / sample_size
        if account is not None:
            target_delta = account.budget.delta if target_delta is None else target_delta
            accountant = accountant or (None if accounting_mode else account.budget.accountant)
        self.target_delta = auto_delta(sample_size) if target_delta is None else target_delta
        self.accountant = chosen_accountant(accountant, accounting_mode)
        self.noise_multiplier, self._planned = chosen_noise(
            noise_multiplier,
            target_epsilon,
            epochs,
            batch_size=batch_size,
            sample_size=sample_size,
            delta=self.target_delta,
            accountant=self.accountant,
        )
        self._target = target_epsilon
        self.max_grad_norm = chosen_bounds(max_grad_norm)
        self._groups = checked_groups(self.max_grad_norm, self.parameters, self.clipping)
        self.sensitivity = sensitivity(self._groups)
        mode: Mode = "instantiate" if not ghost_clipping else "mixed" if mixed else "ghost"
        fixed = check_kernels(kernels or {}, self.parameters)
        self.chooser = KernelChooser(mode, fixed, measures=ranks is None)
        self._steps = Steps(sample_size, self.sample_rate, self.noise_multiplier)
        self.record_snr = record_snr
        self._generator = check_generator(generator, has_ranks=ranks is not None)
        self._payments = payments_of(
            account,
            run,
            Entry(self.sample_rate, self.noise_multiplier, 1),
            steps_per_payment,
            sample_size=sample_size,
            asked=(target_epsilon, self.target_delta, self.accountant),
            source=self._generator,
            has_ranks=ranks is not None,
        )
        self._locked = False
        self._check = ModelCheck(module, self.parameters, check_every)
        self._public_weights, self._has_state = public_weights, False
        self._unprotected = UnprotectedSteps(module, self.parameters)
        self._losses = None if losses_of is None else CheckedLosses(losses_of, check_every)
        self._rule = DpSgd(
            self.parameters, self.max_grad_norm, self.clipping, self.noise_multiplier, batch_size
        )
        self._pending = self._stats = self._attached = self._turns = None
        self._show_loss = show_loss
        self._is_made = True

    @overload
    def attach(self, optimizer: torch.optim.Optimizer, *, sampler: PoissonSampler | None = None) -> None: ...

    @overload
    def attach(
        self,
        optimizer: torch.optim.Optimizer,
        *,
        loader: DataLoader[Any],
        physical_batch_size: int | None = None,
    ) -> DrawLoader: ...

    def attach(
        self,
        optimizer: torch.optim.Optimizer,
        *,
        sampler: PoissonSampler | None = None,
        loader: DataLoader[Any] | None = None,
        physical_batch_size: int | None = None,
    ) -> DrawLoader | None:
        """Make the steps of an optimizer private. With `loader`, for a loop of `engine.loss` and `backward`:

            loader = engine.attach(optimizer, loader=loader)
            for x, y in loader:  # one turn is one Poisson draw
                engine.loss(x, y).backward()  # no weight gets a gradient without noise
                optimizer.step()  # noise, once
                optimizer.zero_grad()

        loader: an ordinary DataLoader; all its settings but batch_size and shuffle are kept. The returned
        loader makes the draws, empty ones included; its `len` is the number of steps in an epoch. Each draw
        has one loss, one backward and one step; a closure is run before the step. physical_batch_size: the
        most records in a pass, by default the loader's batch size, or the engine's if that is 1. ConfigError
        for a loader that cannot draw, and for `ranks`.

        Without `loader`, make `optimizer.step(loss=losses)` private and add
        `optimizer.virtual_step(loss=losses)`.

        losses: (N,), one per example. `step(loss=None)` ends a logical batch whose examples came in virtual
        steps, or an empty Poisson draw, which has none. Each step overwrites `.grad`. `zero_grad` is not
        needed, and does not change what virtual steps have gathered.
        Learning rate schedulers may be made before or after. The optimizer also gets
        `get_privacy_spent` and `get_training_stats`. Until `detach`, a step of an optimizer without an engine
        over the same parameters raises ConfigError.

        sampler: draws the batches. Each draw, even an empty one, must then have exactly one step, which takes
        all of it; other steps are refused, and so is a loop that leaves a draw without its step. Raises
        ConfigError if the sampler's rate differs from the one by which steps are priced, if its number of
        records differs, or if the optimizer holds a parameter that this engine does not protect. Without a
        sampler every epsilon says that Poisson sampling is assumed.
        """
        if self._attached is not None:
            raise ConfigError(
                "This engine is already attached to an optimizer; give that one all parameters, in groups, "
                "or call detach() first."
            )
        turns = self._turns_over(loader, sampler, physical_batch_size)
        sampler = turns.loader.sampler if turns else sampler
        check_attachable(optimizer, sampler)
        if self._payments is not None:
            self._payments.check_sampler(sampler)
        check_optimizer(optimizer, self.parameters, has_all=False)
        self._check.check_parts()
        check_overrides(next(iter(self.parameters.values())).device)
        weights = self.parameters.values()
        self._steps.begin(self, self.module, weights, are_public=self._public_weights and not self.steps)
        added = {
            "privacy_engine": self,
            "virtual_step": self._virtual_step,
            "get_privacy_spent": self.get_privacy_spent,
            "get_training_stats": self.get_training_stats,
        }
        try:
            sources = self._payments.sources if self._payments else None
            self._steps.watch(sampler, WeakHook(self._begin_loop), sources)
            if self._ranks is not None:
                self._start_ranks(self._ranks, optimizer, sampler)
            self._attached = Attachment(
                optimizer,
                self.module,
                self.parameters,
                added,
                self._before_step,
                self._check.watch,
                (self._add_state, self._take_state) if turns else None,
            )
        except BaseException:
            self._steps.leave()
            raise
        self._has_state |= bool(optimizer.state) and not self._steps.count.steps
        self._unprotected.stop(self._attached)
        self._check.watch.start()
        self._was_attached = True
        self._turns = turns
        return turns.loader if turns else None

    def detach(self) -> None:
        """Release optimizer and sampler, remove the hooks, and drop what virtual steps have gathered.

        The next engine over the same weights or records continues the count.
        """
        if self._attached is not None:
            self._attached.remove()
            self._steps.leave()
            self._attached = None
            self._unprotected.start()
            self._drop_pending()
            self._turns = None

    def lock(self) -> None:
        """Refuse all steps, virtual ones included, until `unlock`. Until then no data are used."""
        self._locked = True

    def unlock(self) -> None:
        """Allow steps again."""
        self._locked = False

    def losses(self, *batch: Any, **named: Any) -> Tensor:
        """The losses (N,) of a batch by `losses_of`, for `step` and `virtual_step`.

        Raises ProbeError where examples are seen to mix, ConfigError without `losses_of`.
        """
        if self._losses is None:
            raise ConfigError(
                "engine.losses needs PrivacyEngine(..., losses_of=...), which makes the losses."
            )
        if named:
            raise TypeError(
                f"engine.losses takes tensors by position, got {next(iter(named))!r}: engine.losses(x, y), "
                "or for a dict engine.losses(batch), with losses_of=lambda batch: ..."
            )
        self._check_may_step()
        return self._losses(*batch)

    def loss(self, *batch: Any) -> Tensor:
        """A scalar for `backward()`, which makes the next `optimizer.step()` take this draw.

        The batch goes through the model here, in passes of `physical_batch_size` rows of each tensor, under
        the caller's autocast. Each record's gradient is clipped, and the sum is kept. `backward()` only
        confirms that the next step is to take the sum, and refuses a scaled loss.

        Args:
            batch: What the loader of `attach` gave, whole, as `losses_of` takes it: tensors, or tuples, lists
                and dicts of them. It may be on another device.

        Returns:
            NaN; with `show_loss` the mean loss, which is raw data, and 0 for an empty draw.

        Raises:
            ConfigError: No `loader` at `attach`, or no `losses_of`; or another batch than the one whose turn
                it is.
            ProbeError: Examples are seen to mix.

        Example:
            >>> import fl_dp, torch
            >>> from torch.utils.data import DataLoader, TensorDataset
            >>> model = torch.nn.Linear(4, 2)
            >>> engine = fl_dp.PrivacyEngine(
            ...     model, batch_size=20, sample_size=100, max_grad_norm=1.0, noise_multiplier=1.0,
            ...     losses_of=lambda x, y: torch.nn.functional.cross_entropy(model(x), y, reduction="none"),
            ... )
            >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            >>> records = TensorDataset(torch.randn(100, 4), torch.randint(2, (100,)))
            >>> loader = engine.attach(optimizer, loader=DataLoader(records, batch_size=20))
            >>> for x, y in loader:
            ...     engine.loss(x, y).backward()
            ...     optimizer.step()
            >>> engine.steps == len(loader) == 5
            True
        """
        if self._turns is None or self._losses is None:
            raise ConfigError(
                "engine.loss needs PrivacyEngine(..., losses_of=...), and attach(optimizer, loader=loader), "
                "which returns the loader to loop over."
            )
        return self._turns.loss(*batch)

    def _turns_over(
        self, loader: DataLoader[Any] | None, sampler: PoissonSampler | None, physical: int | None
    ) -> TurnLoop | None:
        if loader is None:
            if physical is not None:
                raise ConfigError("attach: physical_batch_size belongs to loader=; a sampler has its own.")
            return None
        if sampler is not None or self._ranks is not None:
            raise ConfigError(
                "attach: loader= draws by itself, in one process: leave out sampler= and ranks=."
            )
        draws = DrawLoader(loader, self.sample_size, self.batch_size)
        if physical is None:
            physical = usual if (usual := loader.batch_size or 1) > 1 else self.batch_size
        return TurnLoop(
            draws,
            self._rule,
            self.losses,
            self._clipped,
            self._check_may_step,
            physical_batch_size=physical,
            shows_loss=self._show_loss,
        )

    def _start_ranks(
        self, ranks: Ranks, optimizer: torch.optim.Optimizer, sampler: PoissonSampler | None
    ) -> None:
        settings = {
            **self._settings(),
            "batch_size": self.batch_size,
            "sample_size": self.sample_size,
            "kernels": (self.chooser.mode, sorted(self.chooser.fixed.items())),
            "steps": self.steps,
        }
        ranks.start(self._rule, self.sensitivity, settings, self.module, optimizer, sampler)
