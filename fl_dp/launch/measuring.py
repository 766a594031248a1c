"""Measures the memory of a run's steps, with the real client on random numbers."""

import tempfile
from dataclasses import replace
from pathlib import Path

from fl_dp.config.data import RECORD
from fl_dp.config.run import RunConfig
from fl_dp.data.persons import Examples, by_unit
from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.kernel_choice.memory import peak_bytes
from fl_dp.federation.client.own_training import OwnTraining
from fl_dp.federation.client.registration import task_identity
from fl_dp.federation.devices import find_device
from fl_dp.federation.server.planning import round_plan
from fl_dp.federation.wire.arrays import encode, state_arrays
from fl_dp.federation.wire.messages import plan_to_content
from fl_dp.form import names_of
from fl_dp.launch.clients import client_config
from fl_dp.launch.forecast import Forecast, Memory
from fl_dp.records import MOST_EPSILON
from fl_dp.simulation.actor.process_memory import resident_bytes
from fl_dp.tasks.load import new_model, task_of
from fl_dp.tasks.task import Task
from fl_dp.training.objective import Objective

_EXAMPLES = 4  # of the random data, of which only the form counts
_STEP_MARGIN = 1.8  # a process may grow by this factor times the visible tensors (see engine/kernel_choice)


class _Rehearsed(OwnTraining):
    """Prepares a round on random numbers; sends nothing, not even to a secure sum."""

    gives_to_sums = True


def memory_of(forecast: Forecast) -> Memory | None:
    """What a step takes on this machine; None if no client can take part.

    Reads no record and opens no ledger.
    """
    config = forecast.config
    first = next((one.record for one in forecast.clients if one.record.mechanism is not None), None)
    if first is None:
        return None
    assert first.mechanism is not None
    plan = round_plan(first.profile, first.mechanism, config, "check", 1, task_identity(config))
    data = random_data(config, task_of(config), _EXAMPLES)
    content = plan_to_content(plan, encode(state_arrays(new_model(task_of(config)))))
    with tempfile.TemporaryDirectory() as scratch:
        own = client_config(config, 0, Path(scratch))
        training = _Rehearsed(replace(own, epsilon=MOST_EPSILON, public_size=len(data), test=0.0), data)
        training.prepare(plan, content)
        trainer = training.trainer
        assert trainer is not None
        needed = peak_bytes(lambda: trainer.rehearse(training.rows), find_device(config.device))
    return Memory(training.at_most, int(_STEP_MARGIN * needed), resident_bytes())


def random_data(config: RunConfig, task: Task, count: int) -> Examples:
    """`count` random examples of the task's form and unit."""
    form, persons = task.form, config.unit != RECORD
    each = config.records_per_person if persons else 1
    x, y = Objective(task.objective.of_records, form).blank(count * each)
    groups = tuple(str(number // each) for number in range(count * each)) if persons else ()
    classes = () if form.targets == "numbers" else names_of(form.outputs)
    return by_unit(TensorData(x, y, classes, form.vocabulary, groups), config)
