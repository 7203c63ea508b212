PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH := $(shell sed -n 's/^torch==/torch==/p' requirements.lock)

.PHONY: demo test test-slow test-cluster soak check format docs results-tables audit hashes sbom release clean

demo: $(VENV)/installed
	$(BIN)/normscope demo

test: $(VENV)/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

test-slow: $(VENV)/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m slow

# In a venv of its own: Ray is large, and only a cluster needs it.
test-cluster:
	$(MAKE) VENV=.venv-cluster .venv-cluster/installed-cluster
	OMP_NUM_THREADS=1 .venv-cluster/bin/python -m pytest tests/cluster -m slow

# One after another, as some measure time and memory; each appends what it tried and lost.
soak: $(VENV)/installed-dev $(VENV)-tools/installed
	OMP_NUM_THREADS=1 NORMSCOPE_RELIABILITY=results/reliability.jsonl SCHEMATHESIS=$(VENV)-tools/bin/schemathesis \
		$(BIN)/python -m pytest -m "soak or counted"
	$(BIN)/python docs/tables.py

check: $(VENV)/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# torch first and by itself: whatever else asks for it then finds it there and fetches no other build.
$(VENV)/torch: requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check $(TORCH)
	touch $@

$(VENV)/installed: $(VENV)/torch pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check -c requirements.lock -e .
	touch $@

$(VENV)/installed-dev: $(VENV)/torch pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check -c requirements.lock -e ".[dev]"
	touch $@ $(VENV)/installed

$(VENV)/installed-cluster: $(VENV)/torch pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check -c requirements.lock -e ".[dev,cluster]"
	touch $@

docs: $(VENV)/installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

results-tables: $(VENV)/installed-dev
	$(BIN)/python docs/tables.py

# What has dependencies of its own, which must not meet ours.
$(VENV)-tools/installed:
	$(PYTHON) -m venv $(VENV)-tools
	$(VENV)-tools/bin/pip install --quiet --disable-pip-version-check schemathesis pip-audit
	touch $@

# Needs the network. Strict: a package that the database cannot be asked about is a failure, not a pass.
audit: $(VENV)-tools/installed
	$(VENV)-tools/bin/pip-audit --strict --no-deps --disable-pip -r requirements.lock

hashes: $(VENV)/installed-dev
	$(BIN)/pip install --quiet --disable-pip-version-check --dry-run --ignore-installed --no-deps \
		-r requirements.lock --report requirements.report
	$(BIN)/python tools/hashes.py < requirements.report > requirements.hashes
	rm requirements.report

sbom: $(VENV)/installed-dev
	$(BIN)/python tools/sbom.py > sbom.json

# The wheel, and what comes with it on a machine.
release: $(VENV)/installed-dev
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	$(BIN)/python tools/sbom.py > dist/normscope.sbom.json

clean:
	rm -rf $(VENV) $(VENV)-tools .venv-cluster normscope-demo site .pytest_cache .mypy_cache .ruff_cache
