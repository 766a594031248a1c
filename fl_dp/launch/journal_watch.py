"""A client's rounds on its own console, as its journal tells of them."""

from collections.abc import Callable, Sequence

from fl_dp.config.client import ClientConfig
from fl_dp.federation.client.journal import Line, NewLines, journal_folder
from fl_dp.federation.client.journal_words import in_words

Say = Callable[[str], None]


class JournalWatch:
    """Says each line that is written from now on, of this client alone."""

    def __init__(self, settings: ClientConfig, say: Say) -> None:
        self._client, self._say = settings.client, say
        self._journal = NewLines(journal_folder(settings.ledger))

    def look(self) -> None:
        """Say what has come since the last look."""
        for line in _worth_saying([one for one in self._journal.new() if one.client == self._client]):
            self._say(in_words(line))


def _worth_saying(lines: Sequence[Line]) -> list[Line]:
    """Without the questions that are answered by now."""
    answered = {line.process for line in lines if line.event != "asked"}
    return [line for line in lines if line.event != "asked" or line.process not in answered]
