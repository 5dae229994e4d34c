# Everything starts here. `make` alone lists the targets; a line of each, `target: ## what it does`, is the list.
#
# Needs Python >= 3.11 and nothing else: no root, no server, no compiler (where there is one, the hot loops are compiled).
# What a target made is remembered by a marker file in .venv, so that running it again costs nothing.

SHELL := /bin/sh
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
# An accelerator only: the same constraints, and never a Python of its own. No hooks: a checkout is compiled below, not while it is installed.
UV := $(shell command -v uv 2>/dev/null)
ifneq ($(UV),)
INSTALL = HATCH_BUILD_NO_HOOKS=true VIRTUAL_ENV=$(VENV) $(UV) pip install --quiet --no-python-downloads --compile-bytecode -c constraints.txt
else
INSTALL = HATCH_BUILD_NO_HOOKS=true $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input -c constraints.txt
endif

HOT := $(wildcard messaging/protocol/hot/*.py messaging/protocol/hot/*.pxd) messaging/protocol/hot_extensions.py
PACKAGES := messaging tenants admin_ui workers spark_jobs controlplane
TYPED := $(PACKAGES) deploy tests
SOURCES := messaging tenants admin_ui workers spark_jobs platform
# Arguments for the program behind a target: make run ARGS="--web-port 0", make test ARGS="tests/messaging -k log"
ARGS ?=
SUITE = pytest -n 3 --dist loadgroup --no-loadscope-reorder --max-worker-restart 5 $(ARGS)
SEEDS ?= 200
STEPS ?= 1000000
CALLS ?= 100000
ORDERS ?= 1000
SHARE ?= 10
SEED ?= 1
PAGES ?= 0

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(VENV)/.installed $(VENV)/.compiled ## make .venv with everything that the platform runs on
# Byte code of all modules, where Python itself may be told to write none: each process would compile a thousand of them at its start.
	@$(BIN)/python -m compileall -q $(SOURCES)

.PHONY: run
run: setup ## set up, then run the whole platform: magnetar standalone
	@exec $(BIN)/magnetar standalone $(ARGS)

.PHONY: test
test: setup lint ## set up, check the sources, then run the whole test suite
	$(BIN)/python -m $(SUITE)

.PHONY: suite
suite: setup $(VENV)/.installed-test ## set up, then run the test suite without checking the sources
	$(BIN)/python -m $(SUITE)

.PHONY: thorough
thorough: setup $(VENV)/.installed-test ## run the tests that a usual run leaves out: every benchmark on little, all layouts of a backup, a cluster of Spark, documents in all looks
	TESTS_THOROUGH=1 $(BIN)/python -m $(SUITE) -m thorough

.PHONY: lint
lint: $(VENV)/.installed-test ## check style, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(addprefix -p ,$(TYPED))
	$(BIN)/lint-imports --no-cache

.PHONY: coverage
coverage: setup $(VENV)/.installed-test ## run the tests and report which lines and branches they reach
	$(BIN)/coverage erase
	$(BIN)/coverage run -m $(SUITE)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

.PHONY: bench
bench: setup ## measure this machine's floors and Magnetar against them
	$(BIN)/magnetar bench $(ARGS)

.PHONY: crash
crash: setup $(VENV)/.installed-test ## kill a broker at work 300 times and see that it keeps its word; ARGS="--kills 50 --seed 7"
	$(BIN)/python -m tests.faults.crash $(ARGS)

.PHONY: storage-campaign
storage-campaign: setup $(VENV)/.installed-test ## use up what a log needs, remove and age each file, move the clock; ARGS="--seed 7"
	$(BIN)/python -m tests.faults.storage_campaign $(ARGS)

.PHONY: hostile
hostile: setup $(VENV)/.installed-test ## send a broker ten million frames that nobody should, and all that a tenant may; ARGS="--frames 100000 --seed 7" VISITS="--visits 100" ASKED="--visits 100"
	$(BIN)/python -m tests.adversary.hostile.campaign $(ARGS)
	$(BIN)/python -m tests.adversary.hostile.visiting $(VISITS)
	$(BIN)/python -m tests.adversary.hostile.rest $(ASKED)

.PHONY: api-campaign
api-campaign: setup $(VENV)/.installed-test ## make up 100,000 requests from the OpenAPI document and hold the answers against it; CALLS=10000 SEED=7
	API_CALLS=$(CALLS) API_SEED=$(SEED) $(BIN)/python -m pytest -q -n 2 tests/tenants/rest/test_openapi.py -k answers_fit $(ARGS)

.PHONY: properties
properties: setup $(VENV)/.installed-test ## try 25 times as many random examples of each property as the tests do; SHARE=100, ARGS="tests/messaging -k cursor"
	EXAMPLES_SHARE=$(SHARE) $(BIN)/python -m pytest -q -n 2 --timeout 0 -m hypothesis $(ARGS)

.PHONY: accessibility
accessibility: setup $(VENV)/.installed-test ## look at every page of the console with axe, in light and dark, wide and on a phone; PAGES=20 SEED=7
	ACCESSIBILITY_LOOKS=2 ACCESSIBILITY_PAGES=$(PAGES) ACCESSIBILITY_SEED=$(SEED) $(BIN)/python -m pytest -q tests/admin_ui/browser/test_accessibility.py $(ARGS)

.PHONY: keyboard
keyboard: setup $(VENV)/.installed-test ## use every page of the console by Tab, and look at it on a phone; PAGES=20 SEED=7
	KEYBOARD_PAGES=$(PAGES) KEYBOARD_SEED=$(SEED) $(BIN)/python -m pytest -q tests/admin_ui/browser/test_keyboard.py -k by_tab \
		-rP -o faulthandler_timeout=0 $(ARGS)

.PHONY: simulation
simulation: setup $(VENV)/.installed-test ## run a whole broker from seeds, on a clock, disk and network of its own; SEEDS=1000, ARGS="--seed 7"
	$(BIN)/python -m tests.simulation --seeds $(SEEDS) $(ARGS)

.PHONY: sdk-simulation
sdk-simulation: setup $(VENV)/.installed-test ## let clients live from seeds while connections break and calls are cancelled; SEEDS=1000, ARGS="--seed 7"
	$(BIN)/python -m tests.simulation.sdk --seeds $(SEEDS) $(ARGS)

.PHONY: websockets
websockets: setup $(VENV)/.installed-test ## let ten thousand clients of the SDK live at once, each with a WebSocket; ARGS="--websockets 1000 --seed 7"
	$(BIN)/python -m tests.benchmarks.many_websockets $(ARGS)

.PHONY: simulate
simulate: setup $(VENV)/.installed-test ## let a million things happen to a subscription of each type; STEPS=10000, ARGS="--type shared --seed 7"
	$(BIN)/python -m tests.simulation.subscriptions --steps $(STEPS) $(ARGS)

.PHONY: ownership
ownership: setup $(VENV)/.installed-test ## let a million things happen to a fleet's brokers, their sessions and bundles; STEPS=10000, ARGS="--seed 7"
	$(BIN)/python -m tests.simulation.ownership --steps $(STEPS) $(ARGS)

.PHONY: takeovers
takeovers: setup $(VENV)/.installed-test ## let two brokers take over from a third in 1,000 orders of their steps, of each kind; ORDERS=10000
	TAKEOVER_ORDERS=$(ORDERS) $(BIN)/python -m pytest -q -n 2 --timeout 0 tests/messaging/broker/runtime/ownership/test_two_recoverers.py -k some_orders $(ARGS)

.PHONY: bookkeeper
bookkeeper: setup $(VENV)/.installed-test ## let a million things happen to ledgers of BookKeeper, their writers and recoveries; STEPS=10000, ARGS="--seed 7"
	$(BIN)/python -m tests.simulation.bookkeeper --steps $(STEPS) $(ARGS)

.PHONY: upgrade-campaign
upgrade-campaign: setup $(VENV)/.installed-test ## give an earlier release's platform this one under stock clients, and go back; ARGS="--from v0.1.0 --brokers 2"
	$(BIN)/python -m tests.compat.upgrade_campaign $(ARGS)

.PHONY: point-in-time
point-in-time: setup $(VENV)/.installed-test ## restore a PostgreSQL of its own to a moment in the middle of publishing, and compare what is there
	$(BIN)/python -m tests.compat.point_in_time

.PHONY: backup-campaign
backup-campaign: setup $(VENV)/.installed-test ## kill what takes and restores backups of a fleet, on bookies and with mutual TLS; ARGS="--layout bookies --kills 3 --seed 7"
	$(BIN)/python -m tests.compat.fleet.backup_campaign $(ARGS)

.PHONY: fleet
fleet: setup $(VENV)/.installed-test ## kill, stop and cut off brokers 100 times under stock clients; ARGS="--machines --rounds 20 --seed 7", ARGS="--machines --bookies"
	$(BIN)/python -m tests.compat.fleet $(ARGS)

.PHONY: growth
growth: setup $(VENV)/.installed-test ## count the steps of what the event loop calls beside 1,000, 10,000 and 100,000 entries; ARGS="1000 10000"
	$(BIN)/python -m tests.growth $(ARGS)

.PHONY: house
house: setup $(VENV)/.installed-test ## count the files that an operation passes, the largest classes and other figures of the sources; ARGS=--names
	$(BIN)/python -m tests.repository.house $(ARGS)

.PHONY: invoices
invoices: setup $(VENV)/.installed-test ## rate a million random invoices and check every line of them; ARGS="--count 10000 --seed 7"
	$(BIN)/python -m tests.support.billing.random_invoices $(ARGS)

.PHONY: accounts
accounts: setup $(VENV)/.installed-test ## live 2000 accounts for 18 months and hold invoices, credits and notes against books; ARGS="--lives 500 --seed 7"
	$(BIN)/python -m tests.support.billing.account_lives $(ARGS)

.PHONY: billing-campaign
billing-campaign: setup $(VENV)/.installed-test ## kill broker, worker and Spark, and hold invoices against what clients saw; ARGS="--rounds 5 --seed 7"
	$(BIN)/python -m tests.compat.billing_campaign $(ARGS)

.PHONY: redrive-campaign
redrive-campaign: setup $(VENV)/.installed-test ## kill worker and broker in the middle of redrives; ARGS="--kills 10 --seed 7"
	$(BIN)/python -m tests.compat.redrive_campaign $(ARGS)

.PHONY: way-back
way-back: setup $(VENV)/.installed-test ## redrive 100,000 dead letters on two brokers while brokers, worker and web are killed; ARGS="--letters 3000 --kills 3 --seed 7"
	$(BIN)/python -m tests.compat.redrive_way_back $(ARGS)

.PHONY: oracle
oracle: setup $(VENV)/.installed-test ## compare with a real Pulsar what clients observe; ARGS="--only 'seeks.*'", ARGS=--record
	$(BIN)/python -m tests.compat.oracle $(ARGS)

.PHONY: clients
clients: setup $(VENV)/.installed-test ## install other stock clients (older Python, Java, Go, JavaScript), bookies, and helm, for their tests
	@$(BIN)/python -m tests.deploy.installed & installing=$$!; \
	$(BIN)/python -m tests.compat.probes install; \
	$(BIN)/python -m tests.support.bookkeeper.install; wait $$installing

.PHONY: audit
audit: $(VENV)/.installed-audit ## look for known vulnerabilities in what we depend on
	@$(BIN)/python -m tests.audit $(ARGS)

.PHONY: docs
docs: setup $(VENV)/.installed-test ## write anew the pages of docs/ that are made from the sources
	$(BIN)/python -m docs.generate
	$(BIN)/python -m docs.translations
	$(BIN)/python -m tests.compat.probes page

.PHONY: client
client: setup $(VENV)/.installed-test ## write anew the admin client and the blocking classes of the SDK, after the API or the SDK was changed
	$(BIN)/python -m docs.admin_client
	$(BIN)/python -m docs.blocking_client

.PHONY: client-wheel
client-wheel: setup $(VENV)/.installed-test ## build dist/magnetar_client-*.whl: the SDK alone, without Django and Spark
	$(BIN)/python -m messaging.client.wheel $(ARGS)

.PHONY: release
release: setup $(VENV)/.installed-test ## make the files of a release of this commit in dist/: wheels, source archive, bill of materials; ARGS=--uncommitted
	$(BIN)/python -m deploy.release $(ARGS)

.PHONY: image
image: release ## build the image of this commit without a daemon, and try it with a stock client; as root, with buildah and mmdebstrap
	deploy/image/build.sh dist
	$(BIN)/python -m deploy.image.trial $$($(BIN)/magnetar version)

.PHONY: schema
schema: setup ## write anew the tables of a new SQLite database, after a migration was added
	$(BIN)/python -P -m controlplane.sqlite.schema

.PHONY: clean
clean: ## remove everything that the targets above made (no data of yours)
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage .coverage.* htmlcov
	rm -rf messaging/protocol/hot/*.so messaging/protocol/hot/compiled
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Magnetar needs Python 3.11 or newer: install it, or name it with make PYTHON=/path/to/python3" >&2; exit 2; }
	@echo "Making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "No virtual environment could be made. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 2; }

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing the libraries (once; about two minutes with an empty cache)"
	@$(INSTALL) -e ".[spark]"
	@touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	@echo "Installing what the tests need (once; about a minute)"
	@$(INSTALL) -e ".[spark,test]"
	@touch $@

$(VENV)/.installed-audit: $(VENV)/.installed-test
	@$(INSTALL) -e ".[audit]"
	@touch $@

# Never fails: without a compiler the same modules run as plain Python, and `magnetar doctor` says so.
$(VENV)/.compiled: $(HOT) messaging/protocol/build_hot.py $(VENV)/.installed
	@if $(BIN)/python -m messaging.protocol.build_hot --possible; then \
	  { $(BIN)/python -c 'import Cython' 2>/dev/null || $(INSTALL) cython; } && $(BIN)/python -m messaging.protocol.build_hot \
	  || echo "The hot loops could not be compiled; they run as plain Python, which is slower and otherwise the same"; fi
	@touch $@
