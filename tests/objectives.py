"""What a trainer minimises, for tests that are of trainers and not of tasks."""

from fl_dp.config.task import TaskSettings
from fl_dp.form import Form
from fl_dp.tasks.task import Task
from fl_dp.training.objective import Objective


def objective_for(form: Form, loss: str = "cross-entropy") -> Objective:
    """Of a built-in task, for data of that form."""
    task = Task(TaskSettings(loss=loss))
    task.form = form
    return task.objective
