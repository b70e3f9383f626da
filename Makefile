# Every target makes its own environment first. Needed on the machine: make, and python3 (3.11 or later) with pip.

PYTHON := python3
BIN := .venv/bin
UV := .tools/bin/uv
UV_REQUIREMENT := uv>=0.13.7,<0.14
READY := .venv/.ready

# uv must take the python3 of this machine and this project's .venv, whatever the caller has set or activated.
export UV_PYTHON_DOWNLOADS := never
export UV_PROJECT_ENVIRONMENT := .venv
# A process imports 1,400 modules. Without their bytecode it takes 1.3 s longer to start, and `make test` starts hundreds.
export UV_COMPILE_BYTECODE := 1
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test check coverage soak fuzz fuzz-sql bench mutants proto reference format peers kernels clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

demo: $(READY) ## show the crew surviving what usually breaks a query
	@$(BIN)/quarterdeck demo

test: $(READY) peers kernels ## run the fast tests
	@$(BIN)/pytest -q -n 2 --dist loadgroup

check: $(READY) ## run what continuous integration runs: format, lint, types, imports, async rules, class names, names of capabilities, tests, coverage
	@echo "== format" && $(BIN)/ruff format --check --quiet .
	@echo "== lint" && $(BIN)/ruff check --quiet .
	@echo "== types" && $(BIN)/basedpyright
	@echo "== imports" && $(BIN)/lint-imports --no-logo
	@echo "== async rules" && $(BIN)/python -m checks.async_rules src/quarterdeck
	@echo "== class names" && $(BIN)/python -m checks.class_names src/quarterdeck
	@echo "== names of capabilities" && $(BIN)/python -m checks.capability_names src/quarterdeck
	@echo "== tests" && $(MAKE) test
	@echo "== coverage of core" && $(MAKE) coverage

coverage: $(READY) ## fail unless tests/core reaches every branch of core
	@$(BIN)/coverage run -m pytest -q tests/core
	@$(BIN)/coverage report

soak: $(READY) ## run ten thousand simulated seeds of a crew, five thousand of recruiting and two thousand of declared things, then the long tests, including chaos with real processes
	@set -e; start=$(or $(START),$$($(PYTHON) -c 'import random; print(random.randrange(10**9))')); \
	  echo "playing seeds from $$start on (the same again: make soak START=$$start)"; \
	  $(BIN)/quarterdeck simulate --seeds 10000 --start $$start; \
	  $(BIN)/quarterdeck simulate --recruiting --seeds 5000 --start $$start; \
	  $(BIN)/quarterdeck simulate --declared --seeds 2000 --start $$start
	@$(BIN)/pytest -q -n 2 --dist loadgroup -m soak --timeout=0

SEED := 1
COUNT := 5000
SHARDS := 1
WAY :=
RUNS := 200000
WIRE := control frames rows artifact tasks
fuzz: $(READY) peers kernels ## compare random PromQL queries with a real Prometheus: SEED=7 COUNT=5000 SHARDS=1 WAY=--http; then fuzz the parsers and what reads the wire: RUNS=200000
	@$(BIN)/python -m tests.differential.fuzz --seed $(SEED) --count $(COUNT) --shards $(SHARDS) $(WAY)
	@$(BIN)/python -m checks.fuzz_parser promql -runs=$(RUNS) -max_len=300 -seed=$(SEED)
	@$(BIN)/python -m checks.fuzz_parser search -runs=$(RUNS) -max_len=300 -seed=$(SEED)
	@set -e; for target in $(WIRE); do echo "== $$target"; $(BIN)/python -m checks.fuzz_wire $$target -runs=$(RUNS) -max_len=100 -seed=$(SEED); done

fuzz-sql: $(READY) ## compare divided answers to random SQL with DuckDB's own: SEED=7 COUNT=5000
	@$(BIN)/python -m tests.engines.fuzz_sql --seed $(SEED) --count $(COUNT)

bench: $(READY) peers kernels ## measure the core, the crew beside dask.distributed, metrics beside Prometheus and VictoriaMetrics, the recruiter, and search beside DuckDB
	@$(BIN)/python bench/core.py
	@$(BIN)/python bench/control.py
	@$(BIN)/python bench/promql.py
	@$(BIN)/python bench/metrics.py
	@$(BIN)/python bench/recruiting.py
	@$(BIN)/python bench/search.py

mutants: $(READY) ## change core line by line and list the changes that no test notices
	@$(BIN)/mutmut run
	@$(BIN)/mutmut results

reference: $(READY) ## make the pages of docs/ that list settings, metrics and PromQL's conformance anew
	@$(BIN)/python -m quarterdeck.reference configuration > docs/configuration.md
	@$(BIN)/python -m quarterdeck.reference metrics > docs/metrics.md
	@$(BIN)/python -m tests.conformance.table
	@$(BIN)/python -m tests.differential.page

# Programs of others to compare with. Without them the tests that need one are skipped and say so.
peers: $(READY)
	-@$(BIN)/python -m checks.peers >/dev/null

# Compiled once here, so that several processes need not compile the same at the same time.
kernels: $(READY)
	@$(BIN)/quarterdeck warm

proto: $(READY) ## make the code for the wire form anew from control.proto
	@cd src/quarterdeck/control/proto && $(CURDIR)/$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. control.proto

format: $(READY) ## format the code and mend what the linter can mend
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

clean: ## remove the environment and everything generated
	@rm -rf .venv .tools mutants dist build .coverage .coverage.* .hypothesis .import_linter_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "Quarterdeck needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version 2>/dev/null || echo missing)." \
	         "Install one, or name it: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "preparing: uv into .tools"
	@rm -rf .tools
	@if $(PYTHON) -m venv .tools >/dev/null 2>&1; then \
	  .tools/bin/python -m pip install -qq --disable-pip-version-check '$(UV_REQUIREMENT)'; \
	else \
	  rm -rf .tools; \
	  $(PYTHON) -m pip install -qq --disable-pip-version-check --target .tools '$(UV_REQUIREMENT)'; \
	fi

$(READY): pyproject.toml uv.lock | $(UV)
	@echo "preparing: locked dependencies into .venv"
	@$(UV) sync --locked --quiet --python $(PYTHON)
	@$(BIN)/python -m compileall -q -j 2 src
	@touch $@
