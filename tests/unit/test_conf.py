"""The files in conf/ are what the code makes of them."""

from pathlib import Path

import yaml

from fate_dp.pipelines.jobs.ready import Parties, Tables, TrainingPlan, training_pipeline
from fate_dp.privacy.ledger.policy import load_policy

CONF = Path(__file__).parents[2] / "conf"
# train_scores, since the job evaluates them.
SAME_MODEL_AGAIN = {
    "epochs": 30,
    "init_param": {"method": "kaiming", "fit_intercept": False, "random_state": 2024},
    "train_scores": True,
}


def test_the_dag_file_is_the_ready_made_pipeline():
    plan = TrainingPlan(Parties(), Tables("fate_dp_demo", "guest_train", "host_train"), 2.0, SAME_MODEL_AGAIN)
    made = training_pipeline(plan).compile().get_dag()
    assert yaml.safe_load((CONF / "label_private_hetero_lr.yaml").read_text()) == yaml.safe_load(made)


def test_the_example_policy_is_one():
    policy = load_policy(CONF / "policy.example.yaml")
    assert policy.label_cap("bank/loans_2024/y") == 4 and policy.source("bank/loans_2015_published/y").public
