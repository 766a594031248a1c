"""`python -m fl_dp`: the command `fl-dp`."""

from fl_dp.cli.main import main

if __name__ == "__main__":
    main()
