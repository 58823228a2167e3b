# Two commands on a fresh machine with Python ≥ 3.11: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
PARTS := envs policies datasets eval

.PHONY: demo test lint format clean

demo: $(INSTALLED)  ## roll a policy in both environments; writes pictures and videos to out/demo
	$(BIN)/rnce demo --out out/demo

test: $(INSTALLED)  ## the whole test suite
	SDL_VIDEODRIVER=dummy $(BIN)/pytest -n 2

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

# A type checker cannot follow an editable install that maps folders, so it gets the import tree as links.
build/typing: FORCE
	rm -rf $@ && mkdir -p $@/rnce
	ln -s $(CURDIR)/rnce/* $(foreach part,$(PARTS),$(CURDIR)/$(part)) $@/rnce/

FORCE:

clean:
	rm -rf .venv build dist out
