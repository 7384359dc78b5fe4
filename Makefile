.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3.11
VENV := .venv/bin
LINT := .venv-lint/bin

.PHONY: help
help: ## Show what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.PHONY: setup
setup: .venv/ready .jars/ready .jars/classes.jsa ## Make .venv with the runtime and fetch Spark's jars; a second time does nothing

.PHONY: setup-cluster
setup-cluster: setup .jars/cluster/ready ## Fetch what a cluster needs: S3 and a metastore in PostgreSQL

.PHONY: require
require:
	@command -v java > /dev/null || test -x "$${JAVA_HOME:-/nonexistent}/bin/java" || { echo "Tidemark needs Java 17: apt-get install openjdk-17-jre-headless, or point JAVA_HOME at one"; exit 3; }

define venv
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2> /dev/null || { echo "Tidemark needs Python 3.11, and $(PYTHON) is none: apt-get install python3.11 python3.11-venv, or make PYTHON=/path/to/python3.11 $(or $(MAKECMDGOALS),setup)"; exit 3; }
$(PYTHON) -m venv $(@D)
endef

.venv/ready: requirements/runtime.txt requirements/test.txt pyproject.toml | require
	$(venv)
	$(VENV)/python -m pip install --quiet --require-hashes -r requirements/runtime.txt -r requirements/test.txt
	$(VENV)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

define fetch
@mkdir -p $(@D)
$(VENV)/python -m spark_jobs.fetch_jars $(filter %.txt,$^) $(@D) 2> .jars/fetch.log || { cat .jars/fetch.log; exit 3; }
@touch $@
endef

.jars/ready: conf/jars.txt .venv/ready
	$(fetch)

.jars/classes.jsa: .jars/ready
	$(VENV)/python -m spark_jobs.class_archive $@

.jars/broker/ready: tests/broker_jars.txt .venv/ready
	$(fetch)

.jars/live/ready: $(wildcard tests/live/*.jars.txt) .venv/ready
	$(fetch)

.jars/cluster/ready: conf/cluster_jars.txt .venv/ready
	$(fetch)

.jars/s3/ready: tests/s3_jars.txt .venv/ready
	$(fetch)

.venv-lint/ready: requirements/lint.txt | require
	$(venv)
	$(LINT)/python -m pip install --quiet --require-hashes -r requirements/lint.txt
	@touch $@

.venv-bench/ready: requirements/bench.txt | require
	$(venv)
	.venv-bench/bin/python -m pip install --quiet --require-hashes -r requirements/bench.txt
	@touch $@

.jars/bench/ready: benchmarks/jars.txt .venv/ready
	$(fetch)

.venv-bench-autocdc/ready: requirements/bench-autocdc.txt .jars/bench/ready
	$(venv)
	.venv-bench-autocdc/bin/python -m pip install --quiet --require-hashes -r requirements/bench-autocdc.txt
	@touch $@

.PHONY: test
test: setup .jars/broker/ready .jars/live/ready .jars/cluster/ready .jars/s3/ready ## Set up everything and run all but the long tests (tapes, kills, mutants, live), in two processes
	$(VENV)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: tapes
tapes: setup ## Draw 2,000 tapes (TIDEMARK_TAPES), tables never seen and broken records, and compare gold with the oracle
	$(VENV)/python -m pytest -m long tests/generated tests/pipeline/test_unseen_tables.py tests/faults/test_fuzz.py

.PHONY: kills
kills: setup ## Kill 40 runs (TIDEMARK_KILLS) at named points and at random times, and compare what the next run makes of it
	$(VENV)/python -m pytest -m long tests/faults/test_kills.py

.PHONY: captures
captures: setup ## Land every capture of CAPTURES (tests/captures) twice and in any order, and ask their databases
	CAPTURES=$(or $(CAPTURES),tests/captures) $(VENV)/python -m pytest -s -o timeout=0 tests/pipeline/test_captures.py

.PHONY: setup-servers
setup-servers: ## As root, install what tests start of Debian's: PostgreSQL 15, MariaDB 10.11, kcat, systemd-analyze
	@test -x /usr/lib/postgresql/15/bin/postgres && test -x /usr/sbin/mariadbd && test -x /usr/bin/mariadb-install-db && \
		test -x /usr/bin/kcat && test -x /usr/bin/systemd-analyze || { \
		test "$$(id -u)" = 0 || { echo "setup-servers installs Debian's packages: run it as root"; exit 2; }; \
		apt-get update --quiet=2 && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes \
			--no-install-recommends postgresql-15 mariadb-server-core mariadb-client-core kcat systemd; }

.PHONY: live
live: setup .jars/broker/ready .jars/live/ready ## Databases under load, Debezium, Kafka, gold, with kills on the way, and ask the databases (needs setup-servers)
	$(VENV)/python -m pytest -s -m long -o timeout=0 tests/live

.PHONY: cluster
cluster: setup .jars/broker/ready .jars/cluster/ready .jars/s3/ready ## A cluster whose lakehouse moves, and whose store and metastore go (needs setup-servers)
	$(VENV)/python -m pytest -m "long or not long" tests/pipeline/test_cluster.py

.PHONY: mutants
mutants: setup ## Plant a fault for each rule from R3 to R19, and see a test notice it
	$(VENV)/python -m pytest -m long tests/mutants

.PHONY: demo
demo: setup ## Set up everything, land real events, build, check, report
	$(VENV)/python examples/demo.py

.PHONY: docs
docs: .venv/ready ## Write the generated references in docs/
	$(VENV)/python -m docs.generate

.PHONY: check
check: .venv/ready .venv-lint/ready ## Format, lint, types, SQL, licences of dependencies
	$(LINT)/ruff format --check .
	$(LINT)/ruff check .
	$(LINT)/mypy
	$(LINT)/python .ci/lint_sql.py
	$(LINT)/pip-licenses --python $(VENV)/python > /dev/null

.PHONY: format
format: .venv-lint/ready ## Put the code in form
	$(LINT)/ruff format .
	$(LINT)/ruff check --fix .

.PHONY: lock
lock: .venv-lint/ready ## Compile requirements/*.in to *.txt; LOCK=--upgrade moves the pins
	for name in runtime test lint bench bench-autocdc; do \
		$(LINT)/uv pip compile --quiet $(LOCK) --python-version 3.11 --generate-hashes --no-strip-extras --no-header \
			--no-annotate --no-emit-index-url --no-emit-find-links \
			--output-file requirements/$$name.txt requirements/$$name.in || exit; \
	done

.PHONY: profile
profile: setup ## Where time goes: 20,000 changes into 200,000 keys, seconds per stage
	$(VENV)/python -m benchmarks.profile

.PHONY: bench
bench: setup .venv-bench/ready .venv-bench-autocdc/ready ## Tidemark and its rivals on the same files, each answer checked: PROFILE=short (twenty minutes) or long (hours)
	$(VENV)/python -m benchmarks.bench --profile $(or $(PROFILE),short); status=$$?; \
		.venv-bench/bin/python -m benchmarks.chart target/bench/bench.json target/bench/bench.svg && exit $$status
