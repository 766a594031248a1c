.PHONY: setup check test test-fast bench bench-engine

DEVICE = cpu

setup:
	@scripts/setup.sh

check: setup
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy --strict fl_dp

test: setup
	.venv/bin/python -m pytest

test-fast: setup
	.venv/bin/python -m pytest -m "not slow"

bench: setup
	.venv/bin/python -m benchmarks.everything --device $(DEVICE) --out runs/bench

bench-engine: setup
	.venv/bin/python -m benchmarks.engine --device $(DEVICE) --json runs/bench-engine.json
