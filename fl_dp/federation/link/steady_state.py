"""Flower's state of a run, on a clock that never jumps.

Flower holds what waits against the wall clock. Where that is set forward by more than a message's time, or a
site's silence, Flower drops messages that sites have been asked and are paying for.
"""

import time
from importlib.metadata import version

from flwr.app import Message
from flwr.server.superlink.linkstate.in_memory_linkstate import InMemoryLinkState
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.superlink.federation import NoOpFederationManager

from fl_dp.errors import ConfigError

CHECKED = ("1.41.0",)  # versions of Flower whose state was read, and tested, with what is replaced here
FOR_EVER = 1e9  # seconds; who is there is the hub's to know, and no site is ever late for Flower


class SteadyLinkState(InMemoryLinkState):
    """A message is over when its ttl has passed by the monotonic clock, whatever the wall clock says."""

    def __init__(self) -> None:
        _check_version(version("flwr"))
        super().__init__(NoOpFederationManager(), ObjectStoreFactory().store())
        self._until: dict[str, float] = {}  # by message

    def store_message_ins(self, message: Message) -> str | None:
        stored = super().store_message_ins(message)
        if stored is not None:
            self._until[stored] = time.monotonic() + message.metadata.ttl
        return stored

    def forget(self, message_id: str) -> None:
        """Nobody waits for an answer to the message any more."""
        self.delete_messages({message_id})
        self._until.pop(message_id, None)

    def is_over(self, message_id: str) -> bool:
        """Whether nobody waits for an answer to the message: its time has passed, or it was forgotten."""
        until = self._until.get(message_id)
        return until is None or until <= time.monotonic()

    def overdue(self) -> list[str]:
        """The messages whose time has passed, and that are not forgotten yet."""
        return [one for one in list(self._until) if self.is_over(one)]

    def _check_stored_messages(self, message_ids: set[str], run_id: int | None = None) -> None:
        """In the place of Flower's, which asks the wall clock, before it hands a message out."""
        self.delete_messages({one for one in message_ids if self.is_over(one)})


def _check_version(found: str) -> None:
    """ConfigError for another Flower: what is replaced here may not be what it asks."""
    if found not in CHECKED:
        raise ConfigError(
            f"Flower {found}: this fl_dp was checked with {', '.join(CHECKED)} alone; install that: "
            f"pip install flwr=={CHECKED[-1]}."
        )
