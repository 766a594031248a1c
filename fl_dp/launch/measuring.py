"""Measures how long a run's rounds take, from a few steps of the real client on random numbers."""

import logging
import math
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch
from flwr.app import RecordDict

from fl_dp.accounting.ledger.requests import Reservation
from fl_dp.config.client import ClientConfig
from fl_dp.config.data import RECORD
from fl_dp.config.run import RunConfig
from fl_dp.data.persons import Examples, by_unit
from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.kernel_choice.memory import peak_bytes
from fl_dp.errors import DeclinedError
from fl_dp.federation.client.own_training import OwnTraining
from fl_dp.federation.client.profile import budget_of
from fl_dp.federation.client.registration import task_identity
from fl_dp.federation.client.round import CLIENTS_LOGGER, ClientRounds, play
from fl_dp.federation.client.stages import AcceptedRound, Client, PaidRound
from fl_dp.federation.devices import find_device
from fl_dp.federation.server.evaluation import evaluate
from fl_dp.federation.server.planning import round_plan
from fl_dp.federation.wire.arrays import encode, state_arrays
from fl_dp.federation.wire.messages import plan_to_content
from fl_dp.form import names_of
from fl_dp.launch.clients import client_config
from fl_dp.launch.environment import cores
from fl_dp.launch.forecast import Forecast, Timing
from fl_dp.records import MOST_EPSILON, Entry, Refusal, RoundPlan
from fl_dp.simulation.actor.process_memory import resident_bytes
from fl_dp.tasks.load import new_model, task_of
from fl_dp.tasks.records import evaluation_records
from fl_dp.tasks.task import Task
from fl_dp.training.objective import Objective
from fl_dp.training.rows import expected_passes

SECONDS = 1.5  # time to measure steps, unless the first takes longer
_MOST_STEPS = 500  # that are measured
_BATCHES = 4  # expected batches that the random data hold
_PART = 256  # examples of a measured step, if a whole step takes longer than SECONDS
_TEST = 512  # test examples to measure
# Seconds of work on an idle machine that no step shows; measured with digits, where little else is to do.
_AROUND, _AROUND_SIMULATED = 9.0, 8.0  # imports of server and clients or Ray, noise, the page at the end
_ENTERING = 0.7  # a client process's start and registration
_ANSWERING = 0.13  # a client's round besides reading, checks and steps: its process, the messages
_SUMMING = 2  # times that, in a secure sum: five stages, most of them short
_SERVING = 0.06  # the server's, of a round: epsilons, files
_STEP_MARGIN = 1.8  # a process may grow by this factor times the visible tensors (see engine/kernel_choice)


class _Rehearsed(OwnTraining):
    """Trains on random numbers, which are no secret; a step of a secure sum is sent nowhere."""

    gives_to_sums = True


