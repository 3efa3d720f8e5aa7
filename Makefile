# Two commands do everything: `make run` (the main job) and `make test`. Both create what they need in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Keep bytecode even where the environment says not to: tests start hundreds of Python processes.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help run test oldest compiled prepared lint format mutants bench soak arena paper docs clean

help:
	@echo "make run     compare all policies in a changing world: table, picture, report (runs/compare)"
	@echo "make test    lint, types, import contract, doctests and tests"
	@echo "make oldest  tests of everything that is compiled, with the oldest Numba and NumPy that the package takes"
	@echo "make mutants change one sign or number at a time where that costs most: does a test fail? (runs/mutants)"
	@echo "make paper   redo the paper's tables and figures, those on data sets where DRIFTBANDIT_DATA has them (runs/paper/report.html)"
	@echo "make arena   every policy in every kind of changing world (runs/arena); about an hour"
	@echo "make bench   time choose + learn beside NumPy and other packages"
	@echo "make soak    kill the service 100 times under load and stop it 20 times, on each store, then 15 minutes of mixed load"
	@echo "make docs    write the documentation's tables and pictures anew (runs everything above but the tests)"
	@echo "make lint    ruff, mypy and import-linter only"

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("driftbandit needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev,data,serve,trace,scale]'
	@touch $@

run: $(READY)
	$(BIN)/driftbandit compare

# One core compiles the policies; meanwhile the other checks types and makes what else tests need. Many tests wait for
# servers, so there is one worker more than cores. Files are begun in the order that tests/conftest.py gives them.
test: $(READY)
	@$(MAKE) --no-print-directory --jobs 2 compiled lint prepared
	$(BIN)/pytest -n $$($(BIN)/python -c 'import os; print(os.cpu_count() + 1)') --dist loadfile --no-loadscope-reorder

OLDEST := runs/oldest
oldest:
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/pip install --quiet --disable-pip-version-check -e . 'numba==0.59.*' 'numpy==1.26.*' 'pyarrow==15.*' pytest pytest-xdist hypothesis
	$(OLDEST)/bin/pytest -n auto tests/kernels tests/golden tests/policies tests/batch tests/test_conformance.py

compiled: $(READY)
	@$(BIN)/driftbandit warm > /dev/null

prepared: $(READY) lint
	@$(BIN)/python -m tests.prepare

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

mutants: $(READY)
	$(BIN)/python -m tests.mutants

paper: $(READY)
	$(BIN)/driftbandit paper all

arena: $(READY)
	$(BIN)/driftbandit arena

bench: $(READY)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[bench]' || echo "some peers could not be installed; timing without them"
	$(BIN)/driftbandit bench --out runs/bench

# How much of it; for example: make soak KILLS=10 SLEEPS=4 SCOPES=1000 MINUTES=2
KILLS ?= 100
SLEEPS ?= 20
SCOPES ?= 10000
MINUTES ?= 15
soak: $(READY)
	DRIFTBANDIT_KILLS=$(KILLS) DRIFTBANDIT_SLEEPS=$(SLEEPS) DRIFTBANDIT_SCOPES=$(SCOPES) DRIFTBANDIT_MINUTES=$(MINUTES) \
	DRIFTBANDIT_POLICY=driftucb $(BIN)/pytest -s tests/serving/test_crash.py

docs: bench
	$(BIN)/python docs/refresh.py

clean:
	rm -rf $(VENV) runs build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -prune -exec rm -rf {} +
