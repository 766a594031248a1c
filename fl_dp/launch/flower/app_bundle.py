"""The Flower app bundle (FAB) of a run: entry points of the installed fl_dp, and the run config's keys.

It is made when a run starts, so that a wheel is enough. It names no dependencies: Flower then installs none.
"""

from importlib.metadata import version

import tomli_w

from fl_dp.config.run import RunConfig


def build_bundle() -> bytes:
    """The bundle's bytes."""
    from flwr.cli.build import build_fab_from_files

    return build_fab_from_files(bundle_files())[0]


def bundle_files() -> dict[str, bytes]:
    """pyproject.toml, server.py and client.py of the app, by name.

    Flower takes only overrides of keys that stand in [tool.flwr.app.config].
    """
    app = {
        "publisher": "fl-dp",
        "fab-include": ["server.py", "client.py"],
        "components": {"serverapp": "server:app", "clientapp": "client:app"},
        "config": RunConfig().to_flat(),
    }
    project = {
        "name": "fl-dp",
        "version": version("fl-dp"),
        "description": "A federation of fl_dp, which is installed.",
        "license": "Apache-2.0",
        "dependencies": [],
    }
    pyproject = tomli_w.dumps({"project": project, "tool": {"flwr": {"app": app}}})
    return {
        "pyproject.toml": pyproject.encode(),
        "server.py": _entry("server"),
        "client.py": _entry("client"),
    }


def _entry(side: str) -> bytes:
    return f'from fl_dp.federation.{side}.app import app\n\n__all__ = ["app"]\n'.encode()
