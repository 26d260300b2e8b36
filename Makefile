# What the project does from a shell; `make help` lists it. Each target sets up what it needs
# and takes no time for it when that stands already. Nothing here reads PORT from the
# environment: honcho sets it for every process it starts.

VENV   := .venv
BIN    := $(VENV)/bin
CONFIG := deploy/mlxcel.toml
PORT   :=
ARGS   :=

# The first Python that is new enough; a name may exist and not work (version shims).
PYTHON = $(shell for name in python3.13 python3.12 python3.11 python3; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$name && break; done)

ifneq ($(PORT),)
export MLXCEL_PORT := $(PORT)
endif

.DEFAULT_GOAL := help
.PHONY: help run test lint perf proto docs clean python set-up set-up-dev set-up-perf

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16

run: python ## set up, install the starter model, serve it (PORT=18080 picks a port)
	@$(PYTHON) -m deploy.run.preflight --config $(CONFIG)
	@$(MAKE) --no-print-directory set-up
	@$(BIN)/python -m deploy.starter_models.install text
	@$(BIN)/python -m deploy.generate.document
	@$(BIN)/python -m deploy.run.announce --config $(CONFIG) & exec $(BIN)/honcho start

test: set-up-dev lint ## set up, lint, type-check, run the whole test suite (ARGS="-k name")
	@$(BIN)/python -m deploy.starter_models.install text embed whisper whisper-tiny kokoro
	$(BIN)/python -m deploy.setup.openblas $(BIN)/python -m pytest $(ARGS)

lint: set-up-dev ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

perf: set-up-perf ## measure throughput and latency beside other servers
	@$(BIN)/python -m deploy.starter_models.install text embed whisper whisper-tiny kokoro
	$(BIN)/python -m deploy.setup.openblas $(BIN)/python -m tests.perf $(ARGS)

proto: set-up-dev ## generate shared/pb from proto/
	$(BIN)/python -m deploy.generate.protobuf

docs: set-up-dev ## write the Procfile, the sample fleet file, docs/configuration.md and docs/dialects.md
	$(BIN)/python -m deploy.generate.document

clean: ## remove the environment and caches; models stay
	rm -rf $(VENV) *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

set-up: python
	@$(PYTHON) -m deploy.setup.bootstrap

set-up-perf: python
	@$(PYTHON) -m deploy.setup.bootstrap dev perf

set-up-dev: python
	@$(PYTHON) -m deploy.setup.bootstrap dev

python:
	@test -n "$(PYTHON)" || { echo "error: Python 3.11 or newer is needed; install it," \
		"or name it: make run PYTHON=/path/to/python3" >&2; exit 1; }
