"""The process of Flower's simulation. Runs as `python -m fl_dp.launch.flower.simulation_process FOLDER`."""

import os
import sys
import warnings
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from fl_dp.config.run import RunConfig
from fl_dp.federation.client.app import app as client_app
from fl_dp.federation.server.app import RESUMED_VARIABLE, run_federation
from fl_dp.launch.flower.simulation import backend_settings
from fl_dp.reporting.run_folder import RunFolder


def main() -> None:
    folder = RunFolder(Path(sys.argv[1]))
    config = RunConfig.from_toml(folder.config)
    server_app = ServerApp()

    @server_app.main()
    def serve(grid: Grid, context: Context) -> None:
        run = str(context.run_id)
        run_federation(grid, config.to_flat(), run, folder.path, resumed=RESUMED_VARIABLE in os.environ)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Flower warns to use `flwr run` instead, which would open a port
        run_simulation(server_app, client_app, config.clients, backend_config=backend_settings(config))


if __name__ == "__main__":
    main()
