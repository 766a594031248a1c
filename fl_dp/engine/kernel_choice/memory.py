"""The peak number of bytes of tensors that a computation needs."""

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fl_dp.engine.gradients.settled import is_made_here

Result = TypeVar("Result")


def peak_bytes(run: Callable[[], object], device: torch.device) -> int:
    """The most bytes of tensors alive at once while `run()` runs, beyond those that were alive before.

    On CUDA the number is the allocator's, whose peak counters are reset. Elsewhere every strided tensor that
    an operator returns is followed until its storage is freed; memory that operators use internally is not
    seen.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        run()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    storages = _Storages()
    with storages:
        run()
    return storages.peak


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether PyTorch raised it because memory ran out; on CPUs only the text shows that."""
    return isinstance(error, torch.OutOfMemoryError) or "DefaultCPUAllocator" in str(error)


def unless_out_of_memory(run: Callable[[], Result]) -> Result | None:
    """What it gives; None if memory runs out."""
    try:
        return run()
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
    return None


def is_the_machines(error: BaseException) -> bool:
    """Whether the error is about memory or a device, not about what an example holds."""
    if isinstance(error, torch.AcceleratorError | torch.OutOfMemoryError):
        return True
    return type(error) is RuntimeError and is_out_of_memory(error)  # any other type may come from user code


class _Storages(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Bytes of the storages that are created while it is active, and their peak.

    Autograd's backward pass runs under the mode of the thread that started it.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """As in `Watch`: otherwise the first call would import PyTorch's compiler, which takes a second."""
        return False

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak = self._live = 0
        self._known: dict[int, weakref.ref[torch.UntypedStorage]] = {}  # by identity, while it lives

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self._follow((args, kwargs), new=False)
        result = func(*args, **(kwargs or {}))
        self._follow(result, new=True)
        return result

    def _follow(self, structure: Any, *, new: bool) -> None:
        """Follow the storages of all tensors. One first seen as an argument is older than the run, unless the
        engine made it without an operator.
        """
        for leaf in tree_leaves(structure):
            if isinstance(leaf, Tensor) and leaf.layout == torch.strided:
                storage = leaf.untyped_storage()
                if id(storage) not in self._known:
                    self._enter(storage, storage.nbytes() if new or is_made_here(storage) else 0)

    def _enter(self, storage: torch.UntypedStorage, size: int) -> None:
        identity = id(storage)  # the same object as long as the memory lives

        def leave(_: object) -> None:
            del self._known[identity]
            self._live -= size

        self._known[identity] = weakref.ref(storage, leave)
        self._live += size
        self.peak = max(self.peak, self._live)
