"""An evaluation of the global model on a client's own test records: accept, pay, count, add noise, answer.

It is a Gaussian mechanism without sampling: the histogram's L2 sensitivity is public
(`tasks/score_histogram.py`), and its noise is drawn as that of a step. It is paid for, on the disk, before a
record is read by the model, from the account of the test records and not from that of training.

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
from fl_dp.engine.clipping import ClippedSum
from fl_dp.engine.noise.gaussian import add_gaussian_noise
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.errors import ConfigError, DeclinedError
from fl_dp.federation.client.policy import check_run_name
from fl_dp.federation.client.round import ClientRounds, expected_weights
from fl_dp.federation.client.stages import Client, HeldOutAccount
from fl_dp.federation.devices import find_devices
from fl_dp.federation.wire.arrays import digest_of, load_arrays, specs, state_arrays
from fl_dp.federation.wire.evaluation import CELLS, EvaluationPlan, SiteHistogram
from fl_dp.models.names import common_name
from fl_dp.records import NUMERICS, PROVEN, STEADY_ROWS, Entry
from fl_dp.tasks.held_out import cap_of
from fl_dp.tasks.load import in_task_code, new_model, task_of
from fl_dp.tasks.score_histogram import Counts, Layout, check_model, count

if TYPE_CHECKING:
    from fl_dp.data.persons import Examples
    from fl_dp.federation.wire.arrays import NDArray

NO_TEST_RECORDS = "declares no test records of its own (test)"


class Evaluation:
    """One evaluation of a client whose data are registered; made before anything is paid for.

    part: the client's training data, whose form the model has. DeclinedError for a plan that its settings do
    not allow, and for weights that do not fit; ModelError for a model that keeps a state.
    """

    def __init__(self, client: Client, plan: EvaluationPlan, content: RecordDict, part: "Examples") -> None:
        if client.test is None:
            raise DeclinedError(f"this client {NO_TEST_RECORDS}.")
        settings = client.settings
        check_evaluation(plan, settings, client.task)
        self._client, self._account, self._plan = client, client.test, plan
        try:
            self._layout = Layout.of(part.form, cap_of(settings))
        except ConfigError as error:
            raise DeclinedError(f"the evaluation cannot be done here: {error}") from error
        self._task, self._device = task_of(settings), find_devices(settings.device)[0]
        self._task.form = part.form
        self._model = new_model(self._task).to(self._device).eval()
        weights = expected_weights(content, plan.model, specs(state_arrays(self._model)))
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
        if self._client.settings.approve and not rounds.took_part(self._client.dataset, self._plan.run):
            raise DeclinedError("its operator approves runs, and it has trained no round of this one.")
        paid = self._pay(rounds, repeats=repeats)
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
        )

    def _pay(self, rounds: ClientRounds, *, repeats: bool) -> Reservation:
        account, plan, ledger = self._account, self._plan, rounds.ledger
        noise = noise_of(account, ledger.spent(account.dataset))
        features = bool(self._client.settings.features)  # computed for many records at a time
        request = ReservationRequest(
            account.dataset,
            plan.run,
            plan.server_round,
            Entry(1.0, noise, 1),  # a step without sampling
            account.budget,
            inputs=self._digest().hex() if repeats else "",
            arithmetic=STEADY_ROWS if features else PROVEN,
        )
        (paid,) = ledger.reserve_all([request])
        if isinstance(paid, DeclinedError):
            raise paid
        return paid

    def _counts(self) -> Counts:
        account, layout = self._account, self._layout
        records, passes = account.held_out.counted, account.public_size * layout.cap
        return count(self._model, self._task, records, layout, passes, self._device)

    def _released(self, counts: Counts, paid: Reservation) -> "NDArray":
        """The counts with noise, by a key that covers all that decides them."""
        key = blake2b(self._digest(self._account.fingerprint), key=paid.key, digest_size=32).digest()
        return noised(counts, self._layout, paid.entry.noise_multiplier, Randomness(key))

    def _digest(self, *more: str) -> bytes:
        fixed = self._weights, str(self._plan), str(self._layout), torch.__version__, str(NUMERICS)
        covered = "\0".join((self._account.dataset, *fixed, *more))
        return blake2b(f"evaluation\0{covered}".encode(), digest_size=32).digest()


def noised(counts: Counts, layout: Layout, noise_multiplier: float, randomness: Randomness) -> "NDArray":
    """(layout.size,) the weighted counts with noise of the multiplier times their sensitivity.

    The Gaussian mechanism of a step, on its public grid (`engine/noise/grid.py`). Each number is exact up to
    2^-53 of it, which is far below what the grid's widening allows for a sum of one (`sum_error`).
    """
    weighted = torch.from_numpy(counts * layout.weights)
    clipped = ClippedSum({CELLS: weighted}, layout.sensitivity, torch.zeros(0), most=1)
    found = add_gaussian_noise(clipped, noise_multiplier=noise_multiplier, generator=randomness)
    cells: NDArray = found[CELLS].numpy()
    return cells


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
    if plan.server_round < 1:
        raise DeclinedError(f"the evaluation is of round {plan.server_round}: expected one from 1 on.")
    if settings.personal:
        raise DeclinedError("the evaluation asks for a common model, this client has parameters of its own.")


def noise_of(account: HeldOutAccount, spent: tuple[Entry, ...]) -> float:
    """The noise multiplier of the account: that of its first evaluation, which all later ones keep.

    The first spends the whole budget; a larger budget later pays for others of the same noise. So there is
    one mechanism, and the sum of epsilons holds whatever a server asks next (`one_mechanism.py`).
    """
    if spent:
        return spent[0].noise_multiplier
    budget = account.budget
    return _calibrated(budget.epsilon, budget.delta, budget.accountant)


@lru_cache(maxsize=64)
def _calibrated(epsilon: float, delta: float, accountant: str) -> float:
    return calibrate_noise(1.0, 1, epsilon, delta, accountant=accountant)
