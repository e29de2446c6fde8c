PYTHON ?= python3
CONSTRAINTS ?= constraints.txt
BIN := .venv/bin
INSTALLED := .venv/.installed
# One torch thread for each pytest worker.
PYTEST := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/pytest

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast check test-slow zoo bench bench-quick bench-measure bench-tune bench-quality training-runs training-page clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 16

demo: $(INSTALLED) ## watch a deep network learn nothing, and learn once it is tuned
	$(BIN)/python -m critinit demo

test: check test-fast ## check, then run the fast tests

test-fast: $(INSTALLED) ## run the fast tests
	$(PYTEST) -n 2

check: $(INSTALLED) ## lint, format, types, doctests
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --strict src
	$(PYTEST) --doctest-modules src

test-slow: $(INSTALLED) ## run the slow tests
	$(PYTEST) -m slow

zoo: $(INSTALLED) ## measure the model zoo
	$(BIN)/python benchmarks/zoo.py

bench: $(INSTALLED) ## compare with other initializations (about an hour)
	$(BIN)/python benchmarks/bench.py

bench-quick: $(INSTALLED) ## fail if measuring or tuning costs 1.5 times what it did
	$(BIN)/python benchmarks/guard.py

bench-measure: $(INSTALLED) ## time a measurement
	$(BIN)/python benchmarks/measure_cost.py

bench-tune: $(INSTALLED) ## time a tuning
	$(BIN)/python benchmarks/tune_cost.py

bench-quality: $(INSTALLED) ## compare the sweep with the paper's SGD (about two hours)
	$(BIN)/python benchmarks/quality.py --sgd

training-runs: $(INSTALLED) ## run the trainings on CIFAR-10 that docs/training.md still lacks
	$(BIN)/python benchmarks/training/run.py

training-page: $(INSTALLED) ## renew the tables and pictures of docs/training.md
	$(BIN)/python benchmarks/training/page.py

clean: ## remove caches and builds; the next target reinstalls into .venv
	rm -rf build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache $(INSTALLED)
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

$(INSTALLED): pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(BIN)/python -m pip install -c $(CONSTRAINTS) -e ".[dev]"
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "critinit needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv .venv
