# `make run` and `make test` need only Python 3.11+, pip and make; the rest is for developers.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
PART ?=
SEED ?=
MINUTES ?= 30

.DEFAULT_GOAL := help
.PHONY: help run test check prove docs install install-dev fmt lock programs clean

help:
	@echo "make run    start the sidecar, play the tour, serve until Ctrl-C (ARGS=--exit-after-tour)"
	@echo "make test   every check and every test (SYSTEM=1 installs the system parts, as root)"
	@echo "make check  the fast part: lint, types, import rules, pure tests"
	@echo "make prove  the proofs at full length, in parts (PART=kills SEED=7 MINUTES=30); goes on where it stopped"
	@echo "make docs   the documentation as a site, in build/site; the reference made anew"
	@echo "make install, make clean    make the environment that the others share; remove it"

# A stamp is newer than its lock exactly when the environment holds what the lock says.
$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Flyball needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: requirements.lock pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.installed-dev: requirements-dev.lock $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

install: $(VENV)/.installed

install-dev: $(VENV)/.installed-dev

run: install
	$(BIN)/flyball tour $(ARGS) $(if $(filter true,$(CI)),--strict)

test: install-dev
	$(BIN)/python tests/run.py

check: install-dev
	$(BIN)/python tests/run.py --fast

prove: install-dev
	$(BIN)/python tests/prove.py $(PART) $(if $(SEED),--seed $(SEED)) --minutes $(MINUTES)

# What its theme says of its own future is no matter of a build.
docs: install-dev
	$(BIN)/python -m docs.tools.reference
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

fmt: install-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock:
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --custom-compile-command "make lock" pyproject.toml --extra build -o requirements.lock
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --custom-compile-command "make lock" --group dev -c requirements.lock -o requirements-dev.lock

programs:
	ebpf/programs/build.sh

clean:
	rm -rf $(VENV) dist build
