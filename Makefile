# make demo and make test each do all set-up themselves; nothing has to be run before them.
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
CODE := proxy deploy grafana tests
ARGS ?=

.PHONY: help setup demo test lint format bench bench-core fuzz replay soak real boards clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

# The stamps make a second call cost nothing; they are older than pyproject.toml when it changes.
.venv/running: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "tokometer needs Python 3.11 or later; set PYTHON=/path/to/python3.11 (found: $$($(PYTHON) --version 2>&1))" >&2; exit 1; }
	@$(PYTHON) -m venv .venv || { \
	  echo "python venv failed: install the venv module (Debian: apt-get install python3-venv)" >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

.venv/testing: .venv/running
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "pip>=25.1"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group dev
	@touch $@

setup: .venv/running ## make .venv with all that running needs

demo: setup ## simulated engine, proxy and sample traffic; ARGS="--seconds 15" ends it
	@exec $(BIN)/tokometer demo $(ARGS)

test: .venv/testing ## all tests; ARGS go to pytest
	@sh tests/prerequisites.sh
	$(BIN)/python -m pytest $(ARGS)

lint: .venv/testing ## ruff and mypy
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy

format: .venv/testing ## let ruff rewrite what it can
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

bench: .venv/testing ## benchmarks (not part of make test)
	$(BIN)/python -m tests.bench $(ARGS)

bench-core: .venv/testing ## what framing, formats and the meter cost, ns an event
	$(BIN)/python -m tests.bench core $(ARGS)

soak: .venv/testing ## 200,000 exchanges, a fault in every third: minutes; ARGS="--exchanges 50000"
	$(BIN)/python -m tests.soak $(ARGS)

replay: .venv/testing ## when the alerts fire in 34 h of traffic, many times over; the table goes to docs/alerting.md
	@sh tests/prerequisites.sh
	$(BIN)/python -m tests.replay --write $(ARGS)

fuzz: .venv/testing ## every parser for a minute each; ARGS="connection -max_total_time=600"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group fuzz
	$(BIN)/python -m tests.fuzz $(ARGS)

real: .venv/testing ## in front of a real engine: ENGINE=vllm (default) or ENGINE=llamacpp
	ENGINE=$(or $(ENGINE),vllm) $(BIN)/python tests/real/run.py $(ARGS)

boards: .venv/testing ## draw the dashboards into docs/img, 20 minutes: needs node, chromium and prometheus
	cd grafana/render && npm install --no-package-lock --no-audit --no-fund
	cd grafana/render && npm run types ../dashboards/*.json
	$(BIN)/python -m grafana.pictures $(ARGS)

clean: ## remove what make made, real engines excepted
	rm -rf .venv .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
