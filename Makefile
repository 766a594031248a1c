.PHONY: setup check test test-all test-times keys docs wheel release release-ready figures bench-engine bench-accuracy bench-simulation bench-gpu report-png

DEVICE = cpu
DATA_ROOT = data
PFL_PYTHON =
TEST_PROCESSES = 2
PARTS =
QUICK =

setup:
	@scripts/setup.sh --dev

check: setup
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/lint-imports --no-cache
	.venv/bin/mypy --strict fl_dp scripts

# All that must pass. Each process takes about 1.5 GB; one that is done takes over tests of the other.
test: setup
	.venv/bin/python -m pytest -n $(TEST_PROCESSES) --dist worksteal -m "not slow"

# The rest, by part: PARTS="launch rest" runs two of them.
test-all: setup
	.venv/bin/python -m scripts.test_parts --processes $(TEST_PROCESSES) $(PARTS)

test-times: setup
	PYTHONPATH=tests .venv/bin/python -m pytest -p times -n $(TEST_PROCESSES) --dist worksteal -m "not slow" --durations=25

keys: setup
	.venv/bin/fl-dp keys --markdown > docs/keys.md

# Not --quiet: then MkDocs counts no warnings, and --strict lets them pass.
docs: setup
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict

wheel: setup
	.venv/bin/python -m scripts.build dist

# All of a release but publishing it: dist/VERSION/, and a tag in this checkout.
release: release-ready check test test-all docs
	.venv/bin/python -m scripts.release

release-ready: setup
	.venv/bin/python -m scripts.release --ready

figures: setup
	.venv/bin/python -m scripts.figures

bench-engine: setup
	.venv/bin/python -m benchmarks.engine --device $(DEVICE) --json runs/bench-engine.json

bench-accuracy: setup
	.venv/bin/python -m benchmarks.accuracy --data-root $(DATA_ROOT) --out runs/bench-accuracy.jsonl

bench-simulation: setup
	.venv/bin/python -m benchmarks.simulation --data-root $(DATA_ROOT) $(if $(PFL_PYTHON),--pfl-python $(PFL_PYTHON)) --json runs/bench-simulation.json

# The first day with a GPU. Without one: DEVICE=cpu QUICK=--quick
bench-gpu: DEVICE = cuda
bench-gpu: setup
	.venv/bin/python -m benchmarks.gpu --device $(DEVICE) $(QUICK)

report-png: setup
	.venv/bin/python docs/report_png.py $(RUN)
