"""What is checked of a site before it joins: its records are named, and its model suits them."""

from fl_dp.config.client import ClientConfig
from fl_dp.errors import ConfigError


def check_data_named(settings: ClientConfig) -> None:
    """ConfigError, for settings that name no data, unless their task reads its own: a ledger lasts."""
    if settings.task:
        from fl_dp.tasks.load import task_class
        from fl_dp.tasks.task import Task

        if task_class(settings.task).train_data is not Task.train_data:
            return
    raise ConfigError(
        "data: name this site's records, which are entered in its lasting ledger: --data npz:PATH (or --set "
        "data=npz:PATH), data in --config FILE, or --task FILE.py with a train_data() of its own. To try it "
        "out: --data digits."
    )


def check_task(settings: ClientConfig) -> None:
    """ConfigError, with all that was found, where the site's model and loss do not suit its records.

    As `fl-dp validate` finds it. No ledger is touched, and no test row is read.
    """
    from fl_dp.launch.validation import validate
    from fl_dp.tasks.records import of_client

    found = validate(of_client(settings, settings.client), test=False).findings
    if found:
        raise ConfigError(
            f"client {settings.client} would decline every round: " + "; ".join(map(str, found))
        )
