"""After the last round: each site that is there is sent the model once."""

import logging
from collections.abc import Mapping

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from fl_dp.federation.wire.arrays import NDArray, encode
from fl_dp.federation.wire.messages import ABOUT, ARRAYS, FINAL_MODEL
from fl_dp.federation.wire.send_receive import receive, send

logger = logging.getLogger("fl_dp")


def send_final_model(grid: Grid, arrays: Mapping[str, NDArray], seconds: float, *, private: bool) -> int:
    """Send it, and wait `seconds` at most; the number of sites that have heard it. It costs no budget."""
    content = RecordDict({ARRAYS: encode(arrays), ABOUT: ConfigRecord({"private": private})})
    messages = [Message(content, node, FINAL_MODEL, ttl=seconds) for node in grid.get_node_ids()]
    replies = receive(grid, send(grid, messages), seconds)
    heard = sum(reply.has_content() for reply in replies)
    logger.info("the final model was sent to %d sites, %d have it", len(messages), heard)
    return heard
