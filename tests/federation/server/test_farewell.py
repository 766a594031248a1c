import numpy as np
from federation.link.wired import Federation, federation, in_thread, keys
from flwr.app import ConfigRecord, RecordDict

from fl_dp.federation.server.farewell import send_final_model
from fl_dp.federation.wire.messages import ABOUT, ARRAYS, FINAL_MODEL, HEARD

__all__ = ["federation", "keys"]
ARRAY = {"w": np.arange(3, dtype=np.float32)}


def test_each_site_that_is_there_gets_it_once(federation: Federation) -> None:
    links = [federation.joined(name) for name in ("north", "south")]
    heard: list[int] = []
    thread = in_thread(
        lambda: heard.append(send_final_model(federation.grid, ARRAY, 10.0, run="77", private=True))
    )
    for link in links:
        message = None
        while message is None:
            message = link.next_message()
        assert message.metadata.message_type == FINAL_MODEL
        assert message.content[ABOUT] == ConfigRecord({"run": "77", "private": True})
        assert (message.content[ARRAYS]["w"].numpy() == ARRAY["w"]).all()
        link.answer(message, RecordDict({HEARD: ConfigRecord({})}))
    thread.join()
    assert heard == [2]


def test_a_site_that_does_not_answer_is_not_waited_for_longer(federation: Federation) -> None:
    federation.joined("north")
    assert send_final_model(federation.grid, ARRAY, 0.3, run="77", private=True) == {}


def test_nobody_is_there(federation: Federation) -> None:
    assert send_final_model(federation.grid, ARRAY, 0.3, run="77", private=True) == {}
