"""Text from elsewhere, made fit for a console: nothing in it moves the cursor, colours or hides."""

from collections.abc import Mapping
from typing import Any


def printable(text: str) -> str:
    """`text` on one line, with a space for each character that is not printed as itself.

    Among them are escape sequences, line ends and the characters that turn the direction of writing.
    """
    return "".join(c if c.isprintable() else " " for c in text)


def printable_json(value: Any) -> Any:
    """`value`, as JSON has it, with all texts in it `printable`; keys, too."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {printable_json(key): printable_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [printable_json(item) for item in value]
    return value
