"""A site's evaluation on its own test rows: for its operator's console, and for nobody else.

It runs in the process that watches over the client, never in one that answers a server.
"""

from collections.abc import Callable
from pathlib import Path

from fl_dp.config.client import ClientConfig
from fl_dp.errors import FlDpError
from fl_dp.federation.client.own_states import own_model_file, written_at
from fl_dp.federation.client.received import read_received, received_file
from fl_dp.launch.site_models import has_test_rows, measured, no_test_rows, read_weights, with_newest

Say = Callable[[str], None]


def evaluate_file(settings: ClientConfig, path: Path) -> str:
    """Evaluate the model of a run, or a weights file, on the site's own test rows; result in words.

    Also evaluates it with the site's own parameters, if it has some that fit. ConfigError if there is no such
    file or it is of another model, DataError if there are no test rows.
    """
    weights = read_weights(path)
    own = with_newest(settings, weights)
    return "\n".join(measured(settings, *one) for one in ((weights, str(path)), own) if one is not None)


class OwnEvaluation:
    """Evaluates, once each, every global model that the client receives and every model of its own.

    DataError if there are no test rows.
    """

    def __init__(self, settings: ClientConfig, say: Say) -> None:
        if not has_test_rows(settings):
            raise no_test_rows()
        self._settings, self._say = settings, say
        self._received = received_file(settings)
        self._seen = self._states()

    def look(self) -> None:
        """Evaluate what has come since the last look; an error is printed, and ends nothing."""
        before, self._seen = self._seen, self._states()
        try:
            if self._seen[0] not in (0, before[0]):
                self._global()
            if self._seen[1] not in (0, before[1]):
                self._own()
        except FlDpError as error:
            self._say(f"the model that was received could not be measured: {error}")

    def _global(self) -> None:
        received = read_received(self._received)
        name = f"run {received.run}, the model that round {received.server_round} starts from"
        self._say(measured(self._settings, received.weights, name))

    def _own(self) -> None:
        own = with_newest(self._settings, read_received(self._received).weights)
        if own is not None:
            self._say(measured(self._settings, *own))

    def _states(self) -> tuple[int, int]:
        """When the last global model was received, and when the site's own was written; 0: never."""
        own = own_model_file(self._settings)
        return written_at(self._received), written_at(own) if own else 0
