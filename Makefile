# make demo: installs what is missing, then runs the main job.   make test: installs what is missing, then runs the tests.
PYTHON ?= $(firstword $(foreach name,python3.11 python3.10,$(shell command -v $(name) 2>/dev/null)) python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt
# What a user needs; what tests, benchmarks and clusters need beyond that.
INSTALLED := $(VENV)/.installed
TESTED := $(VENV)/.tested
BENCHED := $(VENV)/.benched
CLUSTER := $(VENV)/.cluster
# The site's tools and FATE want different versions of the same packages.
DOCS := .venv-docs

# Where a shell says that no bytecode be written, every process that a test starts would compile all of FATE-DP again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install demo test test-all long unit statistical processes kernel-check contract mutants job-fuzz chaos soak lint types house test-arithmetic component-yaml fate-parameters docs docs-notebooks docs-privacy docs-parameters docs-coverage clean
.PHONY: core-test walk cluster-test-standalone cluster-test-spark cluster-test-faults board-test docker-test
.PHONY: bench-align bench-align-redundancy bench-epoch bench-fate-examples bench-hetero-lr bench-hetero-noise bench-homo-nn bench-job
.PHONY: bench-homo-nn-adaptive bench-homo-nn-sweeps bench-label-dp bench-label-firewall bench-noise bench-prep bench-private-step
.PHONY: bench-attacks bench-audit bench-check bench-credit-study bench-defaults bench-flipback bench-label-methods bench-label-noise bench-privacy-core bench-scale bench-scorecard
.PHONY: bench-source-composition bench-split-network bench-thesis-clients bench-thesis-contributions bench-thesis-messages bench-thesis-methods bench-thesis-overheads bench-thesis-rounds bench-trees bench-wan bench-wire bench-smoke

install:
	@test -e $(INSTALLED) || echo "Installs FATE and FATE-DP into $(VENV): 6 GB, more than half of it CUDA, in some minutes; docs/howto/install.md says how less suffices."
	@$(MAKE) --no-print-directory $(INSTALLED)

# An entry point for each component, so that a new one is announced; the kernel is compiled where there is a compiler.
$(INSTALLED): setup.py pyproject.toml constraints.txt $(wildcard components/*/component.py crypto/native/*.c components/*/native/*)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) -q "setuptools<81" wheel
	$(PIP) --no-build-isolation -e ".[fate]"
	touch $@

$(TESTED): $(INSTALLED)
	$(PIP) --no-build-isolation -e ".[fate,test]"
	touch $@

$(BENCHED): $(INSTALLED)
	$(PIP) --no-build-isolation -e ".[fate,bench]"
	touch $@

demo: install
	$(BIN)/fate-dp demo

# Lint and types first. All tests run on all cores: one file to a worker, and those on FATE-Flow, which share its server, to one of
# three, since parties wait for each other and for the server.
test: QUICK := 1
test: lint types kernel-check contract
	$(BIN)/python -m pytest -q -n auto tests/unit tests/statistical tests/benchmarks tests/processes tests/job_fuzz
	$(BIN)/python -m pytest -q -n 3 --no-loadscope-reorder -m "not long" tests/protocol tests/end_to_end

# The same, and what CI does not need: long tests, the job fuzzer, benchmarks, clusters, containers and the board. What a machine
# lacks is skipped with a sentence; the last line counts all.
test-all: $(TESTED)
	$(BIN)/python -m tests.everything

# What quicker tests hold as well, most of it jobs on FATE-Flow, and the example credit_risk.
long: $(TESTED)
	$(BIN)/python -m pytest -q -n 2 --no-loadscope-reorder -m long tests/protocol tests/end_to_end

# Plays every component at the doors of its parties; the last line has the figures.
contract: $(TESTED)
	$(BIN)/python -m pytest -q -n 2 tests/contract

# Plants some two hundred faults one by one, each with the test that must fail of it; the last line has the figures. Not part of
# `make test`: half an hour at most on two idle cores. WORDS=label_flip plants those whose name or symbol has the word.
mutants: $(TESTED)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.mutants $(WORDS)

# Ten minutes of whole jobs, one after the other, beside an oracle of what was seen of each label and record; planted faults must be
# found in a third of the time. The last line has the figures.
job-fuzz: $(TESTED)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.job_fuzz

# An embedded FATE-Flow whose processes and commands are killed and stopped, with a full disk and a clock that is set: 40 minutes
# after the server's start, or MINUTES=5. The last line has the figures, and what did not hold is told with its seed and round.
chaos: $(TESTED)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.chaos $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED))

# Small jobs one after the other on one server, JOBS=200 of them: whether it gets slower or larger.
soak: $(TESTED)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.chaos.soak $(if $(JOBS),--jobs $(JOBS))

PARTS := privacy crypto components attacks pipelines data_prep deploy conf testing

lint: $(TESTED)
	$(BIN)/ruff check -q $(PARTS) bench tests examples setup.py
	$(BIN)/ruff format -q --check $(PARTS) bench tests examples setup.py
	$(BIN)/lint-imports --no-cache

# mypy wants the folders of setup.py's mapping under one name.
types: $(TESTED)
	mkdir -p $(VENV)/types/fate_dp
	for part in $(PARTS); do ln -sfn ../../../$$part $(VENV)/types/fate_dp/$$part; done
	$(BIN)/mypy $(addprefix -p fate_dp.,$(PARTS)) -p bench -p examples

house: $(TESTED)
	$(BIN)/python -m tests.house

unit: $(TESTED)
	$(BIN)/python -m pytest -q -n auto tests/unit

# The laws of noise, audits and mutants, and the benchmarks' own parts.
statistical: $(TESTED)
	$(BIN)/python -m pytest -q -n auto tests/statistical tests/benchmarks

# The tests that start programs: wheels, the images' scripts, fork servers, writers that are killed.
processes: $(TESTED)
	$(BIN)/python -m pytest -q -n auto tests/processes

# `pip install fate-dp` without FATE, in a clean environment of each Python that is at hand: megabytes and seconds of each.
core-test: $(TESTED)
	$(BIN)/python -m pytest -q -s -rs tests/installed

# Every block of README, tutorial and how-tos, in order and as printed, in a clone with an embedded FATE-Flow of its own; the
# last line has the seconds of each page. PAGES="plan ledger" walks those.
walk: $(TESTED)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.walk $(PAGES)

# The native code: every product of small moduli, the edges of its words, vectors, and all of it under GCC's sanitizers. QUICK=1
# takes half a minute on two idle cores, all of it some minutes; the last line is one JSON object.
kernel-check: $(TESTED)
	$(BIN)/python -m tests.kernels.check $(if $(QUICK),--quick)

# The tests that touch floating point, under the settings of other processors: some ten minutes.
test-arithmetic: $(TESTED)
	$(BIN)/python -m tests.arithmetic.matrix

$(CLUSTER): $(TESTED)
	$(PIP) --no-build-isolation -e ".[fate,test,cluster]"
	touch $@

# Each starts a cluster of four parties' servers with RabbitMQ and nginx from Debian, and stops it; without them it says
# what is missing and skips. None is part of `make test`: they take up to half an hour each.
cluster-test-standalone: ALSO := tests/cluster/test_authentication.py
cluster-test-standalone cluster-test-spark cluster-test-faults: cluster-test-%: $(CLUSTER)
	$(BIN)/python -m pytest -v -s -rs --durations=10 tests/cluster/test_$*.py $(ALSO)

# Walks a FATE-Board that FATE_BOARD_JAR names in Debian's chromium; screenshots go to out/board.
# Without one it says what is missing and skips. Not part of `make test`: it starts a FATE-Flow and runs six jobs.
board-test: $(TESTED)
	$(BIN)/python -m pytest -v -s -rs --durations=5 tests/board

# The containers on a docker engine of its own, with images that stay in out/docker (FATE_DP_DOCKER_HOME); as root. The
# last line counts assertions; where there is no engine it says what is missing and that all was skipped.
docker-test: $(TESTED)
	$(BIN)/python -m pytest -q -s -rs --durations=15 -o enable_assertion_pass_hook=true tests/docker

# Each at its smallest setting, on made-up tables: whether it runs. NAMES="trees wan" plays those.
bench-smoke: $(BENCHED)
	$(BIN)/python -m bench.smoke $(NAMES)

bench-epoch: $(BENCHED)
	$(BIN)/python -m bench.epoch

bench-hetero-lr: $(BENCHED)
	$(BIN)/python -m bench.hetero_lr

bench-label-noise: $(BENCHED)
	$(BIN)/python -m bench.label_noise

bench-hetero-noise: $(BENCHED)
	$(BIN)/python -m bench.hetero_noise

bench-align: $(BENCHED)
	$(BIN)/python -m bench.align

bench-align-redundancy: $(BENCHED)
	$(BIN)/python -m bench.align_redundancy

bench-homo-nn: $(BENCHED)
	$(BIN)/python -m bench.homo_nn

bench-homo-nn-adaptive: $(BENCHED)
	$(BIN)/python -m bench.homo_nn_adaptive

bench-homo-nn-sweeps: $(BENCHED)
	$(BIN)/python -m bench.homo_nn_sweeps

# Figures of the thesis on horizontal training that no other bench has: its rule by epsilon and pairs of f and p; overheads.
bench-thesis-contributions bench-thesis-overheads bench-thesis-messages: bench-thesis-%: $(BENCHED)
	$(BIN)/python -m bench.thesis.figures --only $*

# The others, on three data sets: by clients, by rounds and sampling, and all methods in one table.
bench-thesis-clients bench-thesis-rounds bench-thesis-methods: bench-thesis-%: $(BENCHED)
	$(BIN)/python -m bench.thesis.shuffling --only $*

bench-job: $(BENCHED)
	$(BIN)/python -m bench.job

bench-private-step: $(BENCHED)
	$(BIN)/python -m bench.private_step

# Columns of any unit: the defaults beside tuned twins.
bench-defaults: $(BENCHED)
	OMP_NUM_THREADS=1 $(BIN)/python -m bench.defaults

bench-label-dp: $(BENCHED)
	$(BIN)/python -m bench.label_dp

bench-label-methods: $(BENCHED)
	$(BIN)/python -m bench.label_methods

# What the source of flips and flipback claims of them.
bench-flipback: $(BENCHED)
	$(BIN)/python -m bench.flipback

# RECORD names a YAML file that gets what is shown, as tests/check/transcripts.yaml did.
bench-label-firewall: $(BENCHED)
	$(BIN)/python -m bench.label_firewall $(if $(RECORD),--record $(RECORD))

# The trial of a component that was left out: a network split between guest and host; DATA is the folder of default_credit's tables.
bench-split-network: DATA ?= ../shared/data
bench-split-network: $(BENCHED)
	$(BIN)/python -m bench.split_network --data $(DATA)

bench-scorecard: $(BENCHED)
	$(BIN)/python -m bench.scorecard

# The private part of the example credit_risk, without FATE-Flow; CSV is Lending Club's loan file.
bench-credit-study: $(BENCHED)
	OMP_NUM_THREADS=1 $(BIN)/python -m bench.credit_study $(if $(CSV),--csv $(CSV))

bench-noise: $(BENCHED)
	$(BIN)/python -m bench.noise

bench-source-composition: $(BENCHED)
	$(BIN)/python -m bench.thesis.composition_table

# Every attack against every defence, by two processes; QUICK=1 takes some minutes, and the page is out/attacks/index.html.
bench-attacks: DATA ?= ../shared/data
bench-attacks: $(BENCHED)
	$(BIN)/python -m bench.attacks --data $(DATA) $(if $(QUICK),--quick)

bench-audit: $(BENCHED)
	$(BIN)/python -m bench.audit_certificate $(if $(QUICK),--quick)

# SecureBoost on flips; DATA is the folder of default_credit's tables.
bench-trees: DATA ?= ../shared/data
bench-trees: $(BENCHED)
	$(BIN)/python -m bench.trees --data $(DATA)

bench-privacy-core: $(BENCHED)
	$(BIN)/python -m bench.privacy_core

bench-wan: $(BENCHED)
	$(BIN)/python -m bench.wan

bench-wire: $(BENCHED)
	$(BIN)/python -m bench.wire

# Half an hour on two idle cores; what was measured is kept in out/scale, and ROWS="100000 1000000" leaves the largest out.
bench-scale: $(BENCHED)
	$(BIN)/python -m bench.scale $(if $(ROWS),--rows $(ROWS))

bench-check: $(BENCHED)
	$(BIN)/python -m bench.check

# FATE's example tables; DATA is their folder.
bench-fate-examples: DATA ?= ../shared/data
bench-fate-examples: $(BENCHED)
	$(BIN)/python -m bench.fate_examples $(DATA)

bench-prep: $(BENCHED)
	$(BIN)/python -m bench.prep

# The client reads these files, and `fate-dp board install` puts them into FATE-Board's dag/ folder; a test holds them to
# the components. FATE writes a set of stages in the order of their hashes.
component-yaml: install
	for name in $(notdir $(patsubst %/component.py,%,$(wildcard components/*/component.py))); do \
	  PYTHONHASHSEED=0 $(BIN)/python -m fate.components component desc --name $$name --save pipelines/clients/$$name.yaml; \
	done

