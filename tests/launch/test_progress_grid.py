"""What passes through a grid is told, and is otherwise as without."""

from typing import Any

import pytest
from flwr.app import ConfigRecord, Error, Message, MessageType, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from fl_dp.config.run import RunConfig
from fl_dp.federation.secure_sum.grid import SecureGrid
from fl_dp.federation.wire.messages import set_metadata
from fl_dp.federation.wire.send_receive import BaseGrid
from fl_dp.launch.progress_grid import ProgressGrid

TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1  # every message names its sender


class Nodes(BaseGrid):
    """Nodes that answer every message at the next pull; number 9 by an error."""

    sites = None

    def __init__(self, nodes: int = 2, *, adds_up: bool = False) -> None:
        self.nodes, self.adds_up = nodes, adds_up
        self.sent: list[Message] = []

    def get_node_ids(self):
        return range(1, self.nodes + 1)

    def push_messages(self, messages):
        self.sent = list(messages)
        for number, message in enumerate(self.sent):
            set_metadata(message, message_id=str(number))
        return [message.metadata.message_id for message in self.sent]

    def pull_messages(self, message_ids):
        for one in self.sent:
            if one.metadata.message_id in set(message_ids):
                bad = one.metadata.dst_node_id == 9
                yield Message(Error(1, "no") if bad else RecordDict({"x": ConfigRecord()}), reply_to=one)


class Told:
    """In place of a ProgressReporter: what it is told."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.rounds_over = 0

    def doing(self, words: str) -> None:
        self.events.append(words.partition(":")[0])

    def say(self, words: str) -> None:
        self.events.append(" ".join(words.split()))

    def asked(self, server_round: int, clients: int) -> None:
        self.events.append(("asked", server_round, clients))

    def answered(self, clients: int) -> None:
        self.events.append(("answered", clients))


def told(grid: BaseGrid, counts: bool = True, **config: Any) -> tuple[ProgressGrid, Told]:
    tell = Told()
    return ProgressGrid(grid, RunConfig(clients=3, **config), tell, counts=counts), tell


def messages(kind: str, *nodes: int) -> list[Message]:
    return [Message(RecordDict(), node, kind, group_id="4") for node in nodes]


def test_clients_that_are_missing_are_counted_until_all_have_come():
    grid, tell = told(Nodes(2))
    assert list(grid.get_node_ids()) == [1, 2]
    tell.rounds_over = 1
    grid.get_node_ids()  # later on min-clients are enough
    assert tell.events == ["2 of 3 clients are connected"]


def test_a_roster_with_too_few_sites_is_named_once_with_what_next():
    nodes = Nodes(1)
    nodes.sites = ["north"]
    grid, tell = told(nodes, min_clients=2)
    for _ in range(2):
        grid.get_node_ids()
    assert tell.events == [
        "1 of 3 clients are connected",
        "the roster has 1 site and min-clients is 2, so no round can start: give the server's kit a "
        "roster with more sites (fl-dp provision), or stop this run and start a new one with min-clients = 1",
        "1 of 3 clients are connected",
    ]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "choosing the smallest noise for which the budgets last all rounds"),
        ({"noise_multiplier": 1.0}, "comparing budgets with rounds"),
        ({"privacy": "off"}, "comparing budgets with rounds"),
    ],
)
def test_what_follows_on_the_clients_answers_is_said_before_it_takes_its_time(settings, words):
    grid, tell = told(Nodes(), **settings)
    sent = list(grid.push_messages(messages(MessageType.QUERY, 1, 2)))
    assert len(list(grid.pull_messages(sent))) == 2
    assert tell.events == ["asking 2 clients what their data have spent", words]


def test_a_rounds_answers_are_counted_errors_too():
    grid, tell = told(Nodes(9))
    sent = list(grid.push_messages(messages(MessageType.TRAIN, 1, 9)))
    assert len(list(grid.pull_messages(sent[:1]))) == 1
    assert tell.events == [("asked", 4, 2), ("answered", 1)]
    grid.pull_messages(sent[1:])
    assert tell.events[2:] == [("answered", 1), "averaging the updates and evaluating the model"]


@pytest.mark.parametrize(
    ("settings", "measured"),
    [
        ({"evaluate": "off", "rounds": 4}, False),
        ({"personal": "0.*", "rounds": 4}, False),
        ({"rounds": 4}, True),
    ],
)
def test_where_others_count_it_does_not_and_a_model_is_said_to_be_measured_where_it_is(settings, measured):
    grid, tell = told(Nodes(), counts=False, **settings)
    grid.pull_messages(grid.push_messages(messages(MessageType.TRAIN, 1)))
    words = f"averaging the updates{' and evaluating the model' * measured}"
    assert tell.events == [("asked", 4, 1), words]


@pytest.mark.parametrize("adding", [True, False])
def test_everything_else_is_the_grids_own(adding):
    nodes = Nodes(adds_up=adding)
    grid, _ = told(nodes)
    assert grid.adds_up is adding
    assert grid.sites is None
    nodes.sites = {"north"}
    assert grid.sites == SecureGrid(grid, RunConfig()).sites == {"north"}
    grid.set_run("a run")
    assert nodes.run == "a run" == grid.run
    assert len(list(grid.send_and_receive(messages(MessageType.QUERY, 1)))) == 1
    assert grid.create_message(RecordDict(), MessageType.QUERY, 1, "1").metadata.dst_node_id == 1
