"""Where, in a tensor of many rows, each example's rows are."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fl_dp.errors import ProbeError


@dataclass(frozen=True, slots=True)
class BatchAxis:
    """Dimension `dim` holds N * K rows, K for each of the N examples.

    minor=False: an example's rows are adjacent (N, K), as after flattening (N, T, d) to (N*T, d).
    minor=True: they are N apart (K, N), as after flattening (T, N, d).
    single=True: the axis was seen with K = 1 only, where both orders are the same; other K are refused.
    """

    dim: int = 0
    minor: bool = False
    single: bool = False

    def split(self, tensor: Tensor, num_examples: int) -> Tensor:
        """`tensor` as (N, K, *other dimensions in their order)."""
        rows = tensor.movedim(self.dim, 0) if self.dim else tensor
        per_example = self._rows_per_example(rows.shape[0], num_examples)
        if self.minor:
            return rows.reshape(per_example, num_examples, *rows.shape[1:]).transpose(0, 1)
        return rows.reshape(num_examples, per_example, *rows.shape[1:])

    def owners(self, num_rows: int, num_examples: int, device: torch.device) -> Tensor:
        """(rows,) which example each row of dimension `dim` belongs to."""
        per_example = self._rows_per_example(num_rows, num_examples)
        rows = torch.arange(num_rows, device=device)
        return rows % num_examples if self.minor else rows // max(1, per_example)

    def _rows_per_example(self, num_rows: int, num_examples: int) -> int:
        if num_rows % num_examples:
            raise ProbeError(
                f"A tensor has {num_rows} rows in dimension {self.dim}, not a multiple of the {num_examples} "
                "examples in the batch; every trainable layer must treat every example alike."
            )
        per_example = num_rows // num_examples
        if self.single and per_example > 1:
            raise ProbeError(
                f"A tensor has {per_example} rows an example in dimension {self.dim}, but the model was "
                "checked with one, which does not tell how they are ordered; check it on longer inputs."
            )
        return per_example


LEADING = BatchAxis()
