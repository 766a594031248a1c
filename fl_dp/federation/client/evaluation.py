"""An evaluation of the global model on a client's own test records: accept, pay, count, add noise, answer.

It is a Gaussian mechanism without sampling: the histogram's L2 sensitivity is public
(`tasks/score_histogram.py`), and its noise is drawn as that of a step. It is paid for, on the disk, before a
record is read by the model, from the account of the test records and not from that of training.

In a secure sum the client adds its share of the noise, as to a step. The sum has one noise multiplier, which
must be enough for every member: so the server first asks each with which noise it would add (`offer`).

Whether a client answers follows from its settings, its ledger and the message alone: declared test records
that are none are answered with noise. A question that was paid for is not answered again, or, in a
simulation, with the same numbers.
"""

from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING

import torch
from flwr.app import RecordDict

from fl_dp.accounting.calibration import calibrate_noise
from fl_dp.accounting.ledger.requests import Reservation, ReservationRequest
from fl_dp.config.client import ClientConfig
from fl_dp.config.site_metrics import BINS
from fl_dp.engine.clipping import ClippedSum
from fl_dp.engine.noise.gaussian import add_gaussian_noise, share_of_sum
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.errors import ConfigError, DeclinedError
from fl_dp.federation.client.masked_part import MaskedPart
from fl_dp.federation.client.policy import check_run_name, check_share, check_sums_allowed
from fl_dp.federation.client.round import ClientRounds, expected_weights
from fl_dp.federation.client.stages import Client, HeldOutAccount
from fl_dp.federation.devices import find_devices
from fl_dp.federation.secure_sum.wire import MASKED
from fl_dp.federation.wire.arrays import digest_of, load_arrays, specs, state_arrays
from fl_dp.federation.wire.evaluation import (
    CELLS,
    MOST_OVER_OWN,
    EvaluationOffer,
    EvaluationPlan,
    SiteHistogram,
)
from fl_dp.models.names import common_name
from fl_dp.records import NUMERICS, PROVEN, STEADY_ROWS, Entry
from fl_dp.tasks.held_out import cap_of
from fl_dp.tasks.load import in_task_code, new_model, task_of
from fl_dp.tasks.score_histogram import Counts, Layout, check_model, count

if TYPE_CHECKING:
    from fl_dp.data.persons import Examples
    from fl_dp.federation.wire.arrays import NDArray

NO_TEST_RECORDS = "declares no test records of its own (test)"


class EvaluationRequest:
    """An evaluation that a client, whose data are registered, is asked for; it has paid for nothing yet.

    part: the client's training data, whose form the model has. DeclinedError for a plan that its settings do
    not allow.
    """

    def __init__(self, client: Client, plan: EvaluationPlan, part: "Examples") -> None:
        if client.test is None:
            raise DeclinedError(f"this client {NO_TEST_RECORDS}.")
        check_evaluation(plan, client.settings, client.task)
        self._client, self._account, self._plan = client, client.test, plan
        try:
            subgroups = client.test.held_out.subgroups if plan.by_subgroup else ()
            self.layout = Layout.of(part.form, plan.bins, cap_of(client.settings), subgroups)
        except ConfigError as error:
            raise DeclinedError(f"the evaluation cannot be done here: {error}") from error

    def offer(self, rounds: ClientRounds, *, repeats: bool = False) -> EvaluationOffer:
        """With which noise the client would add to a secure sum. repeats: see `Evaluation.play`.

        DeclinedError if it would not, BudgetExhaustedError if not one evaluation fits `evaluate-epsilon`.
        """
        settings = self._client.settings
        check_sums_allowed(settings)
        self._require_approval(rounds)
        spent = rounds.ledger.spent(self._account.dataset)
        least = noise_of(self._account, spent, self._plan.evaluations)
        self._require_room(rounds, Entry(1.0, least, 1), repeats)
        return EvaluationOffer(least, bool(spent), _names(self.layout))

    def check_sum(self, rounds: ClientRounds, *, repeats: bool = False) -> None:
        """DeclinedError unless the client adds to this very secure sum, which the plan describes."""
        plan = self._plan
        check_share(plan, self._client.settings)
        own = self.layout.sensitivity, self.layout.size
        if (plan.sensitivity, plan.numbers) != own:
            raise DeclinedError(
                f"the evaluation asks for {plan.numbers} cells of sensitivity {plan.sensitivity:g} in a "
                f"secure sum, this client's histogram has {own[1]} of {own[0]:g}."
            )
        offer = self.offer(rounds, repeats=repeats)
        if not offer.allows(plan.noise_multiplier):
            least = "" if offer.settled else f" at least, and {MOST_OVER_OWN:g} times that at most"
            raise DeclinedError(
                f"the evaluation asks for noise multiplier {plan.noise_multiplier:g} in a secure sum, this "
                f"client's test records have {offer.noise_multiplier:g}{least}."
            )
        self._require_room(rounds, _entry(plan.noise_multiplier, plan), repeats)

    def _require_room(self, rounds: ClientRounds, entry: Entry, repeats: bool) -> None:
        """BudgetExhaustedError if the entry does not fit, unless it was paid for and may be repeated."""
        data, run, number = self._account.dataset, self._plan.run, self._plan.server_round
        if not (repeats and rounds.took_part(data, run, number)):
            rounds.require_budget(self._account.budget, entry, rounds.ledger.spent(data))

    def _require_approval(self, rounds: ClientRounds) -> None:
        if self._client.settings.approve and not rounds.took_part(self._client.dataset, self._plan.run):
            raise DeclinedError("its operator approves runs, and it has trained no round of this one.")


