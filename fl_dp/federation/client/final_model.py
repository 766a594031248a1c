"""The final model of a run: the server sends it once, and a site keeps it if its settings say so.

Arrays are read as plain numbers, and saved only if they fit the site's own model. The answer contains nothing
about the records. It says that the message has arrived, and what the data have spent.
"""

import logging
from pathlib import Path

from flwr.app import ConfigRecord, Message, RecordDict

from fl_dp.config.client import ClientConfig
from fl_dp.errors import FederationError, FlDpError
from fl_dp.federation.client.policy import check_run_name
from fl_dp.federation.client.round import ClientRounds, expected_weights
from fl_dp.federation.client.stating import make_statement
from fl_dp.federation.wire.arrays import declared_specs, decode, load_arrays, specs, state_arrays
from fl_dp.federation.wire.messages import ABOUT, ARRAYS, HEARD, STATEMENT, array_record, config_record
from fl_dp.reporting.run_results import RunResults
from fl_dp.statements import Statement
from fl_dp.tasks.description import describe
from fl_dp.tasks.load import new_model, task_of
from fl_dp.tasks.records import load_part
from fl_dp.weights_digest import weights_digest

logger = logging.getLogger("fl_dp.clients")


def keep_final_model(message: Message, config: ClientConfig) -> RecordDict:
    """Write model and description to the folder `save_model`, if set; state what the data have spent."""
    private, run = _about(message.content)
    if config.save_model:
        _keep(message.content, config, private)
    answer = RecordDict({HEARD: ConfigRecord({})})
    if statement := _statement(message.content, config, run):
        answer[STATEMENT] = ConfigRecord({"text": statement.to_text()})
    return answer


def _about(content: RecordDict) -> tuple[bool, str]:
    about = config_record(content, ABOUT) or ConfigRecord()
    private, run = about.get("private"), about.get("run")
    if type(private) is not bool or not isinstance(run, str):
        raise FederationError("a final model that does not say of which run it is, and whether it is private")
    check_run_name(run)
    return private, run


def _keep(content: RecordDict, config: ClientConfig, private: bool) -> None:
    task = task_of(config)
    task.form = load_part(config).form
    model = new_model(task)
    load_arrays(model, expected_weights(content, config.model, specs(state_arrays(model))))
    out = RunResults(Path(config.save_model), resumed=True)
    out.save_model(model.state_dict(), describe(task).to_dict(), private=private)


def _statement(content: RecordDict, config: ClientConfig, run: str) -> Statement | None:
    """The statement; None if the data have paid for no round of that run.

    There is then nothing to state, and with a statement a server could claim that the site took part. Also
    None if it cannot be made: the log says why, and the model's arrival is confirmed all the same.
    """
    if not Path(config.ledger).exists():
        return None
    try:
        record = array_record(content, ARRAYS)
        weights = weights_digest(decode(record, declared_specs(record)))
        with ClientRounds.open(config) as rounds:
            client = rounds.known(config)
            took_part = client is not None and rounds.took_part(client.dataset, run)
            return make_statement(rounds.ledger, [client], run, weights) if client and took_part else None
    except FlDpError as error:
        logger.error("no statement is made: %s", error)
        return None
