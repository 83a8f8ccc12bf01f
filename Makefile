# The one door: what a contributor runs is what CI runs.
SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
PYTHON := $(VENV)/bin/python
STAMP := $(VENV)/.ready
FAST := tests/unit tests/architecture tests/cli

.PHONY: help demo test check bench image docs lock env docker

help: ## these lines
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 18

demo: env docker image ## set up everything, then show a fork being brought up to date, for real
	@$(PYTHON) scripts/demo.py

test: env docker image ## set up everything, then run every test
	@$(PYTHON) -m pytest -n 2 --dist worksteal

check: env ## format, lint, types, import contracts, fast tests: under a minute
	@$(VENV)/bin/ruff format --check --quiet .
	@$(VENV)/bin/ruff check --quiet .
	@$(VENV)/bin/lint-imports --no-logo >$(VENV)/imports.log 2>&1 || { cat $(VENV)/imports.log; exit 1; }
	@$(VENV)/bin/basedpyright >$(VENV)/types.log 2>&1 || { cat $(VENV)/types.log; exit 1; }
	@$(PYTHON) -m pytest -q -n 2 $(FAST)

bench: env docker image ## side-by-side measurements; writes bench/results.json
	@$(PYTHON) -m bench

image: env docker ## build forklift/kitchen-sink:latest, where it is missing or older than its recipe
	@docker/kitchen-sink/build.sh --if-needed

docs: env ## write the generated pages of docs/reference
	@$(PYTHON) scripts/reference.py

lock: env ## resolve the dependencies again
	@$(VENV)/bin/uv pip compile pyproject.toml --generate-hashes --no-emit-index-url --no-header --universal --quiet -o requirements/runtime.txt
	@$(VENV)/bin/uv pip compile pyproject.toml --extra dev --generate-hashes --no-emit-index-url --no-header --universal --quiet -o requirements/dev.txt

env: $(STAMP)

$(STAMP): requirements/dev.txt pyproject.toml scripts/ensure-python.sh
	@scripts/ensure-python.sh $(VENV)
	@touch $(STAMP)

docker:
	@scripts/ensure-docker.sh
