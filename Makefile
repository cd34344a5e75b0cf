# Every verb does what it needs first: `make demo` works in a fresh clone.

export UV_PYTHON_DOWNLOADS := never
export PYTHON ?= python3
# Without bytecode every process, each agent of the tests too, compiles its libraries anew.
unexport PYTHONDONTWRITEBYTECODE
PY := .venv/bin/python
UV = $$(command -v uv || echo .venv/bin/uv)

.PHONY: help setup demo test lint types browser prometheus integration wheel-test lowest faults bench compare fuzz clean

help: ## What there is to make
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */\1\t/' | expand -t 14

setup: .venv/.ready ## The environment in .venv, from the lock file

# uv goes into .venv where the machine has none; --inexact keeps it there.
.venv/.ready: pyproject.toml spark_source/pyproject.toml jobs/pyproject.toml uv.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "kfetch needs Python 3.11 or newer as $(PYTHON); name another: make PYTHON=python3.12"; exit 2; }
	@command -v uv >/dev/null || [ -x .venv/bin/uv ] \
	  || { $(PYTHON) -m venv .venv && .venv/bin/pip install --quiet --disable-pip-version-check uv; }
	@$(UV) sync --quiet --locked --inexact --python $(PYTHON)
	@touch $@

demo: setup ## Kafka, Spark and Delta on this machine: a stream that survives a kill
	@.venv/bin/kfetch demo $(ARGS)

# All of them side by side, a few in one process: make test ARGS="-k splits"
test: setup ## The tests that need neither broker nor JVM
	@$(PY) -m pytest tests $(or $(ARGS),-n logical --maxprocesses 4)

lint: setup ## Style, layers, formatting
	@.venv/bin/ruff check --output-format concise .
	@.venv/bin/ruff format --check --quiet .
	@.venv/bin/lint-imports --no-cache > .venv/layers.log || { cat .venv/layers.log; exit 1; }

types: setup ## mypy, strict
	@.venv/bin/mypy

# Debian's; elsewhere whoever knows the system installs the two programs.
browser: ## The browser in which the integration tests look at the page
	@{ command -v chromium && command -v chromedriver; } >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium chromium-driver >/dev/null; } \
	  || { echo "the page's test needs the programs chromium and chromedriver: as root, apt-get install chromium chromium-driver"; exit 2; }

# Where systemd runs, Debian's package also starts one, on port 9090: systemctl disable --now prometheus
prometheus: ## The Prometheus that the integration tests give our metrics, alerts and dashboard
	@command -v prometheus >/dev/null && command -v promtool >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends prometheus >/dev/null; } \
	  || { echo "the tests of metrics need the programs prometheus and promtool: as root, apt-get install prometheus"; exit 2; }

integration: setup ## The tests against a real Kafka and a real Spark
	@$(PY) -m pytest integration -m "not long" $(ARGS)

wheel-test: setup ## Both wheels in an empty environment: a stream, the demo, a supervised project
	@$(PY) -m pytest integration/wheels -s $(ARGS)

# The oldest version of each dependency that pyproject.toml allows, in an environment of its own.
lowest: setup ## The unit tests with the oldest dependencies
	@$(UV) venv --quiet --clear --python $(PYTHON) .venv/lowest
	@$(UV) pip install --quiet --python .venv/lowest/bin/python --resolution lowest-direct \
	  -e './spark_source[spark]' -e ./jobs --group dev
	@.venv/lowest/bin/python -m pytest tests $(or $(ARGS),-n logical --maxprocesses 4)

faults: setup ## The long runs of the fault tests
	@$(PY) -m pytest integration -m long $(ARGS)

# make bench BENCH=trickle ARGS="--runs 5": a module of integration/benchmarks, which says what it measures.
BENCH ?= drain

bench: setup ## A benchmark beside Spark's own connector: BENCH=drain, latency, trickle, idle, losses, requests, cold, memory, decode, planning
	@$(PY) -m integration.benchmarks.$(BENCH) $(ARGS)

# make compare BASE=HEAD~3 ARGS="--only drain"
compare: setup ## drain, trickle, latency and decode of this tree and of BASE=<commit>, by turns
	@$(PY) -m integration.benchmarks.against $(BASE) $(ARGS)

fuzz: setup ## 200,000 damaged replies through both record decoders, four minutes at most
	@$(PY) -m tests.kfetch.records.fuzz $(ARGS)

clean: ## Remove what make has made here
	rm -rf .venv .kfetch .mypy_cache .ruff_cache .pytest_cache .hypothesis
