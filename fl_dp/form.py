"""What is public about records: shapes and kinds of their inputs and targets, and no values."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from fl_dp.errors import DataError

Targets = Literal["class", "numbers", "tokens"]

MOST_NAMES = 2**20  # classes, columns or tokens: each has a name, and a column in every model output
MOST_NUMBERS = 2**30  # in one example


@dataclass(frozen=True, slots=True)
class Form:
    """What a model, a loss and synthetic examples need to know about the data.

    Args:
        input_shape: Of one example: (C, H, W) for images, (d,) for features, (T,) for tokens, or any other.
        outputs: The number of classes, of numbers, or of possible next tokens.
        targets: The kind of label: "class", one of `outputs` classes; "numbers", `outputs` floats
            (regression, or 0 and 1 for multi-label); "tokens", a token at each position, -100 where none
            counts.
        vocabulary: Inputs are int64 tokens below this number; 0: inputs are float32.

    Raises:
        DataError: More than 2^20 outputs or tokens, or 2^30 numbers in an example.

    Example:
        >>> import fl_dp
        >>> print(fl_dp.Form((1, 28, 28), 10))
        numbers of shape (1, 28, 28) to 10 classes
        >>> fl_dp.Form((16,), 256, "tokens", vocabulary=256).output_shape
        (16, 256)
    """

    input_shape: tuple[int, ...]
    outputs: int
    targets: Targets = "class"
    vocabulary: int = 0

    def __post_init__(self) -> None:
        if math.prod(self.input_shape) > MOST_NUMBERS:
            raise DataError(
                f"An example of shape {self.input_shape}: expected {MOST_NUMBERS} numbers at most."
            )
        check_count(self.outputs, "outputs")
        check_count(self.vocabulary, "tokens in the vocabulary")

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The shape of a model's output for one example."""
        return (*self.input_shape, self.outputs) if self.targets == "tokens" else (self.outputs,)

    def __str__(self) -> str:
        inputs = f"tokens below {self.vocabulary}" if self.vocabulary else "numbers"
        one = self.outputs == 1
        wanted = {"class": "classes", "numbers": "number" if one else "numbers", "tokens": "tokens"}
        return f"{inputs} of shape {self.input_shape} to {self.outputs} {wanted[self.targets]}"


def check_count(number: int, what: str) -> None:
    """DataError if `number` exceeds MOST_NAMES, before memory is allocated for so many."""
    if number > MOST_NAMES:
        raise DataError(f"Expected {MOST_NAMES} {what} at most.")


def names_of(classes: int | Iterable[object]) -> tuple[str, ...]:
    """Names of the classes; "0", "1", ... if only their number is given; DataError if there are too many."""
    if isinstance(classes, int):
        check_count(classes, "classes")
        return tuple(map(str, range(classes)))
    return tuple(map(str, classes))
