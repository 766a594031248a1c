"""The Python API: run a federation as a function call, and load any run, wherever it was made."""
