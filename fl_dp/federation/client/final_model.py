"""The model of a run that is over: the server sends it once, and a site that wants it keeps it.

Arrays are read as numbers alone, and must be those of the site's own model. Nothing of the records is in the
answer: it says only that the message was heard.
"""

from pathlib import Path

from flwr.app import ConfigRecord, Message, RecordDict

from fl_dp.config.client import ClientConfig
from fl_dp.errors import FederationError
from fl_dp.federation.client.round import expected_weights
from fl_dp.federation.wire.arrays import load_arrays, specs, state_arrays
from fl_dp.federation.wire.messages import ABOUT, HEARD
from fl_dp.reporting.run_results import RunResults


def keep_final_model(message: Message, config: ClientConfig) -> RecordDict:
    """Write model and description into the folder `save_model`, if the settings name one."""
    if config.save_model:
        _keep(message.content, config)
    return RecordDict({HEARD: ConfigRecord({})})


def _keep(content: RecordDict, config: ClientConfig) -> None:
    from fl_dp.tasks.description import describe
    from fl_dp.tasks.load import new_model, task_of
    from fl_dp.tasks.records import load_part

    about = content.get(ABOUT)
    if not isinstance(about, ConfigRecord) or type(about.get("private")) is not bool:
        raise FederationError("a final model that does not say whether it is private")
    task = task_of(config)
    task.form = load_part(config).form
    model = new_model(task)
    load_arrays(model, expected_weights(content, config.model, specs(state_arrays(model))))
    out = RunResults(Path(config.save_model), resumed=True)
    out.save_model(model.state_dict(), describe(task).to_dict(), private=bool(about["private"]))
