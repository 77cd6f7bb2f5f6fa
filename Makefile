# Everything a newcomer or CI runs. `make` alone lists it. The virtual environment is made once, and again when
# pyproject.toml or deploy/locked changes. Nothing outside this folder is touched, except a cache of Kafka's jars in
# ~/.cache/shoal and pip's own cache. A package of the system is installed only if whoever is asked says yes, or if
# INSTALL_PACKAGES=yes says so.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

VENV := .venv
BIN := $(VENV)/bin
LOCKED := deploy/locked
INSTALL := $(BIN)/python -m pip --disable-pip-version-check --quiet install
PIP := $(INSTALL) --require-hashes
THIS := $(INSTALL) --no-deps --no-build-isolation --editable .
# The first Python that is new enough; `make PYTHON=…` chooses another.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && break; done)
# Extra arguments for the command behind a target: make test ARGS="-k ledger"
ARGS ?=

.PHONY: help wheel demo test test-fast lint format check fuzz bench experiments soak up up-cdc down worker schemas constraints

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

wheel: $(VENV)/.run ## build the package, as a wheel and as a source archive, into dist/
	@rm -rf dist && mkdir dist
	@$(BIN)/python -m pip --disable-pip-version-check --quiet wheel --no-deps --no-build-isolation --wheel-dir dist .
	@$(BIN)/python -c "from hatchling.build import build_sdist; build_sdist('dist')"
	@ls dist

demo: $(VENV)/.demo ## the whole pipeline on a made-up clinic, in under a minute; needs no services
	@$(BIN)/shoal demo $(ARGS)

test: $(VENV)/.dev ## every test but the soak, on a real Kafka and Redis where there are any
	$(BIN)/python -m pytest --numprocesses 6 --dist loadgroup --no-loadscope-reorder $(ARGS)

test-fast: $(VENV)/.dev ## the tests that need no service and less than five seconds each; under two minutes
	$(BIN)/python -m pytest --numprocesses 2 -m "not slow and not integration and not fault and not soak" $(ARGS)

lint: $(VENV)/.dev ## style, types, and that core stays pure
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

check: ## exactly what CI runs
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory test

fuzz: $(VENV)/.dev ## a hundred thousand hostile inputs, from another seed with ARGS="--seed 7"; some minutes
	$(BIN)/python -m tests.fuzz $(ARGS)

bench: $(VENV)/.dev ## events per second against plain aiokafka and Faust, seconds per release, memory
	$(BIN)/python -m tests.bench $(ARGS)

experiments: $(VENV)/.dev ## make the figures and plots of docs/experiments.md again; about twenty minutes
	$(BIN)/python -m tests.experiments $(or $(ARGS),--all --out docs/experiments --page docs/experiments.md)

soak: $(VENV)/.dev ## kill workers and services fifty times at random, then cause every fault for an hour; logs in out/soak
	@mkdir -p out
	$(BIN)/python -m pytest tests/fault -m soak -s --basetemp out/soak $(ARGS)

# Either way Kafka answers on localhost:9092 and Redis on localhost:6379, where Shoal looks by default. If something
# else has those ports, the native services take others, print them, and leave them in .local/env for `make worker`.
has_docker = docker compose version >/dev/null 2>&1 && docker info >/dev/null 2>&1

up: $(VENV)/.demo ## start Kafka and Redis: with Docker if its engine answers, else natively
	@if $(has_docker); then docker compose up --detach --wait kafka redis; else $(BIN)/python -m deploy.local up; fi

up-cdc: $(VENV)/.demo ## natively: Kafka, Redis, and a PostgreSQL with a hospital that Debezium follows
	@$(BIN)/python -m deploy.local up-cdc

down: ## stop what `make up` started; the data is kept
	@if [ -e .local/pids.json ]; then $(BIN)/python -m deploy.local down; \
	elif $(has_docker); then docker compose down; \
	else echo "nothing was up"; fi

worker: $(VENV)/.run ## run the service in the foreground, for the policy SHOAL_POLICY with the secret SHOAL_KEY
	@set -a; if [ -e .local/env ]; then source .local/env; fi; set +a; exec $(BIN)/shoal worker $(ARGS)

schemas: $(VENV)/.dev ## write docs/schemas anew
	@$(BIN)/shoal policy schema --to docs/schemas

constraints: $(VENV)/.dev ## pin the versions that are installed now, and the hashes of their wheels
	@{ echo '# Every version the tests ran with; made by `make constraints`. deploy/locked has their hashes.'; \
	$(BIN)/python -m pip freeze --all --exclude pip --exclude-editable; } > constraints.txt
	@$(BIN)/python -m deploy.locked

$(BIN)/python:
	@if [ -z "$(PYTHON)" ]; then echo "Shoal needs Python 3.11 or later, and there is none on PATH." >&2; exit 2; fi
	@echo "Making $(VENV) with $(PYTHON) …"
	@"$(PYTHON)" -m venv $(VENV)

# Order-only on Python: its date says nothing about what is installed. Only wheels whose hashes are known are taken, and
# Shoal's own is built with what is installed then.
$(VENV)/.run: pyproject.toml $(LOCKED)/run.txt $(LOCKED)/build.txt | $(BIN)/python
	@echo "Installing Shoal …"
	@$(PIP) --requirement $(LOCKED)/run.txt --requirement $(LOCKED)/build.txt
	@$(THIS)
	@touch $@

$(VENV)/.demo: $(VENV)/.run $(LOCKED)/demo.txt
	@echo "Installing the demo's embedded services …"
	@$(PIP) --requirement $(LOCKED)/demo.txt
	@touch $@

$(VENV)/.dev: pyproject.toml $(wildcard $(LOCKED)/*.txt) | $(BIN)/python
	@echo "Installing Shoal and its tools …"
	@$(PIP) --requirement $(LOCKED)/dev.txt
	@$(THIS)
	@touch $(VENV)/.run $(VENV)/.demo $@
