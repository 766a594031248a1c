"""Errors in settings: each names its key and value, and can be reported with its place."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fl_dp.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Mistake:
    """key: of the setting. words: a sentence that begins with the key."""

    key: str
    words: str


class SettingsError(ConfigError):
    """One or several errors, one per line."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__(in_lines([one.words for one in self.mistakes]))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.mistakes,)

    def placed(self, told: Callable[[Mistake], str]) -> "SettingsError":
        """The same errors in the words that `told` gives, which add the place."""
        return SettingsError(Mistake(one.key, told(one)) for one in self.mistakes)


def in_lines(sentences: Sequence[str]) -> str:
    """One sentence as it is; several below each other."""
    if len(sentences) == 1:
        return sentences[0]
    return "\n  ".join((f"{len(sentences)} mistakes:", *sentences))
