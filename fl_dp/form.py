"""What is public about records: shapes and kinds of their inputs and targets, and none of their values."""

from dataclasses import dataclass
from typing import Literal

Targets = Literal["class", "numbers", "tokens"]


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

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Of a model's outputs for one example."""
        return (*self.input_shape, self.outputs) if self.targets == "tokens" else (self.outputs,)

    def __str__(self) -> str:
        inputs = f"tokens below {self.vocabulary}" if self.vocabulary else "numbers"
        wanted = {"class": "classes", "numbers": "numbers", "tokens": "tokens"}[self.targets]
        return f"{inputs} of shape {self.input_shape} to {self.outputs} {wanted}"