# FATE's parameters for clients without FATE; a test holds the committed file to the FATE that is installed.
fate-parameters: install
	$(BIN)/python -m tests.pages.fate_parameters components/disclosure/fate_parameters.json

$(DOCS)/.installed: docs/requirements.txt
	test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --disable-pip-version-check -q -r docs/requirements.txt
	touch $@

# The site in out/site, which opens from there and loads nothing from a network. Every warning is an error.
docs: $(DOCS)/.installed
	NO_MKDOCS_2_WARNING=true $(DOCS)/bin/python -m mkdocs build --strict
	@echo "The site is out/site/index.html."

# README's picture, of the report that the demo's test writes; needs Debian's chromium.
docs-picture: $(TESTED)
	FATE_DP_PICTURES=docs $(BIN)/python -m pytest -q tests/end_to_end/test_try.py

# The same site, with what the notebooks print and draw: runs them first.
docs-notebooks: $(TESTED)
	mkdir -p out/notebooks
	for name in docs/notebooks/*.ipynb; do \
	  $(BIN)/jupyter execute $$name --output=$(CURDIR)/out/notebooks/$$(basename $$name) || exit 1; \
	done
	$(MAKE) docs

# What every component and mechanism guarantees; a test holds the committed pages to this.
docs-privacy: install
	$(BIN)/python -m tests.pages.privacy docs/privacy

# What the documents describe and what shows it, from docs/coverage.yaml; a test holds the committed page to this.
docs-coverage: $(TESTED)
	$(BIN)/python -m tests.pages.coverage docs/coverage.md

# Every parameter of every component; a test holds the committed page to this.
docs-parameters: install
	$(BIN)/python -m tests.pages.parameters docs/parameters.md

clean:
	-$(BIN)/fate-dp down
	rm -rf $(VENV) $(DOCS) build dist out *.egg-info
