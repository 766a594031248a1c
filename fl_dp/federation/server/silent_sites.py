"""Sites that are there and do not answer rounds: each costs a round its grace, and its own data a budget."""

from collections.abc import Collection, Mapping

from fl_dp.reporting.wording import counted

_LONGEST = 10  # doublings: a thousand rounds


class SilentSites:
    """Who has not answered its last rounds, by name: how many in a row, and up to which round it rests.

    Whoever has missed a round says first what it has cost (`Registration`); that is all after the first. A
    site that answers this question and no round would be asked again and again: after k missed rounds in a
    row it also rests for 2^(k-1) - 1 of them. An answer to a round, whatever it says, ends that; joining
    anew does not.
    """

    def __init__(self) -> None:
        self._missed: dict[str, tuple[int, int]] = {}

    @property
    def state(self) -> Mapping[str, tuple[int, int]]:
        """As `restore` takes it."""
        return dict(self._missed)

    def restore(self, state: Mapping[str, Collection[int]]) -> None:
        self._missed = {name: (times, until) for name, (times, until) in state.items()}

    def has_missed(self, name: str, server_round: int) -> None:
        """Note that it was asked in that round, and that no answer came."""
        times = self._missed.get(name, (0, 0))[0] + 1
        self._missed[name] = times, server_round + 2 ** min(times - 1, _LONGEST) - 1

    def has_answered(self, name: str) -> None:
        self._missed.pop(name, None)

    def is_silent(self, name: str) -> bool:
        """Whether it did not answer the last round that it was asked for."""
        return name in self._missed

    def rests(self, name: str, server_round: int) -> bool:
        return name in self._missed and server_round <= self._missed[name][1]

    def why(self, name: str) -> str:
        """Why it rests."""
        times, until = self._missed[name]
        return f"has not answered {counted(times, 'round')} in a row; rests until after round {until}"
