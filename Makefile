# For a newcomer: `make demo` and `make test`; while working: `make quick`. All build their own environment in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# Tests start hundreds of processes: without bytecode on disk each compiles tacit again, which takes half a second.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test quick lint types suite coverage docs bench reproduce-quick clean

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.installed-test: pyproject.toml $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[test,neural,app,dask]"
	touch $@

$(VENV)/.installed-bench: pyproject.toml $(VENV)/.installed-test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[bench]"
	touch $@

$(VENV)/.installed-docs: pyproject.toml $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs,neural,app,dask]"
	touch $@

demo: $(VENV)/.installed
	$(BIN)/tacit demo --overwrite

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-test
	$(BIN)/mypy

# Three processes on two cores: many tests wait for parties, browsers and timeouts.
suite: $(VENV)/.installed-test
	$(BIN)/pytest -n 3 --dist worksteal

# The types are checked while tests wait.
test: lint
	$(MAKE) --jobs 2 types suite

# Lint, and the tests that are not marked slow: no types, under two minutes on two cores.
quick: lint
	$(BIN)/pytest -n 2 --dist worksteal -m "not slow"

# Which lines and branches of src/ the suite runs; compiled loops and child processes are not traced.
coverage: $(VENV)/.installed-test
	$(BIN)/pytest -n 2 --dist worksteal --cov --cov-report=term

# The site in docs/_build/html: every example is run, warnings are errors, nothing is loaded from elsewhere.
docs: $(VENV)/.installed-docs
	$(BIN)/sphinx-build -W --keep-going -q -j 2 -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

# All parts of all benchmarks, beside their peers: hours. `make bench BENCH=--quick` only shows that they run.
bench: $(VENV)/.installed-bench
	for script in benchmarks/bench_*.py; do echo "=== $$script"; $(BIN)/python $$script $(BENCH) || exit 1; done

# Every table and figure of the papers with small settings, on the data sets that are there; it shows that they run.
reproduce-quick: $(VENV)/.installed-test
	$(BIN)/tacit reproduce --all --quick --overwrite --output tacit-reproduce-quick

clean:
	rm -rf $(VENV) tacit-demo tacit-reproduce-quick docs/_build docs/api docs/gallery .mypy_cache .ruff_cache .pytest_cache
