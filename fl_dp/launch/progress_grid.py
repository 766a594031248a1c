"""A Grid that reports the progress of its messages: connected clients, requests and answers."""

from collections.abc import Iterable

from flwr.app import Message, MessageType

from fl_dp.config.flat import AUTO
from fl_dp.config.run import RunConfig
from fl_dp.federation.wire.send_receive import BaseGrid, GridOver
from fl_dp.launch.progress_reporter import ProgressReporter
from fl_dp.reporting.wording import counted, in_lines, roster_too_small


class ProgressGrid(GridOver):
    """Wraps another grid and reports the number of its messages.

    counts: whether replies show the progress of a round; otherwise something else reports it.
    """

    def __init__(
        self, below: BaseGrid, config: RunConfig, tell: ProgressReporter, *, counts: bool = True
    ) -> None:
        super().__init__(below)
        self._config, self._tell, self._counts = config, tell, counts
        self._round, self._waiting = 0, 0  # how many answers the round still waits for
        self._said = ""  # the last message about a roster that is too small

    def get_node_ids(self) -> Iterable[int]:
        nodes = list(super().get_node_ids())
        wanted = self._config.min_clients if self._tell.rounds_over else self._config.clients
        if len(nodes) < wanted:
            self._tell.doing(f"{len(nodes)} of {counted(wanted, 'client')} are connected")
            self._say_if_too_small()
        return nodes

    def _say_if_too_small(self) -> None:
        """Say once why the missing clients cannot come."""
        sites = self.sites
        why = "" if sites is None else roster_too_small(len(sites), self._config.min_clients)
        if why and why != self._said:
            self._tell.say(in_lines(why))
        self._said = why

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        out = list(messages)
        kinds = [message.metadata.message_type for message in out]
        if MessageType.QUERY in kinds:
            asked = kinds.count(MessageType.QUERY)
            self._tell.doing(f"asking {counted(asked, 'client')} what their data have spent")
        if MessageType.TRAIN in kinds:
            self._waiting = kinds.count(MessageType.TRAIN)
            self._round = int(out[0].metadata.group_id)
            self._tell.asked(self._round, self._waiting)
        if evaluating := kinds.count(MessageType.EVALUATE):
            self._tell.doing(f"{counted(evaluating, 'client')} evaluate the model on their own test records")
        return super().push_messages(out)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        replies = list(super().pull_messages(message_ids))
        kinds = [reply.metadata.message_type for reply in replies]
        if MessageType.QUERY in kinds and any(reply.has_content() for reply in replies):
            self._tell.doing(self._of_budgets)
        if trained := kinds.count(MessageType.TRAIN):
            self._waiting -= trained
            if self._counts:
                self._tell.answered(trained)
            if self._waiting <= 0:
                measured = " and evaluating the model" if self._config.server_evaluates else ""
                self._tell.doing(f"averaging the updates{measured}")
        return replies

    @property
    def _of_budgets(self) -> str:
        if self._config.private and self._config.noise_multiplier == AUTO:
            return "choosing the smallest noise for which the budgets last all rounds"
        return "comparing budgets with rounds"
