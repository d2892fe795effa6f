# Two commands are all that a fresh machine needs (Python 3.11 or newer, git, make): `make demo` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test check cases control-plane lock bench clean help

help:
	@echo "make demo           play one incident against the sandbox on this machine, and go on running"
	@echo "make test           install what the tests need and run them (those that need sshd or a real API server skip, and say how to get it)"
	@echo "make check          what a change must pass besides the tests: lint, types, layers, playbooks"
	@echo "make cases          accuracy on the labelled incidents"
	@echo "make control-plane  build kube-apiserver, kube-controller-manager and etcd for the cluster tests (needs Go)"
	@echo "make bench          measurements that anyone can repeat"
	@echo "make lock           resolve the dependencies again"

# pip, not uv: a machine with nothing but Python has pip. The build backend is locked too, so that installing the project itself downloads nothing more.
$(INSTALLED): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("oombot needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; say which one with make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(BIN)/python -m compileall -q bot handlers  # start-up is a feature, also where Python is told to write no bytecode by itself
	@touch $(INSTALLED)

demo: $(INSTALLED)
	$(BIN)/oombot demo

test: $(INSTALLED)
	$(BIN)/python -m pytest -n auto --dist loadfile

check: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/oombot lint

cases: $(INSTALLED)
	$(BIN)/python -m tests.accuracy --list

control-plane:
	bash tests/cluster/build.sh

bench: $(INSTALLED)
	$(BIN)/python -m bench

lock:
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-annotate --group dev pyproject.toml --output-file requirements.lock

clean:
	rm -rf $(VENV) .cache build dist
