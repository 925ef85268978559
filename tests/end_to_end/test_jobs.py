"""The components as tasks of jobs on a real FATE-Flow: training, flipback, prediction."""

import sqlite3

import numpy as np
import pytest

from fate_dp.components.common.charges import columns_name
from fate_dp.components.common.preflight import CHIEF_RECORD
from fate_dp.deploy.flow.home import open_home
from fate_dp.pipelines.clients import DPHeteroLR, Flipback
from fate_dp.pipelines.jobs.job import run_job, task_metrics, task_output_data, task_output_model
from fate_dp.pipelines.jobs.party_ledgers import declare, party_ledger
from fate_dp.pipelines.jobs.ready import prediction_pipeline
from fate_dp.privacy.private_files import KEY_FILE, replace_file
from tests.cluster.searching import Private, found_in

from .loans import NAMESPACE, PARTIES, QUICK, evaluated, flipped_pipeline, loans, tables, upload

pytestmark = pytest.mark.end_to_end

GUEST, HOST = PARTIES.guest, PARTIES.host


@pytest.fixture(scope="module")
def parties_folder(flow_home):
    return open_home(flow_home).parties


@pytest.fixture(scope="module")
def uploaded(flow_address, flow_home, tmp_path_factory):
    """Both sides on the server; the guest's last rows are new to the deployed model."""
    folder = tmp_path_factory.mktemp("tables")
    guest, host = loans(120)
    for name, table in (("guest", guest.iloc[:110]), ("host", host)):
        upload(flow_address, flow_home, folder, name, table)
    return folder, guest, host


@pytest.fixture(scope="module")
def trained(flow_address, flow_home, uploaded, parties_folder):
    """reader -> psi -> label_flip -> dp_hetero_lr -> flipback -> dp_hetero_lr (warm start) -> evaluation, on both solvers."""
    declare(parties_folder, GUEST, f"{NAMESPACE}/guest/y", cap=2.0)
    # Four features would allow a single model's scores; this host's operator allows more.
    allow_scores(parties_folder, uploaded[2])
    pipeline, flip = flipped_pipeline()
    first = DPHeteroLR(
        "first",
        train_data=flip.outputs["output_data"],
        flipback={"mode": "swap", "every": 1},
        solver="per_epoch",
        train_scores=True,
        **QUICK,
    )
    back = Flipback(
        "flipback_0",
        runtime_parties=PARTIES.data_parties(),
        mode="posterior",
        input_data=flip.outputs["output_data"],
        scores=first.outputs["train_output_data"],
    )
    second = DPHeteroLR(
        "dp_hetero_lr_0",
        train_data=back.outputs["output_data"],
        warm_start_model=first.outputs["output_model"],
        sigmoid="exact",
        sigmoid_rounds=1,
        train_scores=True,
        **QUICK,
    )
    pipeline.add_tasks([first, back, second, evaluated(second.outputs["train_output_data"])])
    result = run_job(pipeline, flow_address, home=flow_home)
    return pipeline, result


def allow_scores(parties_folder, *host_tables):
    import yaml

    from fate_dp.components.common.charges import columns_name

    home = parties_folder / f"party-{HOST}"
    home.mkdir(parents=True, exist_ok=True)
    caps = {columns_name([column for column in table.columns if column != "id"]): 20 for table in host_tables}
    replace_file(home / "policy.yaml", yaml.safe_dump({"score_caps": caps}).encode())


def test_the_tasks_ran_under_fate_flow_at_every_party(trained):
    parties = {(record.task, record.role) for record in trained[1].tasks if record.status == "success"}
    assert {
        ("label_flip_0", "guest"),
        ("label_flip_0", "host"),
        ("flipback_0", "guest"),
        ("first", "guest"),
        ("first", "host"),
        ("first", "arbiter"),
        ("evaluation_0", "guest"),
    } <= parties


def test_no_task_from_label_flip_on_reaches_the_true_labels(trained, uploaded, flow_address):
    job, truth = trained[1].job_id, uploaded[1].set_index("id")["y"]
    flipped = task_output_data(flow_address, job, "guest", GUEST, "label_flip_0")["output_data"].set_index("id")["y"]
    assert not flipped.astype(int).equals(truth.loc[flipped.index])
    scored = task_output_data(flow_address, job, "guest", GUEST, "first")["train_output_data"].set_index("id")
    assert (scored["label"] == flipped.loc[scored.index].astype(int)).all()
    revised = task_output_data(flow_address, job, "guest", GUEST, "flipback_0")["output_data"].set_index("id")["y"]
    assert ((revised.astype(float) > 0) & (revised.astype(float) < 1)).all()


