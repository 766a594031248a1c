"""Messages out and replies in, over any Flower Grid.

Flower's own `send_and_receive` looks for replies every 3 s; a round of a small model takes less.
"""

import time
from collections.abc import Collection, Sequence

from flwr.app import Message
from flwr.serverapp import Grid

SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 2.0  # seconds


def send(grid: Grid, messages: Sequence[Message]) -> dict[str, int]:
    """Send the messages; the node asked, by the message's id, of those that went out.

    Grids write a message's id into it when they push it.
    """
    if not messages:
        return {}
    sent = set(grid.push_messages(messages))
    ids = {message.metadata.message_id: message.metadata.dst_node_id for message in messages}
    return {message_id: node_id for message_id, node_id in ids.items() if message_id in sent}


def receive(grid: Grid, waiting: Collection[str], timeout: float) -> list[Message]:
    """Replies to the messages `waiting`, until all are there or `timeout` seconds have passed."""
    started = time.monotonic()
    missing = set(waiting)
    replies: list[Message] = []
    while missing:
        asked = time.monotonic()
        new = list(grid.pull_messages(list(missing)))
        missing -= {reply.metadata.reply_to_message_id for reply in new}
        replies += new
        if not missing or time.monotonic() - started >= timeout:
            break
        if time.monotonic() - asked < SHORTEST_PAUSE:  # else the grid has waited itself
            pause(started)
    return replies


def pause(started: float) -> None:
    """Wait a twentieth of the time since `started`: prompt at first, not a burden in the long run."""
    waited = time.monotonic() - started
    time.sleep(min(max(waited / 20, SHORTEST_PAUSE), LONGEST_PAUSE))
