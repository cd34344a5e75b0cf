# Every target first makes what it needs: `make demo` works in a fresh clone.

export UV_PYTHON_DOWNLOADS := never
export PYTHON ?= python3
# Without bytecode every process would compile its libraries again, and so would every agent of the tests.
unexport PYTHONDONTWRITEBYTECODE
PY := .venv/bin/python
UV = $$(command -v uv || echo .venv/bin/uv)

.PHONY: help setup demo test store-test warm classes lint types docs docs-serve browser prometheus kerberos integration wheel-test lowest-setup lowest-warm lowest faults brokers sparks sparks-setup pythons bench compare fuzz simulate simulate-test properties clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */\1\t/' | expand -t 14

setup: .venv/.ready ## Install the environment into .venv, from the lock file

# If the machine has no uv, it goes into .venv; --inexact keeps it there.
.venv/.ready: pyproject.toml spark_source/pyproject.toml jobs/pyproject.toml uv.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "$(PYTHON) must be Python 3.11 or newer; name another one: make PYTHON=python3.12"; exit 2; }
	@command -v uv >/dev/null || [ -x .venv/bin/uv ] \
	  || { $(PYTHON) -m venv .venv && .venv/bin/pip install --quiet --disable-pip-version-check uv; }
	@$(UV) sync --quiet --locked --inexact --python $(PYTHON)
	@touch $@

demo: setup ## Run Kafka, Spark and Delta on this machine: a stream that survives a kill
	@.venv/bin/kfetch demo $(ARGS)

# Some tests wait, so seven processes keep two cores busy. A few tests in one process: make test ARGS="-k splits"
FORKS := -p tests.forks --forks 7

test: setup ## Run the tests that need neither broker nor JVM, but store-test and simulate-test
	@$(PY) -m pytest tests -m "not simulation and not store" $(or $(ARGS),$(FORKS))

store-test: setup ## Run the tests that ask a store that speaks S3, in a process of the tests
	@$(PY) -m pytest tests -m store $(or $(ARGS),$(FORKS))

# In a fresh clone, each process of make test would compile the decoders: 36 seconds of one processor.
warm: setup ## Compile the decoders once, for all processes of make test
	@.venv/bin/kfetch warm > /dev/null

classes: setup ## Archive the classes of Kafka and Spark, so that the integration tests start them faster
	@$(PY) -m integration.class_archives

lint: setup ## Check style, layers, formatting, and that documents are plain English
	@.venv/bin/ruff check --output-format concise .
	@.venv/bin/ruff format --check --quiet .
	@.venv/bin/lint-imports --no-cache > .venv/layers.log || { cat .venv/layers.log; exit 1; }
	@$(PY) -m tools.plain_english

types: setup ## Check types with mypy, strict
	@.venv/bin/mypy

.venv/.docs-ready: .venv/.ready
	@$(UV) sync --quiet --locked --inexact --python $(PYTHON) --group docs
	@touch $@

# A link to a page or a heading that does not exist is an error.
docs: .venv/.docs-ready ## Build the documentation site into .venv/site, and check its links
	@.venv/bin/zensical build --clean --strict > .venv/docs.log 2>&1 \
	  || { sed 's/\x1b\[[0-9;]*m//g' .venv/docs.log; exit 1; }

docs-serve: .venv/.docs-ready ## Show the documentation at http://127.0.0.1:8000, and build it after each change
	@.venv/bin/zensical serve

# This installs Debian's packages. On other systems, install the two programs yourself.
browser: ## Install the browser in which the integration tests open the page
	@{ command -v chromium && command -v chromedriver; } >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium chromium-driver >/dev/null; } \
	  || { echo "the page's test needs the programs chromium and chromedriver: as root, apt-get install chromium chromium-driver"; exit 2; }

# With systemd, Debian's package also starts Prometheus on port 9090. To stop it: systemctl disable --now prometheus
prometheus: ## Install Prometheus, with which the integration tests check metrics, alerts and dashboard
	@command -v prometheus >/dev/null && command -v promtool >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends prometheus >/dev/null; } \
	  || { echo "the tests of metrics need the programs prometheus and promtool: as root, apt-get install prometheus"; exit 2; }

# The library is built from source, because PyPI has it for other systems only.
kerberos: setup ## Install Kerberos, with which the long tests check log-ins by GSSAPI
	@{ command -v krb5kdc && command -v kadmin.local && command -v kinit; } >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
	    krb5-kdc krb5-admin-server krb5-user libkrb5-dev gcc >/dev/null; } \
	  || { echo "the tests of GSSAPI need a server of Kerberos: as root, apt-get install krb5-kdc krb5-admin-server krb5-user libkrb5-dev gcc"; exit 2; }
	@$(PY) -c 'import gssapi' 2>/dev/null || $(UV) pip install --quiet --python $(PY) gssapi

