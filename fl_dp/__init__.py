"""Federated training in which every client's records are protected by differential privacy."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from fl_dp.steady_math import set_mode

if TYPE_CHECKING:
    from fl_dp.api.predicting import encode as encode
    from fl_dp.api.predicting import predict as predict
    from fl_dp.api.result import Result as Result
    from fl_dp.api.result import load_run as load_run
    from fl_dp.api.results import Results as Results
    from fl_dp.api.simulate import check as check
    from fl_dp.api.simulate import plan as plan
    from fl_dp.api.simulate import simulate as simulate
    from fl_dp.api.study import study as study
    from fl_dp.config.run import RunConfig as RunConfig
    from fl_dp.data.subgroups import Subgroups as Subgroups
    from fl_dp.data.tensor_data import TensorData as TensorData
    from fl_dp.engine.bounds import split_bound as split_bound
    from fl_dp.engine.clip_functions import clip_function as clip_function
    from fl_dp.engine.clipping import ClippedSum as ClippedSum
    from fl_dp.engine.clipping import clipped_grad_sum as clipped_grad_sum
    from fl_dp.engine.clipping import empty_sum as empty_sum
    from fl_dp.engine.noise.gaussian import add_gaussian_noise as add_gaussian_noise
    from fl_dp.engine.probe import probe as probe
    from fl_dp.engine.sampling import PoissonSampler as PoissonSampler
    from fl_dp.engine.sampling import poisson_draw as poisson_draw
    from fl_dp.errors import AssumedSamplingWarning as AssumedSamplingWarning
    from fl_dp.form import Form as Form
    from fl_dp.launch.session import session as session
    from fl_dp.launch.validation import validate as validate
    from fl_dp.privacy_engine.engine import PrivacyEngine as PrivacyEngine
    from fl_dp.privacy_engine.ledger import Ledger as Ledger
    from fl_dp.privacy_engine.opacus_call import make_private as make_private
    from fl_dp.privacy_engine.opacus_call import make_private_with_epsilon as make_private_with_epsilon
    from fl_dp.privacy_engine.trainer_call import make_trainer_private as make_trainer_private
    from fl_dp.tasks.task import Task as Task

# Imported on first use: Flower starts a process for every message, so import time is latency.
_HOMES = {
    "AssumedSamplingWarning": "fl_dp.errors",
    "ClippedSum": "fl_dp.engine.clipping",
    "Form": "fl_dp.form",
    "Ledger": "fl_dp.privacy_engine.ledger",
    "PoissonSampler": "fl_dp.engine.sampling",
    "PrivacyEngine": "fl_dp.privacy_engine.engine",
    "Result": "fl_dp.api.result",
    "Results": "fl_dp.api.results",
    "RunConfig": "fl_dp.config.run",
    "Subgroups": "fl_dp.data.subgroups",
    "Task": "fl_dp.tasks.task",
    "TensorData": "fl_dp.data.tensor_data",
    "add_gaussian_noise": "fl_dp.engine.noise.gaussian",
    "check": "fl_dp.api.simulate",
    "clip_function": "fl_dp.engine.clip_functions",
    "clipped_grad_sum": "fl_dp.engine.clipping",
    "empty_sum": "fl_dp.engine.clipping",
    "encode": "fl_dp.api.predicting",
    "load_run": "fl_dp.api.result",
    "make_private": "fl_dp.privacy_engine.opacus_call",
    "make_private_with_epsilon": "fl_dp.privacy_engine.opacus_call",
    "make_trainer_private": "fl_dp.privacy_engine.trainer_call",
    "plan": "fl_dp.api.simulate",
    "predict": "fl_dp.api.predicting",
    "poisson_draw": "fl_dp.engine.sampling",
    "probe": "fl_dp.engine.probe",
    "session": "fl_dp.launch.session",
    "simulate": "fl_dp.api.simulate",
    "split_bound": "fl_dp.engine.bounds",
    "study": "fl_dp.api.study",
    "validate": "fl_dp.launch.validation",
}

set_mode()  # before anything computes with PyTorch

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version("fl-dp")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
