# The commands of the house. Each sets up .venv by itself and does nothing twice.
#
#   make demo     evolve a small population on real text, here, in minutes
#   make quick    the fast tests (about two and a half minutes on 2 idle cores)
#   make check    format, lint, types, arrows between rooms, public names, docs
#   make test     everything (17 to 30 minutes on 2 cores)
#
# PYTHON is the interpreter that makes .venv (3.11 or newer); WORKERS is how many test processes run at once.

PYTHON  ?= python3
WORKERS ?= 2

VENV  := .venv
BIN   := $(VENV)/bin
STAMP := $(VENV)/installed

# One thread per process: two processes with two threads each are far slower than two with one. Bytecode is kept, so that
# processes that tests start do not compile the package anew.
TEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

.PHONY: help demo test quick check lint types
.NOTPARALLEL:
.DELETE_ON_ERROR:

help:
	@sed -n 's/^#   //p' Makefile

demo: $(STAMP)
	$(BIN)/evodevo demo

test: lint types
	$(TEST)

quick: $(STAMP)
	$(TEST) -m "not slow" --first-cases

check: lint types
	$(TEST) tests/test_house.py tests/test_public_names.py tests/test_docs.py

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/mypy

# Debian's python3 may lack ensurepip, so that the venv is made without pip and filled by the interpreter's own.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "evodevo needs Python 3.11 or newer; choose one: make PYTHON=python3.12 ..." >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv --without-pip $(VENV)
	$(PYTHON) -m pip --disable-pip-version-check --python $(BIN)/python install --quiet -c constraints.txt -e '.[dev]'
	touch $@
