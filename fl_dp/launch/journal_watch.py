"""A client's rounds on its own console, as its journal tells of them."""

from collections.abc import Callable, Sequence

from fl_dp.config.client import ClientConfig
from fl_dp.federation.client.journal import NewLines, journal_folder
from fl_dp.federation.client.journal_line import Line
from fl_dp.federation.client.journal_words import in_words, spent_in_words
from fl_dp.reporting.wording import counted

Say = Callable[[str], None]


class JournalWatch:
    """Says each line that is written from now on, of this client and its data alone: in another federation
    another client may have its name.
    """

    def __init__(self, settings: ClientConfig, say: Say) -> None:
        from fl_dp.federation.client.registration import dataset_name  # late: it brings parts of data

        self._client, self._say = settings.client, say
        self._datasets = "", dataset_name(settings)  # a message may fail before the data are known
        self._journal = NewLines(journal_folder(settings.ledger))
        self._trained, self._last = (
            0,
            "",
        )  # of the run that goes on; what was spent when it was last looked up

    def look(self) -> None:
        """Say what has come since the last look."""
        new = self._journal.new()
        lines = [one for one in new if one.client == self._client and one.dataset in self._datasets]
        for line in lines:
            self._trained += line.event == "trained"
            self._last = spent_in_words(line) or self._last
        for line in _worth_saying(lines):
            self._say(in_words(line))

    def at_the_end(self) -> str:
        """What the run that is over came to here; from then on the next one counts."""
        self.look()
        rounds, self._trained = self._trained, 0
        what = f"{counted(rounds, 'round')} trained here" if rounds else "nothing was trained here"
        return f"{what} ({self._last})" if self._last else what


def _worth_saying(lines: Sequence[Line]) -> list[Line]:
    """Without the questions that are answered by now."""
    answered = {line.process for line in lines if line.event != "asked"}
    return [line for line in lines if line.event != "asked" or line.process not in answered]