def timing_of(
    forecast: Forecast,
    *,
    simulated: bool,
    known: Timing | None = None,
    test_records: int | None = None,
    reading: float = 0.0,
) -> Timing | None:
    """Timing on this machine; None if no client can take part. Reads no record and opens no ledger.

    known: timing of the same model and clients with other batches; if its steps were long, none is repeated.
    test_records: that the server evaluates on; None: as many as it has, in memory since `check_server`.
    reading: as in `Timing`.
    """
    config = forecast.config
    first = next((one.record for one in forecast.clients if one.record.mechanism is not None), None)
    if first is None:
        return None
    assert first.mechanism is not None
    plan = round_plan(first.profile, first.mechanism, config, "check", 1, task_identity(config))
    plan = replace(plan, pass_steps=1)  # one step of a pass takes as long as a Poisson step, and can be alone
    if known is not None and known.batch == _PART <= plan.expected_batch_size:
        found = replace(known, step=known.batch_seconds * _times_longer(plan, known.rows))
        return again(found, forecast, simulated=simulated)
    if test_records is None:
        test_records = len(evaluation_records(config, task_of(config)) or ())
    threads = 1 if simulated else max(1, cores() // config.clients)
    began = time.perf_counter(), time.thread_time()
    with _quiet(threads), tempfile.TemporaryDirectory() as scratch:
        data = random_data(config, task_of(config), _BATCHES * plan.expected_batch_size)
        settings = replace(
            client_config(config, 0, Path(scratch)), epsilon=MOST_EPSILON, public_size=len(data), test=0.0
        )
        training = _Rehearsed(settings, data)
        training.prepare(plan, _content(config, plan))
        batch, batch_seconds, measured = _seconds_of_a_step(training, data, plan, settings)
        short = replace(plan, steps=1, expected_batch_size=batch)
        one_step = _seconds_of_a_round(settings, data, short, config)
        trainer = training.trainer
        assert trainer is not None
        needed = peak_bytes(lambda: trainer.rehearse(training.rows), find_device(config.device))
        evaluating = _evaluating(config, test_records)
    slowness = max(1.0, (time.perf_counter() - began[0]) / (time.thread_time() - began[1]))
    longer = 1.0 if batch == plan.expected_batch_size else _times_longer(plan, training.rows)
    found = Timing(
        max(0.0, one_step - batch_seconds), longer * batch_seconds, measured, batch, batch_seconds,
        evaluating, min(cores(), config.fit_clients), threads, training.at_most, training.rows,
        int(_STEP_MARGIN * needed), resident_bytes(), reading=reading, slowness=slowness,
        around=_around(config, reading, slowness, simulated=simulated),
    )  # fmt: skip
    return again(found, forecast, simulated=simulated)


def _seconds_of_a_round(settings: ClientConfig, data: Examples, plan: RoundPlan, config: RunConfig) -> float:
    """Seconds of a client's second round, paid from a scratch ledger.

    The first round also chooses kernels and rows. DeclinedError if the client takes no part.
    """
    with ClientRounds.open(settings) as rounds:
        (client,) = rounds.register([(settings, data)])
        for server_round in (1, 2):
            started = time.perf_counter()
            content = _content(config, replace(plan, server_round=server_round))
            answer = play(rounds, client, content, _Rehearsed(settings, data))
            if isinstance(answer, Refusal):
                raise DeclinedError(f"a client would decline: {answer.reason}")
    return time.perf_counter() - started


def random_data(config: RunConfig, task: Task, count: int) -> Examples:
    """`count` random examples of the task's form and unit."""
    form, persons = task.form, config.unit != RECORD
    each = config.records_per_person if persons else 1
    x, y = Objective(task.objective.of_records, form).blank(count * each)
    groups = tuple(str(number // each) for number in range(count * each)) if persons else ()
    classes = () if form.targets == "numbers" else names_of(form.outputs)
    return by_unit(TensorData(x, y, classes, form.vocabulary, groups), config)


def _content(config: RunConfig, plan: RoundPlan) -> RecordDict:
    """A round's message with the initial weights, as the server makes it."""
    model = new_model(task_of(config))
    return plan_to_content(plan, encode(state_arrays(model)))


def _seconds_of_a_step(
    training: OwnTraining, data: Examples, plan: RoundPlan, settings: ClientConfig
) -> tuple[int, float, int]:
    """Examples of a measured step, mean seconds of a step, and number of steps measured.

    The first step has only some of the examples. If a whole step would take too long, that one counts.
    """
    client = Client(settings, "random", len(data), "random", budget_of(settings, len(data)))

    def seconds(batch: int, steps: int) -> float:
        accepted = AcceptedRound("check", client, replace(plan, expected_batch_size=batch))
        entry = Entry(accepted.sample_rate, plan.noise_multiplier, steps)
        paid = PaidRound(accepted, Reservation(0, entry, bytes(32)))
        started = time.perf_counter()
        training.train(paid)
        return time.perf_counter() - started

    part, whole = min(_PART, plan.expected_batch_size), plan.expected_batch_size
    seconds(1, 1)  # a process's first step imports parts of PyTorch: longer than all steps of a small model
    first = seconds(part, 1)
    foreseen = first * (_times_longer(plan, training.rows) if part < whole else 1.0)
    if foreseen > SECONDS:
        return part, first, 1
    steps = max(1, min(_MOST_STEPS, int(SECONDS / max(foreseen, 1e-4))))
    return whole, seconds(whole, steps) / steps, steps


def _times_longer(plan: RoundPlan, rows: int) -> float:
    """Duration of a whole step relative to one of `_PART` examples; a private pass has a public length."""
    if not plan.private:
        return plan.expected_batch_size / _PART
    return expected_passes(plan.expected_batch_size, rows) / expected_passes(_PART, rows)


def _evaluating(config: RunConfig, test_records: int) -> float:
    """Seconds of one evaluation on `test_records` examples."""
    if not test_records:
        return 0.0
    task, count = task_of(config), min(_TEST, test_records)
    data = random_data(replace(config, unit=RECORD, records_per_person=0), task, count)
    assert isinstance(data, TensorData)
    started = time.perf_counter()
    evaluate(new_model(task), data, task, find_device(config.device), config.metric_names)
    return (time.perf_counter() - started) * test_records / count


def again(known: Timing, forecast: Forecast, *, simulated: bool) -> Timing:
    """The timing of a run whose steps take as long as those of `known`."""
    return replace(known, rounds=_all_rounds(forecast, known, simulated=simulated))


def _all_rounds(forecast: Forecast, found: Timing, *, simulated: bool) -> float:
    """All clients' work, spread over the cores; a round is never shorter than its slowest client's."""
    config = forecast.config
    # an actor keeps its model and data from round to round
    answering = _ANSWERING * (_SUMMING if config.secure else 1) * found.slowness
    preparing = 0.0 if simulated else found.preparing + found.reading + answering
    each = [
        (preparing + one.record.mechanism.steps * found.step, min(config.rounds, one.rounds))
        for one in forecast.clients
        if one.record.mechanism
    ]
    work = sum(seconds * rounds for seconds, rounds in each) * (config.fit_clients / config.clients)
    spread = work * found.threads / cores()
    longest = max(seconds for seconds, _ in each) * max(rounds for _, rounds in each)
    every, rounds = config.evaluate_every, forecast.rounds
    evaluations = math.ceil(rounds / every) if every else min(1, rounds)
    server = rounds * _SERVING * found.slowness + evaluations * found.evaluating
    return max(spread, min(longest, work)) + server


def _around(config: RunConfig, reading: float, slowness: float, *, simulated: bool) -> float:
    """Seconds before the first round and after the last. Server and clients read the data, each once."""
    if simulated:
        return _AROUND_SIMULATED * slowness + 2 * reading
    turns = max(1.0, config.clients / cores())
    return (_AROUND + _ENTERING * turns) * slowness + reading * (1 + turns)


@contextmanager
def _quiet(threads: int) -> Iterator[None]:
    """Limit PyTorch's threads and silence client logs, which would look like real rounds."""
    log, before = logging.getLogger(CLIENTS_LOGGER), torch.get_num_threads()
    disabled, log.disabled = log.disabled, True
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        log.disabled = disabled
