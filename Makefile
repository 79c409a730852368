PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

# A bare `torch` may resolve to a build with gigabytes of CUDA packages, so the pins of
# constraints.txt hold in every install: pip's own, and (by these variables; older pips
# read the first, newer ones the second) the isolated environment that builds the package.
# The path is relative because pip splits the variable at blanks.
PIP_INSTALL := PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt $(BIN)/python -m pip install -c constraints.txt

.PHONY: help setup test demo check format bench clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

setup: $(INSTALLED)  ## create .venv and install contig in it (PYTHON=... picks the interpreter)

$(INSTALLED): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) torch==2.13.0
	$(PIP_INSTALL) --editable '.[dev]'
	@touch $@

$(BIN)/python:
	@command -v "$(PYTHON)" >/dev/null || { \
		echo "make: no '$(PYTHON)' on this machine; name a Python 3.11 or newer: make setup PYTHON=/path/to/python3" >&2; \
		exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "make: contig needs Python 3.11 or newer, but '$(PYTHON)' is $$("$(PYTHON)" --version 2>&1);" \
			"name another: make setup PYTHON=/path/to/python3" >&2; \
		exit 1; }
	"$(PYTHON)" -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

test: setup  ## run the tests (CONTIG_DATA=folder adds those on real streams)
	$(BIN)/python -m pytest

demo: setup  ## train on a real stream, beside the rule that learns nothing, and draw one node's path
	@rm -rf demo && mkdir -p demo
	$(BIN)/contig inspect collegemsg --plot demo/collegemsg.png
	$(BIN)/contig train collegemsg --out demo/run --epochs 3 --compare edgebank
	$(BIN)/contig trajectory demo/run --node 9 --plot demo/trajectory.png
	@echo "See demo/collegemsg.png, demo/run/curve.png and demo/trajectory.png."

check: setup  ## style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict src $(wildcard bench/*.py)

format: setup  ## put the code in the house style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup  ## run every benchmark in bench/ (contig bench is the one beside other packages)
	@for script in bench/[a-z]*.py; do \
		[ -e "$$script" ] || { echo "make: bench/ holds no benchmark yet" >&2; exit 1; }; \
		echo "== $$script"; $(BIN)/python "$$script" || exit 1; \
	done

clean:  ## remove .venv, caches and what was built
	rm -rf $(VENV) build dist demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
