# Every target sets up what it needs in .venv; a fresh machine needs python3 with venv, make and a C compiler.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests are spread over two processes; PYTEST_ARGS adds options or names files.
WORKERS ?= 2
# Random models that make fuzz-ops compares: of each generator of one operator, and of several operators.
QIMPORT_FUZZ ?= 28
# Targets for which make test-targets runs everything that their emulators can.
QIMPORT_TARGETS ?= all
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.DELETE_ON_ERROR:
.PHONY: help demo test test-targets test-long check fuzz-ops format bench report golden docs clean

help:
	@echo "make demo         compile the digit network, compare with the interpreter, build for arm64"
	@echo "make test         run the tests (PYTEST_ARGS='-k conv')"
	@echo "make test-targets run networks of QIMPORT_ZOO under emulators (QIMPORT_TARGETS=arm64,armv7)"
	@echo "make test-long    every file of QIMPORT_ZOO in all modes, thousands of kernels"
	@echo "make check        lint, formatting and types"
	@echo "make fuzz-ops     compare random models with the interpreter (QIMPORT_FUZZ=100)"
	@echo "make format       apply the formatter and safe lint fixes"
	@echo "make bench        time the networks of QIMPORT_ZOO (BENCH_ARGS='--per-layer')"
	@echo "make report       measure the tables of docs/performance.md"
	@echo "make golden       rewrite the expected output of tests/filetests; review the diff"
	@echo "make docs         regenerate the pages made from docstrings"
	@echo "make clean        remove .venv and everything generated"

$(VENV)/pyvenv.cfg:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.test: pyproject.toml | $(VENV)/pyvenv.cfg
	$(PIP) install -e ".[test]"
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.test
	$(PIP) install -e ".[test,dev]"
	@touch $@

demo: $(VENV)/.test
	$(BIN)/python examples/demo.py

test: $(VENV)/.test
	$(BIN)/python -m pytest -n $(WORKERS) $(PYTEST_ARGS)

test-targets: $(VENV)/.test
	QIMPORT_TARGETS=$(QIMPORT_TARGETS) $(BIN)/python -m pytest -q -n $(WORKERS) tests/test_targets.py tests/test_target_operators.py tests/test_stack.py

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test-long: $(VENV)/.test
	QIMPORT_ZOO_MODES=all QIMPORT_SWEEP=long $(BIN)/python -m pytest -q -n $(WORKERS) tests/test_zoo.py tests/test_kernel_rows.py

fuzz-ops: $(VENV)/.test
	QIMPORT_FUZZ=$(QIMPORT_FUZZ) $(BIN)/python -m pytest -q -n $(WORKERS) tests/test_fuzz_operators.py tests/test_fuzz_graphs.py

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.test
	$(BIN)/qimport bench $(QIMPORT_ZOO)/bench/*.tflite $(BENCH_ARGS)

report: $(VENV)/.test
	$(PIP) install openvino
	$(BIN)/python benchmarks/report.py $(SECTIONS)

golden: $(VENV)/.test
	QIMPORT_GOLDEN=1 $(BIN)/python -m pytest -q tests/test_filetests.py
	git diff --stat -- tests/filetests

docs: $(VENV)/.test
	$(BIN)/python docs/generate.py

clean:
	rm -rf $(VENV) build dist out *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find qimport tests models examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
