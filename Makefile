# `make run`, `make test` and `make check` are all one needs; they prepare .venv on first use.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# Two processes, each with whole files of tests: what is compiled for the first test of a file serves the others. They
# take the files in the order of tests/conftest.py, the longest first.
SIDE_BY_SIDE := -n 2 --dist loadfile --no-loadscope-reorder

# `slow` guards what rarely changes: faults, soak tests, clusters of several nodes.
USUAL := -m "not slow"
QUICK := -m "not slow and not browser and not compiles"

.PHONY: run test test-quick test-slow check format setup browser docs audit licences clean

run: $(READY)
	$(BIN)/rci run highway --preset quick --out runs/highway-quick

test: $(READY) browser
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) $(USUAL)

# For the loop of somebody at work: without training, compiling, whole pages, servers and browsers.
test-quick: $(READY)
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) $(QUICK)

test-slow: $(READY) browser
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m slow

# Everything that must hold before a commit; .ci/run is this.
check: $(READY) browser
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir build/site
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) $(USUAL)

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || \
	  { echo "rci needs Python 3.11, 3.12 or 3.13 with venv (Debian: apt-get install python3-venv)"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

# The site: build/site/index.html
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir build/site

# Known weaknesses of the pinned versions; asks PyPI, so it needs the network. What cannot be looked up is a failure.
audit: build/audit
	build/audit/bin/pip-audit --strict --no-deps --disable-pip --requirement constraints.txt

# The licences of everything that is installed.
licences: $(READY) build/audit
	build/audit/bin/pip-licenses --python $(BIN)/python --format markdown

build/audit:
	$(PYTHON) -m venv build/audit
	build/audit/bin/python -m pip install --quiet --disable-pip-version-check 'pip-audit>=2.9,<3' 'pip-licenses>=5,<6'

# The labeler is tested in a real browser.
browser:
	@command -v chromium > /dev/null || { apt-get -qq update && apt-get -qq install --yes --no-install-recommends chromium; } || \
	  { echo "the tests of the web labeler need Chromium (Debian: apt-get install chromium)"; exit 1; }

clean:
	rm -rf .venv build src/*.egg-info
