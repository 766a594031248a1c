"""Keys, roster and kits of two hospitals, and a run of two rounds that they have trained with a server."""

import json
import socket

from scripts.samples.place import Place, finish

SITES = ("north", "south")
_FEDERATION = """\
federation = "hospitals"
addresses = ["127.0.0.1:{port}"]
requests = ["north/north.join.json", "south/south.join.json"]
valid-days = 365
"""
_RUN = """\
rounds = 2
clients = 2
min-clients = 2
fit-clients = 2
expected-batch-size = 16
epsilon = 4.0
"""
_CLIENT = """\
data = "digits"
partition-id = {part}
num-partitions = 20   # few records make a small ledger
epsilon = 4.0
min-noise-multiplier = 0.5
"""


def make_configs(place: Place) -> None:
    """As a person writes them, and as `fl-dp new` does."""
    folder = place.folder / "config"
    (folder / "run.toml").write_text(_RUN)
    for part, site in enumerate(SITES):
        (folder / f"{site}.toml").write_text(_CLIENT.format(part=part))
    place.run("init", "config/every-key.toml")


def make_kits(place: Place) -> None:
    """What docs/deployment.md does: `kits/provisioned` is of who provisions, the server's kit is in it."""
    for site in SITES:
        place.run("join-request", site, "--kit", f"kits/{site}")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (place.folder / "kits" / "federation.toml").write_text(_FEDERATION.format(port=port))
    place.run("provision", "kits/federation.toml", "--out", "kits/provisioned")
    roster = "kits/provisioned/roster.json"
    authority = json.loads((place.folder / roster).read_text())["roster"]["authority"]
    for site in SITES:
        place.run("accept", roster, "--kit", f"kits/{site}", "--authority", authority)


def make_deployed_run(place: Place) -> None:
    """The folder `deployed`, each site's ledger in `ledgers`, and the model as `fl-dp export` writes it."""
    server = ["--kit", "kits/provisioned/server", "--config", "config/run.toml", "--out", "deployed"]
    north, south = (
        ["--kit", f"kits/{site}", "--config", f"config/{site}.toml", "--ledger", f"ledgers/{site}", "--once"]
        for site in SITES
    )
    with (
        place.started("server", *server) as serving,
        place.started("client", *north) as one,
        place.started("client", *south) as other,
    ):
        for process in (serving, one, other):
            finish(process)
    for form in ("state-dict", "safetensors", "onnx"):
        place.run("export", "deployed", "--to", form, "--out", "models")
    for site in SITES:
        place.run("ledger", "export", f"ledgers/{site}", "--out", f"ledgers/{site}/export.json")
