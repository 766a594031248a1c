"""What is public about records: shapes and kinds of their inputs and targets, and none of their values."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from fl_dp.errors import DataError

Targets = Literal["class", "numbers", "tokens"]

MOST_NAMES = 2**20  # classes, columns or tokens: each has a name, and a column of numbers in every answer
MOST_NUMBERS = 2**30  # of one example


@dataclass(frozen=True, slots=True)
class Form:
    """What a model, a loss and synthetic examples need to know of the data.

    input_shape: of one example: (C, H, W) of images, (d,) of features, (T,) of tokens, or any other.
    outputs: number of classes, of numbers, or of the tokens that a next one may be.
    targets: what an example is labelled with: "class", one of `outputs` classes; "numbers", `outputs` floats
    (of a regression, or 0 and 1 for several labels); "tokens", a token at each place, -100 where none counts.
    vocabulary: inputs are int64 tokens below it; 0: they are float32 numbers.
    """

    input_shape: tuple[int, ...]
    outputs: int
    targets: Targets = "class"
    vocabulary: int = 0

    def __post_init__(self) -> None:
        numbers = 1
        for side in self.input_shape:
            numbers *= side
        if numbers > MOST_NUMBERS:
            raise DataError(
                f"An example of shape {self.input_shape}: expected {MOST_NUMBERS} numbers at most."
            )
        check_count(self.outputs, "outputs")
        check_count(self.vocabulary, "tokens in the vocabulary")

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Of a model's outputs for one example."""
        return (*self.input_shape, self.outputs) if self.targets == "tokens" else (self.outputs,)

    def __str__(self) -> str:
        inputs = f"tokens below {self.vocabulary}" if self.vocabulary else "numbers"
        wanted = {"class": "classes", "numbers": "numbers", "tokens": "tokens"}[self.targets]
        return f"{inputs} of shape {self.input_shape} to {self.outputs} {wanted}"


def check_count(number: int, what: str) -> None:
    """DataError for more than any model here has answers, before memory is taken for so many."""
    if number > MOST_NAMES:
        raise DataError(f"Expected {MOST_NAMES} {what} at most.")


def names_of(classes: int | Iterable[object]) -> tuple[str, ...]:
    """The names of classes, or "0", "1", ... of so many; DataError for too many."""
    if isinstance(classes, int):
        check_count(classes, "classes")
        return tuple(map(str, range(classes)))
    return tuple(map(str, classes))
