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

.PHONY: install demo test unit test-arithmetic component-yaml docs-privacy docs-parameters clean
.PHONY: cluster-test-standalone cluster-test-spark cluster-test-faults
.PHONY: bench-align bench-align-redundancy bench-epoch bench-fate-examples bench-hetero-lr bench-hetero-noise bench-homo-nn bench-job
.PHONY: bench-homo-nn-adaptive bench-homo-nn-sweeps bench-label-dp bench-noise bench-prep bench-private-step
.PHONY: bench-source-composition

install: $(INSTALLED)

$(INSTALLED): setup.py pyproject.toml constraints.txt
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

# All tests run on all cores: one file to a worker, and those on FATE-Flow, which share its server, to one of two.
test: unit
	$(BIN)/python -m pytest -q -n 2 --no-loadscope-reorder tests/protocol tests/end_to_end

unit: $(TESTED)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto tests/unit tests/statistical

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
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -v -s -rs --durations=10 tests/cluster/test_$*.py $(ALSO)

bench-epoch: $(BENCHED)
	$(BIN)/python -m fate_dp.bench.epoch

bench-hetero-lr: $(BENCHED)
	$(BIN)/python -m fate_dp.bench.hetero_lr

bench-hetero-noise: $(BENCHED)
	$(BIN)/python -m fate_dp.bench.hetero_noise

bench-align: $(BENCHED)
	$(BIN)/python -m fate_dp.bench.align

bench-align-redundancy: $(BENCHED)
	$(BIN)/python -m fate_dp.bench.align_redundancy

bench-homo-nn: $(BENCHED)
	$(BIN)/python -m fate_dp.bench.homo_nn

bench-homo-nn-adaptive: $(BENCHED)
	$(BIN)/python -m fate_dp.bench.homo_nn_adaptive

bench-homo-nn-sweeps: $(BENCHED)
	$(BIN)/python -m fate_dp.bench.homo_nn_sweeps

bench-job: $(BENCHED)
	$(BIN)/python -m fate_dp.bench.job

bench-private-step: $(BENCHED)
	$(BIN)/python -m fate_dp.bench.private_step

bench-label-dp: $(BENCHED)
	$(BIN)/python -m fate_dp.bench.label_dp

bench-noise: $(BENCHED)
	$(BIN)/python -m fate_dp.bench.noise

bench-source-composition: $(BENCHED)
	$(BIN)/python -m fate_dp.bench.source_composition

# FATE's example tables; DATA is their folder.
bench-fate-examples: DATA ?= ../shared/data
bench-fate-examples: $(BENCHED)
	$(BIN)/python -m fate_dp.bench.fate_examples $(DATA)

bench-prep: $(BENCHED)
	$(BIN)/python -m fate_dp.bench.prep

# The client reads these files, and `fate-dp board install` puts them into FATE-Board's dag/ folder; a test holds them to
# the components.
component-yaml: install
	for name in label_flip flipback dp_hetero_lr dp_homo_nn shuffler align share_lr smote; do \
	  $(BIN)/python -m fate.components component desc --name $$name --save pipelines/components/$$name.yaml; \
	done

# What every component and mechanism guarantees; a test holds the committed page to this.
docs-privacy: install
	$(BIN)/python -m fate_dp.pipelines.privacy_page docs/privacy.md

# Every parameter of every component; a test holds the committed page to this.
docs-parameters: install
	$(BIN)/python -m fate_dp.pipelines.parameters_page docs/parameters.md

clean:
	-$(BIN)/fate-dp down
	rm -rf $(VENV) build dist out *.egg-info