class Evaluation(EvaluationRequest):
    """One evaluation, with the model to be evaluated; made before anything is paid for.

    into: the client's part in a signed secure sum, if the plan asks for one; a simulation, which adds up in
    the clear, has none. DeclinedError also for weights that do not fit; ModelError for a model that keeps a
    state.
    """

    def __init__(
        self,
        client: Client,
        plan: EvaluationPlan,
        content: RecordDict,
        part: "Examples",
        into: MaskedPart | None = None,
    ) -> None:
        super().__init__(client, plan, part)
        settings, self._into = client.settings, into
        self._task, self._device = task_of(settings), find_devices(settings.device)[0]
        self._task.form = part.form
        self._model = new_model(self._task).to(self._device).eval()
        weights = expected_weights(content, plan.model, specs(state_arrays(self._model)))
        if into is not None:
            into.check_weights(weights)
            into.check_numbers(self.layout.size)
        load_arrays(self._model, weights)
        self._weights = digest_of(weights)
        if self._account.held_out.counted is not None:
            _ = self._account.held_out.counted.inputs  # features are computed before anything is paid for
        with in_task_code(type(self._task), "a pass of made-up records"):
            check_model(self._model, self._task, self._device)

    def play(self, rounds: ClientRounds, *, repeats: bool = False) -> SiteHistogram:
        """Pay, count, add noise, commit. repeats: the same question gets the same answer, as long as the key
        of its payment is kept; otherwise RoundTakenError.

        BudgetExhaustedError if it does not fit `evaluate-epsilon`. LedgerError: nothing may leave.
        """
        account, ledger = self._account, rounds.ledger
        self._require_approval(rounds)
        if self._plan.secure:
            self.check_sum(rounds, repeats=repeats)
        paid = self._pay(rounds, repeats=repeats)
        if self._into is not None:
            self._into.lost.paid()
        cells = self._released(self._counts(), paid)
        ledger.commit(paid)
        spent = ledger.spent(account.dataset)
        return SiteHistogram(
            cells=cells,
            spent=spent,
            epsilon=account.budget.epsilon_of(spent),
            delta=account.budget.delta,
            budget=account.budget.epsilon,
            accountant=account.budget.accountant,
            subgroups=_names(self.layout),
        )

    def _pay(self, rounds: ClientRounds, *, repeats: bool) -> Reservation:
        account, plan, ledger = self._account, self._plan, rounds.ledger
        multiplier = plan.noise_multiplier
        if not plan.secure:
            multiplier = noise_of(account, ledger.spent(account.dataset), plan.evaluations)
        features = bool(self._client.settings.features)  # computed for many records at a time
        request = ReservationRequest(
            account.dataset,
            plan.run,
            plan.server_round,
            _entry(multiplier, plan),
            account.budget,
            inputs=self._digest().hex() if repeats else "",
            arithmetic=STEADY_ROWS if features else PROVEN,
        )
        (paid,) = ledger.reserve_all([request])
        if isinstance(paid, DeclinedError):
            raise paid
        return paid

    def _counts(self) -> Counts:
        account, layout = self._account, self.layout
        records, passes = account.held_out.counted, account.public_size * layout.cap
        return count(self._model, self._task, records, layout, passes, self._device)

    def _released(self, counts: Counts, paid: Reservation) -> "NDArray":
        """The counts with noise, by a key that covers all that decides them; for a sum with a share of it."""
        key = blake2b(self._digest(self._account.fingerprint), key=paid.key, digest_size=32).digest()
        noise = paid.entry.noise_multiplier
        if not self._plan.secure:
            return noised(counts, self.layout, noise, Randomness(key))
        part = share(counts, self.layout, noise, self._plan.shares, Randomness(key))
        return part[CELLS] if self._into is None else self._into.masked(part)[MASKED]

    def _digest(self, *more: str) -> bytes:
        fixed = self._weights, str(self._plan), str(self.layout), torch.__version__, str(NUMERICS)
        covered = "\0".join((self._account.dataset, *fixed, *more))
        return blake2b(f"evaluation\0{covered}".encode(), digest_size=32).digest()


