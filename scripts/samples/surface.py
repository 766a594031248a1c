"""What a version offers by name, which later ones keep until the next major version (docs/stability.md)."""

import fl_dp
from fl_dp.config.all_keys import keys_of
from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from scripts.site.commands import all_commands


def surface() -> dict[str, list[str]]:
    """Names of `fl_dp`, commands with their options, and keys with their defaults."""
    found = {"names": sorted(fl_dp.__all__), "commands": [], "keys": []}
    for words, command in all_commands():
        options = [option for one in command.params for option in one.opts]
        found["commands"] += [" ".join((*words, option)) for option in ("", *sorted(options))]
    for kind in (RunConfig, ClientConfig):
        found["keys"] += [f"{kind.__name__} {key.name} = {key.default}" for key in keys_of(kind)]
    return found