def test_the_loss_is_logged_once_per_epoch_at_the_guest_and_the_host_logs_no_loss(trained, flow_address):
    losses = [
        record
        for record in task_metrics(flow_address, trained[1].job_id, "guest", GUEST, "first")
        if record["type"] == "loss"
    ]
    assert len(losses) == QUICK["epochs"]
    records = task_metrics(flow_address, trained[1].job_id, "host", HOST, "first")
    assert {record["name"] for record in records} <= {"summary", CHIEF_RECORD}


def test_evaluation_and_model_have_fates_format(trained, flow_address):
    metrics = task_metrics(flow_address, trained[1].job_id, "guest", GUEST, "evaluation_0")
    assert metrics[0]["name"] == "evaluation" and "dp_hetero_lr_0" in metrics[0]["data"]
    model = task_output_model(flow_address, trained[1].job_id, "guest", GUEST, "dp_hetero_lr_0")["output_model"]
    assert model["data"]["estimator"]["header"] == ["x0", "x1", "x2", "x3"]
    assert model["meta"]["privacy"]["epsilon"] == 1.0 and model["meta"]["privacy"]["flipback before"]


def test_the_ledgers_hold_one_private_line_and_count_every_model_shown(trained, parties_folder):
    flips = [
        entry
        for entry in party_ledger(parties_folder, GUEST)
        if entry["mechanism"] == "randomized_response" and entry["source"].startswith(f"{NAMESPACE}/guest/")
    ]
    assert [(entry["epsilon"], entry["pending"]) for entry in flips] == [(1.0, 0)]
    dataset = columns_name([f"z{number}" for number in range(4)])
    counted = [
        entry
        for entry in party_ledger(parties_folder, HOST)
        if entry["mechanism"] == "joint scores" and entry["source"].startswith(dataset)
    ]
    # One flipback round, one correction of the sigmoid, and the scores of two final models.
    assert sum(entry["uses"] for entry in counted) == 4


def test_both_solvers_ran(trained, flow_address):
    for task, solver in (("first", "per_epoch"), ("dp_hetero_lr_0", "cross_product")):
        records = task_metrics(flow_address, trained[1].job_id, "guest", GUEST, task)
        (summary,) = [record["data"] for record in records if record["name"] == "summary"]
        assert summary["solver"] == solver


def test_a_deployed_pipeline_predicts(trained, flow_address, flow_home, uploaded):
    folder, guest, host = uploaded
    upload(flow_address, flow_home, folder, "guest_new", guest.iloc[110:])
    result = run_job(
        prediction_pipeline(trained[0], PARTIES, tables("guest_new", "host")), flow_address, home=flow_home
    )
    scored = task_output_data(flow_address, result.job_id, "guest", GUEST, "dp_hetero_lr_0")["test_output_data"]
    assert set(scored["id"]) == {f"loan-{number}" for number in range(110, 120)}
    assert {"label", "predict_score", "predict_result", "predict_detail", "type"} <= set(scored.columns)
    model = task_output_model(flow_address, trained[1].job_id, "guest", GUEST, "dp_hetero_lr_0")["output_model"]
    other = task_output_model(flow_address, trained[1].job_id, "host", HOST, "dp_hetero_lr_0")["output_model"]
    # The host rounds its part of z at random to a step of 2^-7, and a probability moves by a quarter of z at most.
    expected = expected_scores(model, other, guest, host)
    assert scored.set_index("id")["predict_score"].to_dict() == pytest.approx(expected, abs=2.0**-9)


def expected_scores(guest_model, host_model, guest, host):
    guest, host = guest.set_index("id").iloc[110:], host.set_index("id")
    guest_param, host_param = (model["data"]["estimator"]["param"] for model in (guest_model, host_model))
    scores = guest[["x0", "x1", "x2", "x3"]] @ np.ravel(guest_param["coef_"]) + guest_param["intercept_"][0]
    scores += host.loc[guest.index][["z0", "z1", "z2", "z3"]] @ np.ravel(host_param["coef_"])
    return (1 / (1 + np.exp(-scores))).to_dict()


def test_the_guests_memo_holds_no_label_or_id_in_clear(trained, parties_folder):
    with sqlite3.connect(parties_folder / f"party-{GUEST}" / "ledger.sqlite") as database:
        text = "\n".join(database.iterdump())
    assert "loan-1" not in text


def test_no_log_or_table_of_the_server_holds_a_partys_key(trained, flow_home, parties_folder):
    keys = {path.read_bytes(): path.parent.name for path in parties_folder.glob(f"party-*/{KEY_FILE}")}
    searched = [folder for folder in flow_home.iterdir() if folder != parties_folder and folder.is_dir()]
    assert keys and any(path.suffix == ".log" or path.name == "INFO" for path in flow_home.rglob("*"))
    assert [found_in(folder, Private({}, keys)) for folder in searched] == [{}] * len(searched)
    assert found_in(parties_folder, Private({}, keys)).keys() == set(keys.values())
