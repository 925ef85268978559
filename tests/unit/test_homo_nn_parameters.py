"""The client class and the component of dp_homo_nn refuse with the same sentences."""

from pathlib import Path

import pytest
import yaml

from examples.pipelines import (
    Federation,
    StudyTables,
    guest_prediction_pipeline,
    private_training_pipeline,
    private_trees_pipeline,
)
from fate_dp.components.common.parameters import parameters_of
from fate_dp.components.dp_homo_nn.component import dp_homo_nn
from fate_dp.components.dp_homo_nn.settings import TrainSettings
from fate_dp.pipelines.clients import DPHomoNN

EXAMPLE = {
    "dp_homo_nn_0": {
        "model": {"name": "logistic_regression"},
        "rounds": 50,
        "batch_size": 2000,
        "records": 20000,
        "epsilon": 2.0,
        "delta": 1e-6,
        "clip": 1.0,
        "aggregation": "secure_sum",
        "optimizer": {"method": "sgd", "optimizer_params": {"lr": 1.0}},
        "class_weights": {"prior": [0.15, 0.85], "maximum": 5.0},
    }
}
NEEDED = {"rounds": 2, "batch_size": 10, "records": 100, "noise_multiplier": 1.0}
BAD = [
    ("rounds", 0),
    ("model", {"name": "os:system"}),
    ("aggregation", "central"),
    ("clip", [0.0]),
    ("client_weights", {}),
    ("shuffler", 9997),
    ("noise_spread", "gaussian"),
    ("adaptive", {"share": 1}),
]


def parameter(name):
    """The type of a parameter of the train stage, as FATE parses values with it."""
    stage = next(stage for stage in dp_homo_nn.stage_components if stage.name == "train")
    return stage.parameters.mapping[name].type


@pytest.mark.parametrize("name, value", BAD, ids=str)
def test_client_and_component_refuse_alike(name, value):
    with pytest.raises(ValueError) as at_client:
        DPHomoNN("t0", **{**NEEDED, name: value})
    with pytest.raises(ValueError) as at_party:
        parameter(name).parse(value)
    assert str(at_client.value) == str(at_party.value)


def test_every_parameter_is_one_of_the_client_and_of_the_component():
    stage = next(stage for stage in dp_homo_nn.stage_components if stage.name == "train")
    assert set(stage.parameters.mapping) == set(parameters_of(TrainSettings))
    task = DPHomoNN("t1", **NEEDED)
    assert all(hasattr(task, name) for name in parameters_of(TrainSettings))


def test_what_does_not_go_together_is_refused_before_submission():
    with pytest.raises(ValueError, match="epsilon and noise_multiplier must be given one without the other"):
        DPHomoNN("t2", **NEEDED, epsilon=1.0)
    with pytest.raises(ValueError, match="records is not set"):
        DPHomoNN("t3", rounds=3, batch_size=2)


def test_the_shuffler_takes_part_with_trust_shuffle_only():
    parties = Federation(shuffler="9997")
    shuffled = {"rounds": 2, "batch_size": 10, "records": 100, "epsilon0": 1.0, "aggregation": "shuffle"}
    pipeline = private_training_pipeline(
        parties, StudyTables("n"), {"dp_homo_nn_0": NEEDED, "dp_homo_nn_1": shuffled}
    ).compile()
    tasks = yaml.safe_load(pipeline.get_dag())["dag"]["tasks"]
    hosts = {
        name: {host for side in task["parties"] if side["role"] == "host" for host in side["party_id"]}
        for name, task in tasks.items()
        if "parties" in task
    }
    everybody = {"10000", "9998", "9997"}
    assert hosts.get("dp_homo_nn_1", everybody) == everybody
    assert hosts["dp_homo_nn_0"] == hosts["reader_0"] == {"10000", "9998"}
    assert tasks["dp_homo_nn_1"]["parameters"]["shuffler"] == "9997"


def test_a_deployed_model_needs_the_guest_alone():
    parties = Federation(shuffler="9997")
    trained = private_training_pipeline(parties, StudyTables("n"), {"dp_homo_nn_0": NEEDED}, evaluate=False).compile()
    pipeline = guest_prediction_pipeline(trained, "dp_homo_nn_0", parties, StudyTables("n"))
    assert set(pipeline.tasks) == {"reader_1", "dp_homo_nn_0"}
    assert pipeline.tasks["dp_homo_nn_0"].runtime_parties == {"guest": "9999"}


def test_the_dag_file_is_the_ready_made_pipeline():
    made = private_training_pipeline(Federation(shuffler="9997"), StudyTables(), EXAMPLE).compile().get_dag()
    kept = Path(__file__).parents[2] / "conf" / "private_homo_nn.yaml"
    assert in_order(yaml.safe_load(kept.read_text())) == in_order(yaml.safe_load(made))


def test_the_dag_file_of_trees_is_the_ready_made_pipeline():
    parameters = {"records": 20000, "epsilon": 2.0, "delta": 1e-6, "aggregation": "secure_sum"}
    made = private_trees_pipeline(Federation(), StudyTables(), parameters).compile().get_dag()
    kept = Path(__file__).parents[2] / "conf" / "private_homo_gbdt.yaml"
    assert in_order(yaml.safe_load(kept.read_text())) == in_order(yaml.safe_load(made))


def in_order(part):
    """fate_client lists parties in the order of a set, another one in every process."""
    if isinstance(part, dict):
        return {name: sorted(value) if name == "party_id" else in_order(value) for name, value in part.items()}
    return [in_order(item) for item in part] if isinstance(part, list) else part
