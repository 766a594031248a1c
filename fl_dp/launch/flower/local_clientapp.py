"""Flower's `flwr-clientapp`, changed to run this installation's client app and nothing else.

Flower ships an app's code from the server to the clients and runs it there: a server could then
replace the code that protects the client. This process takes Flower's place between the SuperNode
and the app. It neither unpacks what the server sent nor imports from it; the app that runs is
`fl_dp.federation.client.app:app`, as installed here.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fl_dp.errors import LaunchError

if TYPE_CHECKING:
    from flwr.clientapp import ClientApp

# The internals used below were checked in these versions of Flower; another may load code differently.
CHECKED_VERSIONS = ("1.41.0",)


def main() -> None:
    """Run one message through the local client app, as Flower's own command would."""
    use_local_app()
    from flwr.supernode.cli import flwr_clientapp

    flwr_clientapp()


def use_local_app() -> None:
    """Replace the three functions by which Flower's client process takes code from the server.

    Raises LaunchError when this Flower has not been checked: refusing is safe, guessing is not.
    """
    import flwr
    from flwr.supernode.runtime import run_clientapp as flower

    replacements = {
        "install_from_fab": _ignore,
        "install_app_dependencies": _ignore,
        "get_load_client_app_fn": _local_loader,
    }
    missing = [name for name in replacements if not hasattr(flower, name)]
    if flwr.__version__ not in CHECKED_VERSIONS or missing:
        raise LaunchError(
            f"flwr {flwr.__version__}: fl_dp knows how to keep a server's code out of a client only in flwr "
            f"{', '.join(CHECKED_VERSIONS)}; install that version."
        )
    for name, replacement in replacements.items():
        setattr(flower, name, replacement)


def _ignore(*_: Any, **__: Any) -> None:
    """Do nothing: what the server sent stays unopened."""


def _local_loader(*_: Any, **__: Any) -> Callable[..., "ClientApp"]:
    def load(*_: Any) -> "ClientApp":
        from fl_dp.federation.client.app import app

        return app

    return load


if __name__ == "__main__":
    main()
