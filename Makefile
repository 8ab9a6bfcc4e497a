# For a newcomer: `make demo` and `make test`; while working: `make quick`. All build their own environment in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test quick check coverage bench clean

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.installed-test: pyproject.toml $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[test,neural]"
	touch $@

$(VENV)/.installed-bench: pyproject.toml $(VENV)/.installed-test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[bench]"
	touch $@

demo: $(VENV)/.installed
	$(BIN)/tacit demo --overwrite

check: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: check
	$(BIN)/pytest -n 2 --dist worksteal

# Lint, and the tests that are not marked slow: no types, under two minutes on two cores.
quick: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pytest -n 2 --dist worksteal -m "not slow"

# Which lines and branches of src/ the suite runs; compiled loops and child processes are not traced.
coverage: $(VENV)/.installed-test
	$(BIN)/pytest -n 2 --dist worksteal --cov --cov-report=term

# All parts of all benchmarks, beside their peers: hours. `make bench BENCH=--quick` only shows that they run.
bench: $(VENV)/.installed-bench
	for script in benchmarks/bench_*.py; do echo "=== $$script"; $(BIN)/python $$script $(BENCH) || exit 1; done

clean:
	rm -rf $(VENV) tacit-demo .mypy_cache .ruff_cache .pytest_cache