def noised(counts: Counts, layout: Layout, noise_multiplier: float, randomness: Randomness) -> "NDArray":
    """(layout.size,) the weighted counts with noise of the multiplier times their sensitivity.

    The Gaussian mechanism of a step, on its public grid (`engine/noise/grid.py`). Each number is exact up to
    2^-53 of it, which is far below what the grid's widening allows for a sum of one (`sum_error`).
    """
    clipped = _weighted(counts, layout)
    found = add_gaussian_noise(clipped, noise_multiplier=noise_multiplier, generator=randomness)
    cells: NDArray = found[CELLS].numpy()
    return cells


def share(
    counts: Counts, layout: Layout, noise_multiplier: float, shares: int, randomness: Randomness
) -> dict[str, "NDArray"]:
    """The weighted counts as integers on the grid of a secure sum, with one of `shares` shares of its noise:
    what a step gives to such a sum (`engine/noise/gaussian.py`).
    """
    integers, _ = share_of_sum(
        _weighted(counts, layout), noise_multiplier=noise_multiplier, shares=shares, generator=randomness
    )
    return {CELLS: integers[CELLS].numpy()}


def _weighted(counts: Counts, layout: Layout) -> ClippedSum:
    weighted = torch.from_numpy(counts * layout.weights)
    return ClippedSum({CELLS: weighted}, layout.sensitivity, torch.zeros(0), most=1)


def _entry(noise_multiplier: float, plan: EvaluationPlan) -> Entry:
    """What the evaluation costs: a step without sampling, in a secure sum with its shares."""
    return Entry(1.0, noise_multiplier, 1, max(1, plan.shares))


def _names(layout: Layout) -> tuple[str, ...]:
    return tuple(name for one in layout.subgroups for name in one)


def check_evaluation(plan: EvaluationPlan, settings: ClientConfig, task: str) -> None:
    """DeclinedError, with the reason, unless the client accepts the plan."""
    check_run_name(plan.run)
    for what, asked, own in (
        ("model", plan.model, common_name(settings.model)),
        ("task", plan.task, task),
        ("unit", plan.unit, settings.unit_of_all),
    ):
        if asked != own:
            raise DeclinedError(
                f"the evaluation asks for {what} {asked[:64]!r}, this client's settings have {own[:64]!r}."
            )
    if plan.server_round < 1 or plan.bins not in BINS:
        raise DeclinedError(
            f"the evaluation is of round {plan.server_round} in {plan.bins} bins: expected a round from 1 "
            f"on, and {' or '.join(map(str, BINS))} bins."
        )
    if settings.personal:
        raise DeclinedError("the evaluation asks for a common model, this client has parameters of its own.")


def noise_of(account: HeldOutAccount, spent: tuple[Entry, ...], evaluations: int) -> float:
    """The noise multiplier of the account: that of its first evaluation, which all later ones keep.

    The first is for so many evaluations of equal noise as the run plans. With another number later runs get
    fewer or more of them, never another noise: one mechanism, so that the sum of epsilons holds whatever a
    server asks next (`one_mechanism.py`).
    """
    if spent:
        return spent[0].noise_multiplier
    budget = account.budget
    return _calibrated(evaluations, budget.epsilon, budget.delta, budget.accountant)


@lru_cache(maxsize=64)
def _calibrated(evaluations: int, epsilon: float, delta: float, accountant: str) -> float:
    return calibrate_noise(1.0, evaluations, epsilon, delta, accountant=accountant)
