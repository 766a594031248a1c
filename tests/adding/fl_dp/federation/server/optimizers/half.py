"""Half written: no class."""

SERVER_OPTIMIZER = 3
