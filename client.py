"""A federation's client: Flower's entry point, and `python client.py` to join a server by hand."""

from fl_dp.federation.client.app import app

__all__ = ["app"]

if __name__ == "__main__":
    from fl_dp.cli.client import main

    main()
