# `make quickstart` and `make test` need Python 3.11+ and a package index, nothing else.
# Every step leaves a file behind; a second run does only what is missing.

PYTHON ?= python3
VENV ?= .venv
VENV_TORCH ?= .venv-torch
PIP_ARGS ?=
PYTEST_ARGS ?=
QUERY ?= See what ticket 920 is about and give me the gist in Spanish.

BIN := $(VENV)/bin
PIP := -m pip -qq --disable-pip-version-check install $(PIP_ARGS)
PACKAGING := requirements.txt setup.cfg pyproject.toml
BACKBONE := backbones/smollm2-135m/backbone.json
DATA_MADE := data/quickstart/manifest.json
RUN := runs/quickstart

export QUERY
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PRECIOUS: $(BACKBONE) $(DATA_MADE) $(RUN)/planner.json $(RUN)/report.md
.PHONY: help quickstart install backbone data train evaluate plan test test-torch test-data lint \
	format results clean

help:
	@echo "make quickstart          environment, backbone, data, training, scores, a plan"
	@echo "make plan QUERY='...'    plan another request with the quickstart's planner"
	@echo "make test                the tests; PYTEST_ARGS is passed on"
	@echo "make test-torch          the tests that need PyTorch, in an environment of their own"
	@echo "make test-data DATA=DIR  the tests over the published data sets"
	@echo "make lint | format       ruff and mypy | rewrite the files as ruff has them"
	@echo "make results             the README's table from results/*.json"
	@echo "make clean               remove environments and caches; data, backbones, runs stay"

quickstart: evaluate
	@$(MAKE) --no-print-directory plan

# ---- environment

define make_venv
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is %d.%d: make PYTHON=python3.11 ..." % sys.version_info[:2])'
@$(PYTHON) -m venv $(1)
endef

install: $(VENV)/.installed

$(VENV)/.installed: $(PACKAGING)
	$(call make_venv,$(VENV))
	@echo "installing into $(VENV) (a few minutes)"
	@$(BIN)/python $(PIP) --editable .
	@touch $@

$(VENV)/.installed-dev: requirements-dev.txt $(VENV)/.installed
	@$(BIN)/python $(PIP) -r requirements-dev.txt
	@touch $@

$(VENV_TORCH)/.installed: requirements-torch.txt $(PACKAGING)
	$(call make_venv,$(VENV_TORCH))
	@echo "installing into $(VENV_TORCH) (a few minutes)"
	@$(VENV_TORCH)/bin/python $(PIP) --editable . -r requirements-torch.txt
	@touch $@

# ---- the quickstart, step by step

backbone: $(BACKBONE)
$(BACKBONE): | $(VENV)/.installed
	$(BIN)/python data_prep/backbone.py smollm2-135m --out $(@D)

data: $(DATA_MADE)
$(DATA_MADE): | $(VENV)/.installed
	$(BIN)/python data_prep/quickstart.py --out $(@D)

train: $(RUN)/planner.json
$(RUN)/planner.json: configs/quickstart.py $(DATA_MADE) | $(BACKBONE) $(VENV)/.installed
	$(BIN)/python launch/train.py --config configs/quickstart.py
	@touch $@

evaluate: $(RUN)/report.md
$(RUN)/report.md: $(RUN)/planner.json
	$(BIN)/python launch/evaluate.py --planner $(RUN) --split test --constrain graph
	@touch $@

plan: $(RUN)/planner.json
	$(BIN)/python launch/plan.py --planner $(RUN) "$$QUERY"

# ---- checks

test: $(VENV)/.installed $(BACKBONE)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

test-torch: $(VENV_TORCH)/.installed $(BACKBONE)
	$(VENV_TORCH)/bin/python -m pytest -m torch $(PYTEST_ARGS)

test-data: $(VENV)/.installed
	@test -d "$(DATA)" || { echo "name the folder of the published data sets: make test-data DATA=DIR" >&2; exit 2; }
	GRAFT_DATA="$(abspath $(DATA))" $(BIN)/python -m pytest -m data $(PYTEST_ARGS)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

results: $(VENV)/.installed
	@test -n "$(wildcard results/*.json)" || { echo "results/ holds no JSON file; make one with launch/evaluate.py --store" >&2; exit 2; }
	$(BIN)/python launch/results.py --readme README.md $(sort $(wildcard results/*.json))

clean:
	rm -rf $(VENV) $(VENV_TORCH) .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis build *.egg-info
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
