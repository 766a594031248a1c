"""The server application, as Flower and `server.py` start it.

The run is imported when it begins. It imports PyTorch, which takes a second; `server.py --help` and a message
about wrong settings come without that wait.
"""

import logging
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

logger = logging.getLogger("fl_dp")
app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run one federation; Flower's entry point."""
    from fl_dp.federation.server.run import run_federation

    _log_to_stderr()
    run = str(context.run_id)
    folder = Path(str(context.run_config.get("out") or f"runs/{run}"))
    run_federation(grid, context.run_config, run, folder)


def _log_to_stderr() -> None:
    """Add a log handler, because Flower adds one only to its own logger."""
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
