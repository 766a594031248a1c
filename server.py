"""The federation's server: Flower's entry point, and `python server.py` to run one by hand."""

from fl_dp.federation.server.app import app

__all__ = ["app"]

if __name__ == "__main__":
    from fl_dp.cli.server import main

    main()
