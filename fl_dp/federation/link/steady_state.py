"""Flower's state of a run, on the monotonic clock.

Flower checks time-outs by the wall clock. If that is set forward by more than a message's ttl, or by more
than a site's allowed silence, Flower drops messages that sites are answering and paying for.
"""

import time
from importlib.metadata import version

from flwr.app import Message
from flwr.server.superlink.linkstate.in_memory_linkstate import InMemoryLinkState
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.superlink.federation import NoOpFederationManager

from fl_dp.errors import ConfigError

CHECKED = ("1.41.0",)  # versions of Flower that were reviewed, and tested, with the overrides here
FOR_EVER = 1e9  # seconds; the hub decides who is there, so that for Flower no site is ever late


class SteadyLinkState(InMemoryLinkState):
    """A message expires when its ttl has passed by the monotonic clock, whatever the wall clock says."""

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
        """Delete the message: nobody waits for an answer any more."""
        self.delete_messages({message_id})
        self._until.pop(message_id, None)

    def is_over(self, message_id: str) -> bool:
        """Whether nobody waits for an answer to the message: it has expired, or it was forgotten."""
        until = self._until.get(message_id)
        return until is None or until <= time.monotonic()

    def overdue(self) -> list[str]:
        """The messages that have expired and are not forgotten yet."""
        return [one for one in list(self._until) if self.is_over(one)]

    def _check_stored_messages(self, message_ids: set[str], run_id: int | None = None) -> None:
        """Replaces Flower's check by the wall clock, which it makes before it hands a message out."""
        self.delete_messages({one for one in message_ids if self.is_over(one)})


def _check_version(found: str) -> None:
    """ConfigError for another version of Flower, which may not call what is overridden here."""
    if found not in CHECKED:
        raise ConfigError(
            f"Flower {found}: this fl_dp was checked with {', '.join(CHECKED)} alone; install that: "
            f"pip install flwr=={CHECKED[-1]}."
        )
