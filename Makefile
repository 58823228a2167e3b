# Two commands on a fresh machine with Python ≥ 3.11: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
PARTS := envs policies datasets eval

.PHONY: demo test test-pymunk test-extras desktop soak tables lint format clean

demo: $(INSTALLED)  ## roll a policy in both environments; writes pictures and videos to out/demo
	$(BIN)/rnce demo --out out/demo

test: $(INSTALLED) .venv-peers/.installed  ## the whole test suite
	SDL_VIDEODRIVER=dummy $(BIN)/pytest -n 2 --dist loadgroup

test-pymunk: $(INSTALLED) .venv-pymunk6/.installed  ## Push-T tests on the installed pymunk and on the other major version
	SDL_VIDEODRIVER=dummy $(BIN)/pytest tests/envs/test_pusht_*.py
	SDL_VIDEODRIVER=dummy .venv-pymunk6/bin/pytest tests/envs/test_pusht_*.py

test-extras: .venv-extras/.installed  ## what needs torch or ONNX: the LeRobot adapter and exported policies
	.venv-extras/bin/pytest tests/test_lerobot.py tests/policies/test_export.py

# Tests of the report page and of the window are skipped where there is no Chromium and no X server.
desktop:  ## both, on Debian as root
	command -v chromium && command -v xvfb-run || \
		(apt-get update && apt-get install --yes --no-install-recommends chromium xvfb xauth)

POLICY ?= pusht/i-r-nce
MINUTES ?= 10
soak: $(INSTALLED)  ## a server under good robots and bad clients; POLICY=... MINUTES=10
	$(BIN)/rnce bench soak $(POLICY) --minutes $(MINUTES) --json out/soak.json

tables: $(INSTALLED)  ## the README's tables anew from eval/results
	$(BIN)/python -m rnce.eval.readme_tables

lint: $(INSTALLED) build/typing  ## ruff and pyright
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Installed versions are pinned in requirements.txt; the stamp makes a second run free.
$(INSTALLED): pyproject.toml requirements.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "rnce needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint requirements.txt --editable '.[dev]'
	touch $@

# Only what the environment and its tests need; the pins that are not about pymunk hold here too.
.venv-pymunk6/.installed: pyproject.toml requirements.txt
	$(PYTHON) -m venv .venv-pymunk6
	grep -v '^pymunk==' requirements.txt > .venv-pymunk6/constraints.txt
	.venv-pymunk6/bin/pip install --quiet --disable-pip-version-check --constraint .venv-pymunk6/constraints.txt \
		pymunk==6.11.1 gymnasium pygame shapely zarr hypothesis pytest pytest-timeout
	.venv-pymunk6/bin/pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

# jax2onnx wants an older orbax; torch's CPU build serves where pip finds one.
.venv-extras/.installed: pyproject.toml requirements.txt
	$(PYTHON) -m venv .venv-extras
	grep -v '^orbax-checkpoint==' requirements.txt > .venv-extras/constraints.txt
	.venv-extras/bin/pip install --quiet --disable-pip-version-check --constraint .venv-extras/constraints.txt \
		torch==2.13.0 jax2onnx==0.17.1 onnxruntime==1.31.1 pytest pytest-timeout beartype --editable '.[torch,onnx]'
	touch $@

# Peers that pin older versions of what we use; rnce.client runs beside them without the rest of rnce.
.venv-peers/.installed: pyproject.toml requirements.txt
	$(PYTHON) -m venv .venv-peers
	grep -v '^pymunk==\|^numpy==\|^pillow==' requirements.txt > .venv-peers/constraints.txt
	.venv-peers/bin/pip install --quiet --disable-pip-version-check --constraint .venv-peers/constraints.txt \
		openpi-client==0.1.2 gym-pusht==0.1.8 pymunk==6.11.1 numpy==1.26.4
	.venv-peers/bin/pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

# A type checker cannot follow an editable install that maps folders, so it gets the import tree as links.
build/typing: FORCE
	rm -rf $@ && mkdir -p $@
	$(PYTHON) -c 'import os, shutil; links = dict(copy_function=os.symlink, ignore=shutil.ignore_patterns("__pycache__")); \
	  shutil.copytree("$(CURDIR)/rnce", "$@/rnce", **links); \
	  [shutil.copytree(f"$(CURDIR)/{part}", f"$@/rnce/{part}", **links) for part in "$(PARTS)".split()]'

FORCE:

clean:
	rm -rf .venv .venv-pymunk6 .venv-peers .venv-extras build dist out
