"""One point of the guarantee, as the page shows it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clause:
    """A heading, sentences, and perhaps a list after them."""

    heading: str
    text: str
    items: tuple[str, ...] = ()
