# make demo: installs what is missing, then runs the main job.   make test: installs what is missing, then runs the tests.
PYTHON ?= $(firstword $(foreach name,python3.11 python3.10,$(shell command -v $(name) 2>/dev/null)) python3)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
CLUSTER := $(VENV)/.cluster

.PHONY: install demo test unit component-yaml docs-privacy clean
.PHONY: cluster-test-standalone cluster-test-spark cluster-test-faults
.PHONY: bench-align bench-align-redundancy bench-epoch bench-hetero-lr bench-hetero-noise bench-homo-nn
.PHONY: bench-homo-nn-adaptive bench-homo-nn-sweeps bench-label-dp bench-noise bench-prep bench-private-step
.PHONY: bench-source-composition

install: $(INSTALLED)

$(INSTALLED): setup.py pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt "setuptools<81" wheel
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt --no-build-isolation -e ".[fate,test,bench]"
	touch $@

demo: install
	$(BIN)/fate-dp demo

# Unit tests run on all cores, one file to a process; those with parties as processes and with a server need them all.
test: unit
	$(BIN)/python -m pytest -q tests/protocol tests/end_to_end

unit: install
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist loadfile tests/unit tests/statistical

$(CLUSTER): $(INSTALLED)
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt --no-build-isolation -e ".[cluster]"
	touch $@

# Each starts a cluster of four parties' servers with RabbitMQ and nginx from Debian, and stops it; without them it says
# what is missing and skips. None is part of `make test`: they take up to half an hour each.
cluster-test-standalone: ALSO := tests/cluster/test_authentication.py
cluster-test-standalone cluster-test-spark cluster-test-faults: cluster-test-%: $(CLUSTER)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -v -s -rs --durations=10 tests/cluster/test_$*.py $(ALSO)

bench-epoch: install
	$(BIN)/python -m fate_dp.bench.epoch

bench-hetero-lr: install
	$(BIN)/python -m fate_dp.bench.hetero_lr

bench-hetero-noise: install
	$(BIN)/python -m fate_dp.bench.hetero_noise

bench-align: install
	$(BIN)/python -m fate_dp.bench.align

bench-align-redundancy: install
	$(BIN)/python -m fate_dp.bench.align_redundancy

bench-homo-nn: install
	$(BIN)/python -m fate_dp.bench.homo_nn

bench-homo-nn-adaptive: install
	$(BIN)/python -m fate_dp.bench.homo_nn_adaptive

bench-homo-nn-sweeps: install
	$(BIN)/python -m fate_dp.bench.homo_nn_sweeps

bench-private-step: install
	$(BIN)/python -m fate_dp.bench.private_step

bench-label-dp: install
	$(BIN)/python -m fate_dp.bench.label_dp

bench-noise: install
	$(BIN)/python -m fate_dp.bench.noise

bench-source-composition: install
	$(BIN)/python -m fate_dp.bench.source_composition

bench-prep: install
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

clean:
	-$(BIN)/fate-dp down
	rm -rf $(VENV) build dist out *.egg-info
