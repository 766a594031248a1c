"""After the last round: each site that is there is sent the model, and states what its data have spent."""

import logging
from collections.abc import Iterable, Mapping

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from fl_dp.errors import ConfigError
from fl_dp.federation.wire.arrays import NDArray, encode
from fl_dp.federation.wire.messages import ABOUT, ARRAYS, FINAL_MODEL, STATEMENT, config_record
from fl_dp.federation.wire.send_receive import receive, send
from fl_dp.statements import MOST_CHARACTERS, Statement

logger = logging.getLogger("fl_dp")

Said = Mapping[int, tuple[str, str]]  # by node: a statement's text, and the signature in hex


def send_final_model(
    grid: Grid, arrays: Mapping[str, NDArray], seconds: float, *, run: str, private: bool
) -> Said:
    """Send it, and wait `seconds` at most; what the sites state that have heard it. It costs no budget."""
    content = RecordDict({ARRAYS: encode(arrays), ABOUT: ConfigRecord({"run": run, "private": private})})
    messages = [Message(content, node, FINAL_MODEL, ttl=seconds) for node in grid.get_node_ids()]
    replies = [one for one in receive(grid, send(grid, messages), seconds) if one.has_content()]
    logger.info("the final model was sent to %d sites, %d have it", len(messages), len(replies))
    return _statements(replies)


def _statements(replies: Iterable[Message]) -> dict[int, tuple[str, str]]:
    """Those that can be read. Whether they agree with the run, and who has signed, is looked at elsewhere."""
    found = {}
    for reply in replies:
        record = config_record(reply.content, STATEMENT)
        if record is None:
            continue
        node, text, signature = reply.metadata.src_node_id, record.get("text"), record.get("signature")
        try:
            if not isinstance(text, str) or not isinstance(signature, bytes) or len(text) > MOST_CHARACTERS:
                raise ConfigError("no readable statement.")
            Statement.from_text(text)
        except ConfigError as error:
            logger.warning("node %d: %s", node, error)
        else:
            found[node] = text, signature.hex()[:256]
    return found
