"""An evaluation of the global model on a client's own test records, by the payment path of `payment.py`.

It is a Gaussian mechanism without sampling: the histogram's L2 sensitivity is public
(`tasks/score_histogram.py`), and its noise is drawn like that of a step. The account of the test records pays
for it, not the account of the training data.

Whether a client answers depends only on its settings, its ledger and the message: if the declared test
records are none, it answers with noise alone. A question that was paid for is not answered again; in a
simulation it gets the same numbers.
"""

from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b

import torch
from flwr.app import RecordDict

from fl_dp.accounting.calibration import calibrate_noise
from fl_dp.accounting.ledger.requests import ReservationRequest
from fl_dp.config.client import ClientConfig
from fl_dp.data.persons import Examples
from fl_dp.engine.clipping import ClippedSum
from fl_dp.engine.noise.gaussian import add_gaussian_noise
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.errors import ConfigError, DeclinedError
from fl_dp.federation.client.payment import Client, HeldOutAccount, Paid, pay_and_answer
from fl_dp.federation.client.policy import check_run_name
from fl_dp.federation.client.round import ClientRounds, expected_weights
from fl_dp.federation.devices import find_devices
from fl_dp.federation.wire.arrays import NDArray, digest_of, load_arrays, specs, state_arrays
from fl_dp.federation.wire.evaluation import CELLS, EvaluationPlan, SiteHistogram
from fl_dp.models.names import common_name
from fl_dp.records import NUMERICS, PROVEN, STEADY_ROWS, Entry, Refusal
from fl_dp.tasks.held_out import cap_of
from fl_dp.tasks.load import in_task_code, new_model, task_of
from fl_dp.tasks.score_histogram import Counts, Layout, check_model, count

NO_TEST_RECORDS = "declares no test records of its own (test)"


class Evaluation:
    """One evaluation of a client whose data are registered: an `Accepted` question, not paid for yet.

    part: the client's training data; the model has their form. DeclinedError for a plan that the settings do
    not allow, and for weights that do not fit; ModelError for a model that keeps a state.
    """

    def __init__(self, client: Client, plan: EvaluationPlan, content: RecordDict, part: Examples) -> None:
        if client.test is None:
            raise DeclinedError(f"this client {NO_TEST_RECORDS}.")
        settings = client.settings
        check_evaluation(plan, settings, client.task)
        self.client, self.account, self.key, self._plan = client, client.test, client.dataset, plan
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
        self._spent: tuple[Entry, ...] = ()
        if self.account.held_out.counted is not None:
            _ = self.account.held_out.counted.inputs  # features are computed before anything is paid for
        with in_task_code(type(self._task), "a pass of made-up records"):
            check_model(self._model, self._task, self._device)

    def play(self, rounds: ClientRounds, *, repeats: bool = False) -> SiteHistogram | Refusal:
        """Pay, count, add noise, commit. Declined if it does not fit `evaluate-epsilon`.

        repeats: a repeated question gets the same answer while the key of its payment is kept; otherwise it
        is refused. LedgerError: nothing may leave.
        """
        if self.client.settings.approve and not rounds.took_part(self.client.dataset, self._plan.run):
            raise DeclinedError("its operator approves runs, and it has trained no round of this run.")
        self._spent = rounds.ledger.spent(self.account.dataset)
        inputs = self.covers().hex() if repeats else ""
        return pay_and_answer(rounds.ledger, self, self._cells, _histogram, inputs)

    def request(self, inputs: str) -> ReservationRequest:
        """See `Accepted`: a step without sampling."""
        account, plan = self.account, self._plan
        entry = Entry(1.0, noise_of(account, self._spent), 1)
        features = bool(self.client.settings.features)  # computed for many records at a time
        arithmetic = STEADY_ROWS if features else PROVEN
        return ReservationRequest(
            account.dataset, plan.run, plan.server_round, entry, account.budget, inputs, arithmetic
        )

    def covers(self, *digests: str) -> bytes:
        """See `Accepted`. digests: that of the records, which stays here."""
        fixed = self._weights, str(self._plan), str(self._layout), torch.__version__, str(NUMERICS)
        covered = "\0".join((self.account.dataset, *fixed, *digests))
        return blake2b(f"evaluation\0{covered}".encode(), digest_size=32).digest()

    def _cells(self, paid: "Paid[Evaluation]") -> Mapping[str, NDArray]:
        """The counts with noise, from a key that covers everything that decides them."""
        account, layout = self.account, self._layout
        records, passes = account.held_out.counted, account.public_size * layout.cap
        counts = count(self._model, self._task, records, layout, passes, self._device)
        noise = paid.reservation.entry.noise_multiplier
        return {CELLS: noised(counts, layout, noise, Randomness(paid.key(account.fingerprint)))}


def _histogram(
    paid: Paid[Evaluation], arrays: Mapping[str, NDArray], spent: tuple[Entry, ...]
) -> SiteHistogram:
    budget = paid.accepted.account.budget
    return SiteHistogram(
        cells=arrays[CELLS],
        spent=spent,
        epsilon=budget.epsilon_of(spent),
        delta=budget.delta,
        budget=budget.epsilon,
        accountant=budget.accountant,
    )


def noised(counts: Counts, layout: Layout, noise_multiplier: float, randomness: Randomness) -> NDArray:
    """(layout.size,) the weighted counts plus noise; its deviation is the multiplier times their sensitivity.

    This is the Gaussian mechanism of a step, on its public grid (`engine/noise/grid.py`). Each number has a
    relative error of 2^-53, far below what the grid's widening allows for a sum of one (`sum_error`).
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
        raise DeclinedError("the evaluation is of a common model, but this client has parameters of its own.")


def noise_of(account: HeldOutAccount, spent: tuple[Entry, ...]) -> float:
    """The noise multiplier of the account: its first evaluation sets it, and all later ones keep it.

    The first spends the whole budget; if the budget grows, it pays for others with the same noise. So there
    is one mechanism, and the composed epsilon holds whatever a server asks next (`one_mechanism.py`).
    """
    if spent:
        return spent[0].noise_multiplier
    budget = account.budget
    return _calibrated(budget.epsilon, budget.delta, budget.accountant)


@lru_cache(maxsize=64)
def _calibrated(epsilon: float, delta: float, accountant: str) -> float:
    return calibrate_noise(1.0, 1, epsilon, delta, accountant=accountant)
