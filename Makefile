SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

# A bare `torch` may resolve to a build with gigabytes of CUDA packages, so the pins of
# constraints.txt hold in every install: pip's own, and (by these variables; older pips
# read the first, newer ones the second) the isolated environment that builds the package.
# The path is relative because pip splits the variable at blanks.
PIP_INSTALL := PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt $(BIN)/python -m pip install -c constraints.txt

# Other CPUs compute other last bits. These settings make one CPU compute as others would.
SETTINGS := DEFAULT=1 MKL_CBWR=AVX2 MKL_CBWR=COMPATIBLE ATEN_CPU_CAPABILITY=default ATEN_CPU_CAPABILITY=avx2 OMP_NUM_THREADS=1
# Where numbers are computed; the fast choice runs these under the two settings that differ most, both at once: one is of
# matrix products, the other of all other kernels.
NUMERIC_TESTS := $(addprefix tests/,kernels layers models streaming tasks runs test_numerics.py)
# Stealing keeps the tests of a file together, so that they share what they train. Compiled tests are kept even where
# the environment says otherwise: compiling all of them takes every worker six seconds.
RUN_TESTS = PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist worksteal

.PHONY: help setup test test-torchrun test-wheel docs test-portable test-portable-fast test-lowest torture fuzz browser demo check format bench clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-18s %s\n", $$1, $$2 }' Makefile

setup: $(INSTALLED)  ## create .venv and install contig in it (PYTHON=... selects the interpreter)

$(INSTALLED): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) torch==2.13.0
	$(PIP_INSTALL) --editable '.[dev]'
	@touch $@

$(BIN)/python:
	@command -v "$(PYTHON)" >/dev/null || { \
		echo "make: '$(PYTHON)' not found; pass Python 3.11 or newer: make setup PYTHON=/path/to/python3" >&2; \
		exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "make: contig needs Python 3.11 or newer, but '$(PYTHON)' is $$("$(PYTHON)" --version 2>&1);" \
			"pass another: make setup PYTHON=/path/to/python3" >&2; \
		exit 1; }
	"$(PYTHON)" -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

test: setup  ## run the tests (CONTIG_DATA=folder adds those on real streams)
	$(RUN_TESTS)

test-portable: setup  ## run the tests as other CPUs would compute, and with one thread
	@for setting in $(SETTINGS); do \
		echo "== $$setting"; time env $$setting $(RUN_TESTS) || exit 1; \
	done

test-portable-fast: setup  ## the same for the numeric tests under two settings at once
	MKL_CBWR=COMPATIBLE ATEN_CPU_CAPABILITY=default $(RUN_TESTS) $(NUMERIC_TESTS)

test-lowest: setup  ## run the commands with the lowest versions that pyproject.toml allows
	PYTHONPATH=tests $(BIN)/python -m support.lowest

test-torchrun: setup  ## train by torchrun in two and three processes, and compare with one
	PYTHONPATH=tests $(BIN)/python -m support.torchrun

test-wheel: setup  ## build the wheel and try it without the extras
	PYTHONPATH=tests $(BIN)/python -m support.wheel

docs: setup  ## build the documentation in site/; warnings are errors
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=src $(BIN)/python -m mkdocs build --strict --quiet
	$(BIN)/python docs/site_check.py site

torture: setup  ## damage, kill and starve contig, thousands of times (SCALE=0.1 for a tenth)
	PYTHONPATH=tests $(BIN)/python -m support.torture --scale $(or $(SCALE),1)

fuzz: setup  ## send thousands of damaged requests to a service (REQUESTS=1000 for fewer)
	PYTHONPATH=tests $(BIN)/python -m support.http_fuzz --requests $(or $(REQUESTS),10000)

browser:  ## install Chromium for the tests of the page, where apt-get and root are available
	@if command -v chromium chromium-browser google-chrome google-chrome-stable >/dev/null || [ -n "$$CONTIG_CHROMIUM" ]; then \
		echo "make: Chromium is installed"; \
	elif ! command -v apt-get >/dev/null || ! { [ "$$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }; then \
		echo "make: cannot install Chromium without apt-get and root; tests of the page will be skipped" >&2; \
	else \
		root=$$([ "$$(id -u)" = 0 ] || echo "sudo -n"); \
		{ timeout 60 $$root apt-get update -qq && timeout 180 $$root env DEBIAN_FRONTEND=noninteractive \
			apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null; } \
			|| echo "make: Chromium could not be installed; tests of the page will be skipped" >&2; \
	fi

demo: setup  ## train on a real stream, compare with heuristics, and draw one node's trajectory
	@rm -rf demo && mkdir -p demo
	$(BIN)/contig inspect collegemsg --plot demo/collegemsg.png
	$(BIN)/contig train collegemsg --out demo/run --epochs 3
	$(BIN)/contig trajectory demo/run --node 9 --plot demo/trajectory.png
	@echo "See demo/collegemsg.png, demo/run/curve.png and demo/trajectory.png."

check: setup  ## check style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict src

format: setup  ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup  ## measure speed and memory, compared with other packages
	$(BIN)/contig bench

clean:  ## remove .venv, caches and build output
	rm -rf $(VENV) .venv-lowest build dist demo site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
