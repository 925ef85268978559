"""`fate-dp check` answers whatever DAG it is given by a verdict or one sentence, and observers are parties."""

import copy
import json
import re

import pytest
import yaml
from fate_client.flow_cli.utils.cli_utils import load_yaml

from fate_dp.components.common.preflight import Refused
from fate_dp.components.disclosure.reading import items, stages_declared
from fate_dp.components.disclosure.tracing import trace
from fate_dp.components.disclosure.verdicts import status
from fate_dp.deploy.fate_patches import model_classes
from fate_dp.pipelines.cli.main import main
from fate_dp.pipelines.jobs.job_plans import plan_of_document, plan_of_file

GUEST, HOST = ({"role": role, "party_id": [each]} for role, each in (("guest", "9999"), ("host", "10000")))
FLIPS = {"producer_task": "label_flip_0", "output_artifact_key": "output_data"}
TABLE = {"namespace": "bank", "name": "loans"}


def arbiter(party_id="10001"):
    return {"role": "arbiter", "party_id": [party_id]}


def task(component, *producers, stage=None, inputs=None, **parameters):
    """A task in its first stage, or another one, with outputs of others in the input that the stage declares first."""
    stages = stages_declared(component)
    stage = stage or next(iter(stages), "default")
    read = {
        "task_output_artifact": [{"producer_task": each, "output_artifact_key": "output_data"} for each in producers]
    }
    data = {next(iter(stages[stage]["inputs"]["data"])): read} if producers else {}
    return {"component_ref": component, "stage": stage, "parameters": parameters, "inputs": inputs or {"data": data}}


def dag(*more, **tasks):
    """A job of guest and host, and perhaps others, who take part in those tasks alone that run with them."""
    first = {
        "reader_0": task("reader", **TABLE),
        "label_flip_0": task("label_flip", "reader_0", epsilon=1.0, label_source="a/b/y"),
    }
    tasks = {**first, **tasks}
    for each in tasks.values() if more else ():
        stage = stages_declared(each["component_ref"]).get(each["stage"])
        if each["component_ref"] == "reader" or stage and "arbiter" not in stage["roles"]:
            each.setdefault("parties", [GUEST, HOST])
    return {"parties": [GUEST, HOST, *more], "stage": "train", "tasks": tasks}


@pytest.fixture
def checked(tmp_path, capsys):
    """Exit status and output of the command for a DAG, or the text of a file."""

    def run(content, *flags):
        path = tmp_path / "job.yaml"
        path.write_text(content if isinstance(content, str) else yaml.safe_dump({"dag": content}, sort_keys=False))
        status = main(["check", str(path), *flags])
        shown = capsys.readouterr()
        assert "Traceback" not in shown.out + shown.err
        return status, shown.out + shown.err

    return run