# They wait half of the time. ARGS="-p tests.forks --forks 3 --by-file" runs three files at a time; `.ci/run` runs two.
integration: setup ## Run the tests against a real Kafka and a real Spark
	@$(PY) -m pytest $(or $(TESTS),integration) -m "not long and not brokers" $(ARGS)

wheel-test: setup ## Test both wheels in an empty environment: a stream, the demo, a supervised project
	@$(PY) -m pytest integration/wheels -s $(ARGS)

# The oldest version of each dependency that pyproject.toml allows, in an environment of its own.
lowest-setup: .venv/lowest/.ready ## Install the oldest dependencies into .venv/lowest

.venv/lowest/.ready: .venv/.ready
	@$(UV) venv --quiet --clear --python $(PYTHON) .venv/lowest
	@$(UV) pip install --quiet --python .venv/lowest/bin/python --resolution lowest-direct \
	  -e './spark_source[spark]' -e ./jobs --group dev
	@touch $@

lowest-warm: lowest-setup ## Compile the decoders with the oldest dependencies
	@.venv/lowest/bin/kfetch warm > /dev/null

lowest: lowest-setup ## Run make test and make store-test with the oldest dependencies
	@.venv/lowest/bin/kfetch warm > /dev/null
	@.venv/lowest/bin/python -m pytest tests -m "not simulation" --hypothesis-profile quick $(or $(ARGS),$(FORKS))

faults: setup ## Run the long fault tests
	@$(PY) -m pytest integration -m long $(ARGS)

# make brokers ARGS="-k 2.8" for one version. The first run downloads each version: 300 MB in all.
brokers: setup ## Run the tests with other versions of Kafka, 2.1 to 4.3
	@$(PY) -m pytest integration -m brokers $(ARGS)

# make sparks ARGS="--versions 4.0.5 --only limits,batch"; ARGS=--help lists the features.
sparks: setup ## Run the tests with each version of Spark, 4.0 to 4.3, and print a table
	@$(PY) -m integration.spark_versions $(ARGS)

sparks-setup: setup ## Make the environments of the oldest and the newest Spark below .venv/sparks
	@$(PY) -m integration.spark_versions --setup --versions ends > /dev/null

# Each has an environment of its own, with the packages of the lock file.
PYTHONS ?= python3.12 python3.13

pythons: setup ## Run the unit tests with other versions of Python: PYTHONS="python3.12 python3.13"
	@$(UV) export --quiet --frozen --no-hashes --no-emit-workspace --all-packages --format requirements-txt > .venv/locked.txt
	@set -e; for python in $(PYTHONS); do home=.venv/pythons/$$python; \
	  [ -x $$home/bin/pytest ] || { $(UV) venv --quiet --clear --python $$python $$home; \
	    $(UV) pip install --quiet --python $$home/bin/python --constraint .venv/locked.txt -e './spark_source[spark]' -e ./jobs --group dev; }; \
	  $$home/bin/kfetch warm > /dev/null; \
	  $$home/bin/python -m pytest tests --hypothesis-profile quick $(or $(ARGS),$(FORKS)); done

# make bench BENCH=trickle ARGS="--runs 5": a module of integration/benchmarks, which says what it measures.
BENCH ?= drain

bench: setup ## Compare kfetch with Spark's own connector: BENCH=drain, typed, direct, versions, latency, trickle, idle, losses, requests, cold, memory, decode, planning
	@$(PY) -m integration.benchmarks.$(BENCH) $(ARGS)

# make compare BASE=HEAD~3 ARGS="--only drain"
compare: setup ## Compare drain, trickle, latency, typed and decode of this tree and of BASE=<commit>
	@$(PY) -m integration.benchmarks.against $(BASE) $(ARGS)

fuzz: setup ## Decode 200,000 damaged replies with both decoders, for four minutes at most
	@$(PY) -m tests.kfetch.records.fuzz $(ARGS)

# make simulate ARGS="--minutes 30"; make simulate ARGS="--help" names more.
simulate: setup ## Simulate the product in virtual time for a minute: rare orders of events, from seeds
	@PYTHONHASHSEED=0 $(PY) -m simulation $(ARGS)

simulate-test: setup ## Test the simulator: planted faults are found, a seed tells its story again
	@$(PY) -m pytest tests -m simulation $(or $(ARGS),-p tests.forks --forks 2)

properties: setup ## Run the property tests with fifteen times as many examples
	@$(PY) -m pytest tests -m hypothesis --hypothesis-profile thorough $(or $(ARGS),$(FORKS))

clean: ## Remove everything that make made here
	rm -rf .venv .kfetch .mypy_cache .ruff_cache .pytest_cache .hypothesis
