"""Every script in examples/, run as a user runs it, on the tables that `fate-dp upload-examples` makes for it.

default_credit is the real one where it lies on this machine.
"""
import runpy
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import yaml
from sklearn.metrics import roc_auc_score

from fate_dp.data_prep.breast_cancer import party_tables
from fate_dp.deploy.flow_home import open_home
from fate_dp.pipelines.cli import main
from fate_dp.pipelines.party_ledgers import party_ledger
from fate_dp.pipelines.script_tables import FOLDERS, MOTOR_RECORDS, SEED, credit_records, motors

from .. import real_data

pytestmark = pytest.mark.end_to_end

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = {path.stem: path for path in sorted(EXAMPLES.glob("pipeline/*/test_*.py"))}
AT_ONCE = 3
"""Jobs that run beside each other: most of a task's time on two cores is spent in waiting for its peers."""


@pytest.fixture(scope="module")
def returned(flow_address, flow_home, tmp_path_factory):
    """What the `main` of each script returned, by the script's name; a job that fails raises its sentence here."""
    config = yaml.safe_load((EXAMPLES / "config.yaml").read_text(encoding="utf-8"))
    path = tmp_path_factory.mktemp("examples") / "config.yaml"
    path.write_text(yaml.safe_dump({**config, "flow": str(flow_address)}), encoding="utf-8")
    data = ["--data", str(real_data.FOLDER)] if real_data.FOLDER.is_dir() else []
    assert main(["upload-examples", *FOLDERS, *data, "--home", str(flow_home)]) == 0
    with ThreadPoolExecutor(AT_ONCE) as threads:
        run = {name: threads.submit(runpy.run_path(str(script))["main"], path) for name, script in SCRIPTS.items()}
        return {name: job.result() for name, job in run.items()}


def spent(flow_home, source) -> list:
    """Epsilons of the flips of one source in the guest's ledger."""
    return [entry["epsilon"] for entry in party_ledger(open_home(flow_home).parties, "9999")
            if entry["source"] == source and entry["mechanism"].startswith(("randomized", "piecewise"))]  # fmt: skip


def test_nothing_but_labels_was_spent_by_a_private_training(returned, flow_home):
    summary, weights = returned["test_binary"]
    assert spent(flow_home, "experiment/default_credit_hetero_guest/y") == [2.0]
    assert weights["header"] == [f"x{number}" for number in range(13)]
    print(summary)


def test_the_second_training_goes_on_where_the_first_one_ended(returned):
    losses = returned["test_warm_start"]
    first, second = losses["dp_hetero_lr_0"], losses["dp_hetero_lr_1"]
    assert len(first) == len(second) == 3 and second[0] < first[0]
    assert second[-1] <= first[-1]
    print(losses)


def test_every_record_is_in_one_fold(returned):
    folds = returned["test_cross_validation"]
    ids = [row for fold in folds for row in fold["id"]]
    assert len(folds) == 3 and len(ids) == len(set(ids)) > 300


def test_x(returned):
    for k, v in returned.items():
        print(k, v)
