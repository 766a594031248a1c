from typing import Any

import numpy as np
from federation.link.wired import federation, in_thread, keys
from flwr.app import ConfigRecord, RecordDict

from fl_dp.federation.server.run_end import send_final_model
from fl_dp.federation.wire.messages import ABOUT, ARRAYS, FINAL_MODEL, HEARD, STATEMENT
from fl_dp.statements import Stated, Statement

__all__ = ["federation", "keys"]
STATED = Statement("77", "ab" * 32, "cd" * 32, 0, "2026-11-22T21:37:28+00:00", "0.1.0", ())
ARRAY = {"w": np.arange(3, dtype=np.float32)}


def test_each_site_that_is_there_gets_it_once(federation):
    links = [federation.joined(name) for name in ("north", "south")]
    wrong = ConfigRecord({"text": "{}", "signature": b""})
    answers = [
        {STATEMENT: ConfigRecord({"text": STATED.to_text(), "signature": bytes.fromhex("ab" * 64)})},
        {STATEMENT: wrong},
    ]
    said: list[Any] = []
    thread = in_thread(
        lambda: said.append(send_final_model(federation.grid, ARRAY, 10.0, run="77", private=True))
    )
    for link, record in zip(links, answers, strict=True):
        message = None
        while message is None:
            message = link.next_message()
        assert message.metadata.message_type == FINAL_MODEL
        assert message.content[ABOUT] == ConfigRecord({"run": "77", "private": True})
        assert (message.content[ARRAYS]["w"].numpy() == ARRAY["w"]).all()
        link.answer(message, RecordDict({HEARD: ConfigRecord({}), **record}))
        federation.joined("north")  # it was killed and is there again, under another node
    thread.join()
    (found,) = said
    north = federation.site("north").key
    assert found == [Stated(STATED.to_text(), north, "ab" * 64)]  # one said nothing, one something else


def test_nobody_is_waited_for_longer(federation):
    for there in ([], ["north"]):  # a site that does not answer
        for name in there:
            federation.joined(name)
        assert send_final_model(federation.grid, ARRAY, 0.3, run="77", private=True) == []
