PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH := $(shell sed -n 's/^torch==/torch==/p' requirements.lock)

.PHONY: demo test test-slow test-cluster check format docs results-tables clean

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

clean:
	rm -rf $(VENV) .venv-cluster normscope-demo site .pytest_cache .mypy_cache .ruff_cache
