"""Where each example's rows are in a tensor of many rows."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fl_dp.errors import ProbeError


@dataclass(frozen=True, slots=True)
class BatchAxis:
    """Dimension `dim` holds N * K rows, K for each of the N examples.

    minor=False: an example's rows are adjacent (N, K), as after flattening (N, T, d) to (N*T, d).
    minor=True: they are N apart (K, N), as after flattening (T, N, d).
    single=True: the axis was seen only with K = 1, for which both orders are the same; other K are refused.
    between: (K1, K2) if the rows are (K1, N, K2), as after flattening (K1, N, K2, d); other K are refused,
    because K alone does not determine K1.
    """

    dim: int = 0
    minor: bool = False
    single: bool = False
    between: tuple[int, int] | None = None

    def split(self, tensor: Tensor, num_examples: int) -> Tensor:
        """`tensor` as (N, K, *other dimensions in their order)."""
        rows = tensor.movedim(self.dim, 0) if self.dim else tensor
        before, after = self._rows_around(rows.shape[0], num_examples)
        if before == 1:
            return rows.reshape(num_examples, after, *rows.shape[1:])
        if after == 1:
            return rows.reshape(before, num_examples, *rows.shape[1:]).transpose(0, 1)
        blocks = rows.reshape(before, num_examples, after, *rows.shape[1:])
        return blocks.transpose(0, 1).flatten(1, 2)

    def owners(self, num_rows: int, num_examples: int, device: torch.device) -> Tensor:
        """(rows,) which example each row of dimension `dim` belongs to."""
        _, after = self._rows_around(num_rows, num_examples)
        return torch.arange(num_rows, device=device) // max(1, after) % num_examples

    def _rows_around(self, num_rows: int, num_examples: int) -> tuple[int, int]:
        """(K1, K2) of rows that are (K1, N, K2)."""
        if num_rows % num_examples:
            raise ProbeError(
                f"A tensor has {num_rows} rows in dimension {self.dim}, not a multiple of the {num_examples} "
                "examples in the batch; every trainable layer must treat every example alike."
            )
        per_example = num_rows // num_examples
        if self.between:
            self._check(per_example, math.prod(self.between))
            return self.between
        if self.single and per_example > 1:
            self._check(per_example, 1)
        return (per_example, 1) if self.minor else (1, per_example)

    def _check(self, per_example: int, checked: int) -> None:
        if per_example != checked:
            raise ProbeError(
                f"A tensor has {per_example} rows an example in dimension {self.dim}, but the model was "
                f"checked with {'one' if checked == 1 else checked}, which does not tell how they are "
                f"ordered; check it on {'longer inputs' if checked == 1 else 'inputs of this size'}."
            )


LEADING = BatchAxis()