MIXED = {"data": {"input_data": {"task_output_artifact": [FLIPS, TABLE]}}}
BAD = {
    "a circle": (dag(a=task("psi", "b"), b=task("psi", "a")), "wait for each other's outputs in a circle: a, b"),
    "a task that reads itself": (dag(a=task("psi", "a")), "in a circle"),
    "a task that is not there": (dag(a=task("psi", "gone")), "The input of task a must be an output of one of"),
    "two channels in one input": (
        dag(a=task("psi", inputs=MIXED)),
        "must be producer_task and output_artifact_key, got",
    ),
    "parties without role": ({**dag(), "parties": [{"party_id": ["9999"]}]}, "role in .* is wrong for a DAG"),
    "no parties": ({**dag(), "parties": []}, "Task reader_0 has no parties"),
    "a DSL of 1.x": (yaml.safe_dump({"components": {"reader_0": {"module": "Reader"}}}), "is a DSL of FATE 1.x"),
    "no DAG": ("- 1", "has no tasks"),
    "no YAML": ("a: [", "cannot be read"),
    "no date": ("a: 2023-13-45", "cannot be read|has no tasks"),
    "a circle of aliases": ("dag: {tasks: &a {psi_0: *a}}", "must have at most .* values"),
    "endless aliases": (
        "a: &a [1,1,1,1,1,1,1,1,1,1]\n"
        + "".join(f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdefg", "bcdefgh"))
        + "dag: {tasks: {psi_0: *h}}",
        "must have at most .* values",
    ),
}


@pytest.mark.parametrize("content, sentence", BAD.values(), ids=BAD)
def test_what_is_no_job_gets_one_sentence(checked, content, sentence):
    status, shown = checked(content)
    assert status == 1 and len(shown.strip().splitlines()) == 1
    assert re.search(sentence, shown), shown


UNKNOWN = {
    "a key in other letters": {"He_param": {"kind": "ou"}},
    "a key of a group in other letters": {"he_param": {"kind": "ou", "Key_length": 1024}},
    "a word that FATE refuses": {"he_param": {"kind": "rsa"}},
    "a number that FATE refuses": {"n_bins": "ten"},
    "a mapping in place of a word": {"method": {"a": 1}},
}


@pytest.mark.parametrize("given", UNKNOWN.values(), ids=UNKNOWN)
def test_settings_that_fate_refuses_or_passes_over_are_unknown(checked, given):
    binning = task("hetero_feature_binning", "label_flip_0", **{"method": "quantile", **given})
    status, shown = checked(dag(binning_0=binning))
    assert status == 3 and "UNKNOWN: FATE refuses or passes over" in shown and next(iter(given)) in shown


@pytest.mark.parametrize("n_bins", [4, "4"])
def test_a_number_as_text_is_a_number(checked, n_bins):
    assert checked(dag(a=task("hetero_feature_binning", "label_flip_0", method="Quantile", n_bins=n_bins)))[0] == 0


RUNNER = "fate.components.components.nn.runner.homo_default_runner"
CODE = {
    "a runner": ("homo_nn", {"runner_module": "my_runner"}),
    "a folder": ("homo_nn", {"source": "bank"}),
    "a module": ("hetero_nn", {"runner_conf": {"model_conf": {"module_name": "torch.hub", "item_name": "load"}}}),
    "a module of a folder": (
        "homo_nn",
        {"runner_conf": {"loss": {"module_name": "torch.nn", "item_name": "L", "source": "x"}}},
    ),
    "a layer that nobody knows": ("hetero_nn", {"runner_conf": {"agglayer_arg_conf": {"agg_type": "interactive"}}}),
    "an aggregator that nobody knows": (
        "homo_nn",
        {"runner_conf": {"fed_args_conf": {"aggregator": "Secure_Aggregate"}}},
    ),
    "a function of FATE's that reads a file": (
        "homo_nn",
        {"runner_conf": {"loss_conf": {"module_name": RUNNER, "item_name": "load_model_dict_from_path"}}},
    ),
    "a class of torch that runs others": (
        "homo_nn",
        {"runner_conf": {"model_conf": {"module_name": "torch.nn.parallel", "item_name": "DistributedDataParallel"}}},
    ),
    "no name of a class": ("homo_nn", {"runner_conf": {"model_conf": {"module_name": "torch.nn"}}}),
    "a setting that the runner lacks": ("homo_nn", {"runner_conf": {"Algo": "fedavg"}}),
    "another algorithm": ("homo_nn", {"runner_conf": {"algo": "fedprox"}}),
    "an average by steps": ("homo_nn", {"runner_conf": {"fed_args_conf": {"aggregate_strategy": "steps"}}}),
    "a number for true": ("homo_nn", {"runner_conf": {"local_mode": 1}}),
    "a layer's argument of another kind of layer": (
        "hetero_nn",
        {"runner_conf": {"agglayer_arg_conf": {"agg_type": "hess", "passport_mode": "single"}}},
    ),
    **{
        f"a training argument, {next(iter(given))}": ("homo_nn", {"runner_conf": {"training_args_conf": given}})
        for given in (
            *({"push_to_hub": True}, {"hub_always_push": 1}, {"deepspeed": "conf.json"}, {"output_dir": "/tmp"}),
            *({"report_to": ["wandb"]}, {"optim": "../x"}, {"epochs": 3}, {"lr_scheduler_kwargs": {"a": {"b": "c"}}}),
        )
    },
}
HONEST = {
    "algo": "fedavg",
    "model_conf": {"module_name": "torch.nn", "item_name": "Linear", "kwargs": {"in_features": 3, "out_features": 1}},
    "training_args_conf": {
        "num_train_epochs": 2,
        "optim": "adamw_torch",
        "label_names": ["y"],
        "lr_scheduler_kwargs": {},
    },
    "fed_args_conf": {"aggregate_strategy": "epoch", "aggregate_freq": 1, "aggregator": "secure_aggregate"},
    "loss_conf": None,
    "local_mode": False,
}


@pytest.mark.parametrize("component, given", CODE.values(), ids=CODE)
def test_parameters_that_name_code_make_a_job_unknown(checked, component, given):
    assert checked(dag(arbiter(), a=task(component, "label_flip_0", **given)))[0] == 3


def test_an_honest_network_is_known(checked):
    assert checked(dag(arbiter(), a=task("homo_nn", "label_flip_0", runner_conf=HONEST)))[0] == 0


def output_of(name, key="output_data"):
    return {"task_output_artifact": [{"producer_task": name, "output_artifact_key": key}]}


BINNED = {"data": {"train_data": output_of("label_flip_0")}}
TRUE_LABELS = {"data": {"train_data": output_of("label_flip_0"), "test_data": output_of("reader_0")}}
GUEST_ALONE = {"role": "guest", "party_id": ["9998"]}
NOT_RUN = {
    "an input of another stage": task("hetero_feature_binning", inputs=TRUE_LABELS),
    "an input of no stage": task(
        "data_split", inputs={"data": {"input_data": output_of("label_flip_0"), "train_data": output_of("reader_0")}}
    ),
    "no input": task("psi"),
    "a model in a stage without one": task(
        "hetero_feature_binning", inputs={**BINNED, "model": {"input_model": output_of("b", "output_model")}}
    ),
    "two tables for one": task("psi", "label_flip_0", "reader_0"),
    "an output that is not made": task(
        "psi", inputs={"data": {"input_data": output_of("reader_0", "train_output_data")}}
    ),
    "no model": task("coordinated_lr", stage="predict", inputs={"data": {"test_data": output_of("label_flip_0")}}),
    "a model of another component": task(
        "sshe_lr", inputs={**BINNED, "model": {"warm_start_model": output_of("b", "output_model")}}
    ),
    "a stage that is not there": {**task("psi", "label_flip_0"), "stage": "predict"},
    "flips in a prediction": {**task("label_flip", "reader_0", epsilon=1.0, label_source="a/b/y"), "stage": "predict"},
    "no step at all": {**task("hetero_secureboost", "label_flip_0"), "stage": "default"},
    "flips of no epsilon": task("label_flip", "reader_0", label_source="a/b/y"),
    "a role that it has not": {**task("psi", "label_flip_0"), "parties": [GUEST, HOST, arbiter()]},
    "two guests": {**task("psi", "label_flip_0"), "parties": [GUEST, GUEST_ALONE, HOST]},
    "no host": {**task("hetero_secureboost", "label_flip_0"), "parties": [GUEST]},
    "no guest": {**task("hetero_secureboost", "label_flip_0"), "parties": [HOST]},
    "no arbiter": task("homo_lr", "label_flip_0"),
    "a party that the job lacks": {**task("psi", "label_flip_0"), "parties": [GUEST, {**HOST, "party_id": ["10005"]}]},
    "a table that only the host has": {
        **task("hetero_feature_binning", inputs={"data": {"train_data": output_of("h")}}, method="quantile")
    },
}


@pytest.mark.parametrize("name", NOT_RUN)
def test_what_fate_would_not_run_or_passes_over_is_unknown(checked, name):
    others = {
        "b": task("hetero_feature_binning", "label_flip_0", method="quantile"),
        "h": {**task("reader", **TABLE), "parties": [HOST]},
    }
    job = dag(arbiter(), **others, a=copy.deepcopy(NOT_RUN[name]))
    job["tasks"]["a"]["parties"] = NOT_RUN[name].get("parties") or [GUEST, HOST]
    status, shown = checked(job, "--json")
    assert status != 0 and json.loads(shown)["status"] in (1, 3) and json.loads(shown)["unknown"] == ["a"], shown


def test_parameters_of_a_party_that_does_not_run_a_task_are_refused(checked):
    owner = {"parties": [{"role": "host", "party_id": ["10005"]}], "tasks": {"label_flip_0": {"parameters": {}}}}
    assert checked({**dag(), "party_tasks": {"host_10005": owner}})[0] == 3
    assert checked(dag())[0] == 0


def test_labels_of_what_a_prediction_really_reads_are_followed(checked):
    """FATE passes over train_data there, flips or not."""
    model = {"input_model": output_of("b", "output_model")}
    first = task("hetero_feature_binning", "label_flip_0", method="quantile")
    predicted = task("hetero_feature_binning", stage="predict", inputs={**TRUE_LABELS, "model": model})
    assert checked(dag(b=first, a=predicted))[0] == 1


def test_a_training_that_goes_on_may_have_no_trees_of_the_guest_alone_left(checked):
    alone = {"num_trees": 3, "complete_secure": 3, "gh_pack": False}
    data = {"data": {"train_data": output_of("reader_0")}}
    again = {**data, "model": {"warm_start_model": output_of("a", "output_model")}}
    first = task("hetero_secureboost", inputs=data, **alone)
    assert checked(dag(a=first))[0] == 0
    status, shown = checked(dag(a=first, b=task("hetero_secureboost", inputs=again, **alone)))
    assert status == 1 and "can read every true label of guest 9999 in b" in shown


def test_check_and_fence_share_one_list():
    assert items() == model_classes.ITEMS


def sources(*kinds):
    found = {"flips": ("task_output_artifact", FLIPS), "table": ("data_warehouse", TABLE)}
    found["table of the host"] = ("data_warehouse", {**TABLE, "parties": [HOST]})
    return {"data": {"train_data": dict(found[kind] for kind in kinds)}}


@pytest.mark.parametrize(
    "kinds, status",
    [(["flips", "table"], 1), (["table", "flips"], 0), (["flips", "table of the host"], 0), (["table"], 1)],
)
def test_of_two_sources_of_an_input_the_last_wins_at_each_party(checked, kinds, status):
    binning = task("hetero_feature_binning", inputs=sources(*kinds), method="quantile")
    assert checked(dag(binning_0=binning))[0] == status


def test_flips_that_an_earlier_job_made_are_unknown(checked):
    model = task("hetero_feature_binning", "label_flip_0", method="quantile")
    inherited = {"inheritance": {"job_id": "202601010000000000000", "task_list": ["label_flip_0"]}}
    assert (checked(dag(a=model))[0], checked({**dag(a=model), "conf": inherited})[0]) == (0, 1)


def test_a_model_of_an_earlier_job_brings_settings_that_nobody_knows(checked):
    told = {"producer_task": "nn_0", "output_artifact_key": "output_model", "parties": [GUEST, HOST]}
    model = {"model_warehouse": told}
    read = {"task_output_artifact": [FLIPS]}
    inputs = {"data": {"test_data": read}, "model": {"input_model": model}}
    assert checked(dag(arbiter(), a=task("homo_nn", stage="predict", inputs=inputs)))[0] == 3
    assert checked(dag(arbiter(), a=task("coordinated_lr", stage="predict", inputs=inputs)))[0] == 0


def test_a_training_that_goes_on_does_not_take_the_cipher_of_the_one_before(checked):
    warm = {"task_output_artifact": [{"producer_task": "a", "output_artifact_key": "output_model"}]}
    read = {"task_output_artifact": [{"producer_task": "reader_0", "output_artifact_key": "output_data"}]}
    first = task("coordinated_lr", "reader_0", he_param={"kind": "ou"})
    second = task("coordinated_lr", inputs={"data": {"train_data": read}, "model": {"warm_start_model": warm}})
    assert checked(dag(arbiter(), a=first))[0] == 0
    assert checked(dag(arbiter(), a=first, b=second))[0] == 1


@pytest.mark.parametrize("of, status", [("10001", 0), ("10000", 1), ("9999", 1)])
def test_who_has_the_key_as_arbiter_opens_what_it_gets_as_host(checked, of, status):
    model = task("coordinated_lr", "reader_0", he_param={"kind": "OU"})
    found, shown = checked(dag(arbiter(of), a=model))
    assert found == status and ("host and arbiter 10000 can read every true label" in shown) is (of == "10000")


def test_a_party_in_all_roles_is_shown_nothing_of_its_own(checked):
    roles = [{"role": role, "party_id": ["9999"]} for role in ("guest", "host", "arbiter", "local", "host")]
    job = {**dag(a=task("coordinated_lr", "reader_0"), b=task("homo_lr", "reader_0")), "parties": roles}
    status, shown = checked(job, "--json")
    # FATE runs no reader as local.
    assert status != 0 and {sight["observer"] for sight in json.loads(shown)["sights"]} <= {"whoever gets the model"}


APART = {
    "per_epoch": ("dp_hetero_lr", {"solver": "per_epoch"}, True),
    "what per_epoch follows from": ("dp_hetero_lr", {"early_stop": "weight_diff"}, True),
    "cross_product": ("dp_hetero_lr", {}, False),
    "answers": ("shuffler", {"shuffler": "10002"}, True),
    "shuffled answers": ("dp_homo_nn", {"aggregation": "shuffle", "shuffler": "10002"}, True),
    "a masked sum": ("dp_homo_nn", {}, False),
}


@pytest.mark.parametrize("component, given, apart", APART.values(), ids=APART)
def test_our_components_refuse_an_arbiter_that_is_a_data_party_where_they_rest_on_two(checked, component, given, apart):
    given = {"label_source": "a/b/y", **given} if component == "dp_hetero_lr" else given
    for party, refused in (("10000", apart), ("10001", False)):
        status, shown = checked(dag(arbiter(party), a=task(component, "label_flip_0", **given)))
        sentence = f"The arbiter of {component} must be another party than"
        assert (sentence in shown, status == 1) == (refused, refused), shown


class Called:
    """FATE's context as far as a component looks at it before any message."""

    def __init__(self, *parties):
        self.federation = type("Federation", (), {"parties": list(parties)})


@pytest.mark.parametrize("role", ["guest", "host", "arbiter"])
def test_every_party_refuses_by_itself_before_any_message(role):
    from fate_dp.components.dp_hetero_lr.component import dp_hetero_lr

    train = next(stage for stage in dp_hetero_lr.stage_components if stage.name == "train").callback.__wrapped__
    joined = Called(("guest", "9999"), ("host", "10000"), ("arbiter", "10000"))
    with pytest.raises(Refused, match="must be another party than guest and host, got party 10000 as arbiter and host"):
        train(joined, role, solver="per_epoch")


def test_true_labels_beside_those_that_are_protected_are_refused(checked):
    protected = task("dp_hetero_lr", "label_flip_0", label_source="a/b/y")
    beside = task("hetero_secureboost", "reader_0")
    assert checked(dag(a=protected, b=task("hetero_secureboost", "label_flip_0")))[0] == 0
    status, shown = checked(dag(a=protected, b=beside))
    assert status == 1 and "True labels that label_flip_0 protects must be shown by no other task" in shown


def test_what_is_said_of_several_tasks_or_messages_is_said_once(checked):
    conf = {"agglayer_arg_conf": {"agg_type": "hess"}}
    read = {name: task("hetero_nn", "reader_0", runner_conf=conf) for name in ("nn_0", "nn_1", "nn_2", "nn_3", "nn_4")}
    status, shown = checked(dag(**read))
    lines = shown.splitlines()
    assert status == 1 and len(set(lines)) == len(lines)
    assert sum(line.startswith("LEAK: ") for line in lines) == len(read)
    assert any(line.startswith("nn_0, nn_1, nn_2 and 2 more: LEAKS host 10000 of guest 9999") for line in lines)


def test_ten_thousand_tasks_get_a_verdict(checked):
    channel = {"output_artifact_key": "train_output_data"}
    tasks, last = {}, {"producer_task": "label_flip_0", "output_artifact_key": "output_data"}
    for number in range(10_000):
        read = {"data": {"train_data": {"task_output_artifact": [last]}}}
        tasks[f"t{number}"] = task("hetero_feature_binning", inputs=read, method="quantile")
        last = {"producer_task": f"t{number}", **channel}
    status, shown = checked(json.dumps({"dag": dag(**tasks)}))
    assert status == 0 and "t0, t1, t2 and 9997 more" in shown


def test_a_job_as_fate_flow_stores_it_has_nothing_where_an_input_has_no_field():
    stored = {**TABLE, "producer_task": None, "job_id": None, "parties": None}
    psi = task("psi", inputs={"data": {"input_data": {"data_warehouse": stored}}}, protocol=None)
    plan = plan_of_document({"dag": {**dag(psi_0=psi), "conf": {}}}, "job")
    assert plan.dag["tasks"]["psi_0"]["inputs"]["data"]["input_data"]["data_warehouse"] == TABLE
    assert plan.dag["tasks"]["psi_0"]["parameters"] == {"protocol": None}


def test_a_small_number_is_read_as_fate_flow_writes_it(tmp_path):
    path = tmp_path / "dag.yaml"
    train = task("dp_homo_nn", "reader_0", epsilon=1.0, delta=1e-6)
    text = yaml.safe_dump({"dag": {**dag(train_0=train), "conf": {}}}).replace("1.0e-06", "1e-06")
    assert "delta: 1e-06" in text and path.write_text(text)
    assert plan_of_file(path).dag["tasks"]["train_0"]["parameters"]["delta"] == 1e-6


@pytest.mark.parametrize("written", ["010000", "0o10", "1:30", "yes", "09999", "1_000", "1e3", "0x1F", ".5"])
def test_a_file_is_read_as_fates_client_reads_it(tmp_path, written):
    path = tmp_path / "dag.yaml"
    text = yaml.safe_dump({"dag": {**dag(psi_0=task("psi", "reader_0", protocol="WRITTEN")), "conf": {}}})
    path.write_text(text.replace("WRITTEN", written).replace("'10000'", written))
    read, sent = plan_of_file(path).dag, load_yaml(path)["dag"]
    assert read["tasks"]["psi_0"]["parameters"] == sent["tasks"]["psi_0"]["parameters"]
    assert [line["party_id"] for line in read["parties"]] == [
        list(map(str, each["party_id"])) for each in sent["parties"]
    ]


EVIL, OURS = "evil:1.0@local", "fate:dp0.2.0@local"


@pytest.mark.parametrize(
    "change, expected",
    [
        (lambda job: job["tasks"]["binning_0"].update(conf={"provider": EVIL}), 3),
        (lambda job: job.update(conf={"task": {"provider": EVIL}}), 3),
        (lambda job: job.update(party_tasks={"guest_9999": {"parties": [GUEST], "conf": {"provider": EVIL}}}), 3),
        (lambda job: job["tasks"]["binning_0"].update(conf={"launcher_name": "deepspeed"}), 3),
        (lambda job: job["tasks"]["binning_0"].update(conf={"provider": OURS}), 0),
        (lambda job: job["tasks"]["label_flip_0"]["parameters"].update(epsilon=50), 1),
        (lambda job: job["tasks"]["label_flip_0"]["parameters"].update(epsilon=10**400), 3),
        (
            lambda job: job.update(
                party_tasks={
                    "guest_9999": {"parties": [GUEST], "tasks": {"label_flip_0": {"parameters": {"epsilon": 50.0}}}}
                },
                parties=[HOST, GUEST],
            ),
            1,
        ),
    ],
    ids=["task", "job", "party", "launcher", "ours", "no flips", "endless", "one party's epsilon"],
)
def test_what_chooses_other_code_or_flips_nothing_is_seen(change, expected):
    job = {**dag(binning_0=task("hetero_feature_binning", "label_flip_0")), "conf": {}}
    change(job)
    assert status(trace(plan_of_document({"dag": job}, "job"))) == expected


def test_a_prediction_is_made_with_what_its_own_stage_is_given():
    model = {"task_output_artifact": {"producer_task": "binning_0", "output_artifact_key": "output_model"}}
    rows = {"task_output_artifact": {"producer_task": "reader_0", "output_artifact_key": "output_data"}}
    predicted = task(
        "hetero_feature_binning", stage="predict", inputs={"data": {"test_data": rows}, "model": {"input_model": model}}
    )
    job = dag(binning_0=task("hetero_feature_binning", "label_flip_0", skip_metrics=True), binning_1=predicted)
    assert status(trace(plan_of_document({"dag": {**job, "conf": {}}}, "job"))) == 1
    predicted["parameters"] = {"skip_metrics": True}
    assert status(trace(plan_of_document({"dag": {**job, "conf": {}}}, "job"))) == 0


def test_of_two_lines_of_one_role_the_last_counts():
    flips = {**FLIPS, "parties": [GUEST, HOST, {"role": "guest", "party_id": ["8888"]}]}
    job = dag(
        binning_0=task(
            "hetero_feature_binning",
            inputs={"data": {"train_data": {"data_warehouse": TABLE, "task_output_artifact": [flips]}}},
        )
    )
    assert status(trace(plan_of_document({"dag": {**job, "conf": {}}}, "job"))) == 1
