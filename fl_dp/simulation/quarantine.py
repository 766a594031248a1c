"""Clients whose process ended while it had them in its hands: one of them may be why."""

from collections import deque
from collections.abc import Sequence

from fl_dp.simulation.work import ClientWork

TRIES = 3  # of a client whose process ended while it had nothing else in its hands


class Quarantine:
    """Tasks that are to be tried again, each by itself: if that ends its process, too, it was that one.

    In a round a task is a suspect from the first process that ended with it, until the round is over.
    """

    def __init__(self) -> None:
        self._waiting: deque[ClientWork] = deque()
        self._deaths: dict[str, int] = {}  # by message: of processes that had nothing else in their hands

    def __bool__(self) -> bool:
        """Whether any waits to be tried again."""
        return bool(self._waiting)

    def __contains__(self, task: ClientWork) -> bool:
        return task.message in self._deaths

    def put(self, tasks: Sequence[ClientWork]) -> list[ClientWork]:
        """A process ended with `tasks`. Returns those that have been tried often enough."""
        given_up: list[ClientWork] = []
        for task in tasks:
            deaths = self._deaths[task.message] = self._deaths.get(task.message, 0) + (len(tasks) == 1)
            (self._waiting if deaths < TRIES else given_up).append(task)
        return given_up

    def take(self) -> ClientWork:
        """The next one."""
        return self._waiting.popleft()

    def give_up(self) -> None:
        """Try none again; they stay suspects."""
        self._waiting.clear()

    def begin(self) -> None:
        """A new round: nobody is a suspect."""
        self.give_up()
        self._deaths = {}
