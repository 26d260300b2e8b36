# Commands of the project; `make help` lists them. Each target sets up what it needs, which takes
# no time when it is there already. PORT is not read from the environment, since launchers such as
# honcho set it for every process that they start. Written for GNU make 3.81, which macOS has.

VENV   := .venv
BIN    := $(VENV)/bin
CONFIG := deploy/mlxcel.toml
PORT   :=
ARGS   :=
# Starts a program that ends without a traceback when it is interrupted.
ENTRY  := -S deploy/entry.py
OTHER   = .venv-$(notdir $(PYTHON))
PYTEST := $(BIN)/python -m deploy.setup.openblas $(BIN)/python -m pytest
PARALLEL := --numprocesses auto --dist worksteal
# Tests that start no model server; coverage is counted in these, as the others take far longer.
CHECKED := tests/meta tests/unit tests/golden tests/contract

# The first Python that is new enough; a name may exist and not work, as with version shims.
PYTHON = $(shell for name in python3.14 python3.13 python3.12 python3.11 python3; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$name && break; done)

# With it set, every process compiles all of its modules anew.
unexport PYTHONDONTWRITEBYTECODE

ifneq ($(PORT),)
export MLXCEL_PORT := $(PORT)
endif

.DEFAULT_GOAL := help
.PHONY: help run test check lint perf proto docs clean python set-up set-up-dev set-up-perf \
	test-clients test-python test-pins

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

run: python ## install what is missing, serve a small chat model (PORT=18080 picks a port)
	@$(PYTHON) $(ENTRY) deploy.run.preflight --config $(CONFIG)
	@$(MAKE) --no-print-directory set-up
	@$(BIN)/python $(ENTRY) deploy.generate.document
	@exec $(BIN)/python $(ENTRY) deploy.cli --config $(CONFIG)

test: set-up-dev lint ## lint, types, all tests, coverage (ARGS="-k name" runs some tests)
	@$(BIN)/python -m deploy.starter_models.install text embed whisper whisper-tiny kokoro
ifeq ($(ARGS),)
	$(PYTEST) $(PARALLEL) --cov --cov-report=term:skip-covered $(CHECKED)
	$(PYTEST) tests/integration tests/models
else
	$(PYTEST) $(ARGS)
endif

check: set-up-dev lint ## lint, types, the tests without model servers: for the loop of a change
	@$(BIN)/python -m deploy.starter_models.install text
	$(PYTEST) $(PARALLEL) -q --quick $(CHECKED) $(ARGS)

lint: set-up-dev ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

perf: set-up-perf ## measure throughput and latency, beside other servers
	@$(BIN)/python -m deploy.starter_models.install text embed whisper whisper-tiny kokoro
	$(BIN)/python -m deploy.setup.openblas $(BIN)/python -m tests.perf $(ARGS)

test-clients: set-up-dev ## third-party clients against a server (ARGS="codex" runs some)
	@$(BIN)/python -m deploy.starter_models.install text embed
	$(BIN)/python -m deploy.setup.openblas $(BIN)/python -m tests.clients $(ARGS)

proto: set-up-dev ## generate shared/pb from proto/
	$(BIN)/python -m deploy.generate.protobuf

docs: set-up-dev ## write the Procfile, the sample fleet file, docs/configuration.md and docs/dialects.md
	$(BIN)/python -m deploy.generate.document

clean: ## remove the environment and caches; models stay
	rm -rf $(VENV) .venv-* build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage

test-python: python ## the light tests with PYTHON=python3.13, in an environment of its own
	@$(PYTHON) $(ENTRY) deploy.setup.bootstrap --folder $(OTHER) dev
	@$(OTHER)/bin/python -m deploy.starter_models.install text
	$(OTHER)/bin/python -m deploy.setup.openblas \
		$(OTHER)/bin/python -m pytest $(PARALLEL) tests/meta tests/unit tests/golden $(ARGS)

test-pins: python ## resolve the pinned packages for Macs with every declared Python
	@$(PYTHON) $(ENTRY) deploy.setup.bootstrap dev pins
	@$(BIN)/python -m deploy.setup.pins

set-up: python
	@$(PYTHON) $(ENTRY) deploy.setup.bootstrap

set-up-perf: python
	@$(PYTHON) $(ENTRY) deploy.setup.bootstrap dev perf

set-up-dev: python
	@$(PYTHON) $(ENTRY) deploy.setup.bootstrap dev

python:
	@test -n "$(PYTHON)" || { echo "error: Python 3.11 or newer is needed; install it," \
		"or name it: make run PYTHON=/path/to/python3" >&2; exit 1; }
