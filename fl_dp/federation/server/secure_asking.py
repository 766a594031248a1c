"""What the members of a secure sum are asked for: one step each, with one noise for all of them."""

from collections.abc import Sequence
from dataclasses import replace

from flwr.app import ArrayRecord

from fl_dp.accounting.shares import honest_shares
from fl_dp.config.run import RunConfig
from fl_dp.federation.server.asking import Asked, Asking
from fl_dp.federation.server.client_record import ClientRecord
from fl_dp.federation.server.registration import Registration


class SecureAsking(Asking):
    """registration: whose clients get the mechanism that all members share. summed: names of the arrays.

    The noise of a sum is one for all of its members. It is the largest that any client needs that was there
    when the first round was asked, and stays: a client's ledger holds it to one mechanism. Who comes later,
    and would need more, stops at its budget before the others; of persons at several members the largest rate
    stays likewise, and who comes later and draws more declines.
    """

    def __init__(
        self, config: RunConfig, run: str, registration: Registration, summed: Sequence[str]
    ) -> None:
        super().__init__(config, run)
        self._registration, self._summed = registration, list(summed)

    def ask(
        self, clients: Sequence[ClientRecord], server_round: int, weights: ArrayRecord, *, in_sum: bool
    ) -> list[Asked]:
        """in_sum: always: no single update is ever asked for."""
        if not clients:
            return []
        shares = honest_shares(len(clients), self._config.secure_dropouts, self._config.secure_colluders)
        noise, rate = self._of_all()
        for client in clients:
            assert client.mechanism is not None
            client.mechanism = replace(
                client.mechanism,
                noise_multiplier=noise,
                shares=shares,
                sample_rate=rate if client.mechanism.copies > 1 else client.mechanism.sample_rate,
            )
        return super().ask(clients, server_round, weights, in_sum=in_sum)

    def _of_all(self) -> tuple[float, float]:
        """Noise multiplier and largest sample rate of those that have taken part, or else of all."""
        known = [one for one in self._registration.clients.values() if one.mechanism is not None]
        begun = [one for one in known if one.rounds or one.unconfirmed]
        mechanisms = [one.mechanism for one in begun or known if one.mechanism is not None]
        return max(one.noise_multiplier for one in mechanisms), max(one.sample_rate for one in mechanisms)

    def _weight_of(self, client: ClientRecord) -> float:
        """Each client counts once: its records are weighed alike in the sum."""
        return 1.0
