"""Who trains in a round: only clients that are there and have budget for a step, chosen by chance."""

from collections.abc import Callable, Sequence

from flwr.serverapp import Grid

from fl_dp.config.run import RunConfig
from fl_dp.federation.server.client_record import ClientRecord
from fl_dp.federation.server.client_sampling import ClientSampler
from fl_dp.federation.server.registration import Registration


class Choosing:
    """A subclass chooses otherwise among those that `able` gives.

    registration: who is there. on_registered: called when clients have registered, before any is asked.
    """

    def __init__(
        self, config: RunConfig, registration: Registration, on_registered: Callable[[], None]
    ) -> None:
        self.config, self._registration, self._on_registered = config, registration, on_registered
        self._sampler = ClientSampler(config.sampling, config.fit_clients)
        self.nobody_left = False  # no client that is there has budget for one more step

    @property
    def secret(self) -> bytes:
        """What all choices follow from."""
        return self._sampler.secret

    def restore(self, secret: bytes) -> None:
        """Choose as the run did that had this secret."""
        self._sampler = ClientSampler(self.config.sampling, self.config.fit_clients, secret)

    def choose(self, grid: Grid, server_round: int) -> Sequence[ClientRecord]:
        """Wait until the round can start; returns who trains. With Poisson sampling that may be nobody."""
        return self._sampler.choose(self.able(grid), server_round, ClientRecord.budget_left)

    def able(self, grid: Grid) -> Sequence[ClientRecord]:
        """Wait until enough clients are there; returns those that have budget for a step, by name."""
        answers = self._registration.answers
        able = self._registration.gather(grid)
        if self._registration.answers > answers:
            self._on_registered()
        self.nobody_left = not able
        return able
