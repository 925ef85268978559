"""dp_hetero_lr's predict stage with scoring encrypted on a real FATE-Flow, where only the guest has a table."""
import numpy as np
import pandas as pd
import pytest
import yaml

from fate_dp.components.common.dataset_names import columns_name
from fate_dp.deploy.flow_home import open_home
from fate_dp.pipelines.components import DPHeteroLR
from fate_dp.pipelines.job import run_job, task_output_data, task_output_model
from fate_dp.pipelines.party_ledgers import declare_public, make_home, party_ledger
from fate_dp.privacy.private_file import replace_file

from .loans import NAMESPACE, PARTIES, QUICK, loans, tables, upload

pytestmark = pytest.mark.end_to_end

TABLES = tables("old_loans", "old_loans_at_host")


def two_parties():
    """A pipeline without an arbiter; as without a reader in training, the fewer processes, the sooner it ends."""
    from fate_client.pipeline import FateFlowPipeline

    return FateFlowPipeline().set_parties(guest=PARTIES.guest, host=[PARTIES.host])


def training_pipeline():
    """psi -> dp_hetero_lr on labels declared public."""
    from fate_client.pipeline.components.fate import PSI
    from fate_client.pipeline.interface import DataWarehouseChannel

    sides = {"guest": (PARTIES.guest, TABLES.guest), "host": (PARTIES.host, TABLES.host)}
    psi = PSI("psi_0", input_data=[
        DataWarehouseChannel(name=name, namespace=NAMESPACE, parties={role: [party]})
        for role, (party, name) in sides.items()
    ])  # fmt: skip
    task = DPHeteroLR(
        "dp_hetero_lr_0", train_data=psi.outputs["output_data"], label_source=TABLES.label_source(), train_scores=False,
        scoring="encrypted", **QUICK,
    )  # fmt: skip
    return two_parties().add_tasks([psi, task])


def prediction_pipeline(trained, name):
    """A reader at the guest alone -> deployed dp_hetero_lr."""
    from fate_client.pipeline.components.fate import Reader

    trained.deploy([trained.dp_hetero_lr_0])
    deployed = trained.get_deployed_pipeline()
    reader = Reader("reader_0", runtime_parties={"guest": PARTIES.guest})
    reader.guest.task_parameters(namespace=NAMESPACE, name=name)
    deployed.dp_hetero_lr_0.test_data = reader.outputs["output_data"]
    return two_parties().add_tasks([reader, deployed])


def weights(address, result, role, party):
    model = task_output_model(address, result.job_id, role, party, "dp_hetero_lr_0")["output_model"]
    param = model["data"]["estimator"]["param"]
    return pd.Series(np.ravel(param["coef_"]), model["data"]["estimator"]["header"]), np.sum(param["intercept_"] or 0.0)


def test_a_host_without_a_table_scores_rows_that_it_does_not_see(flow_address, flow_home, tmp_path):
    guest, host = loans(122)
    parties, applicants = open_home(flow_home).parties, guest.merge(host, on="id").drop(columns="y").iloc[120:]
    for name, table in (("old_loans", guest.iloc[:120]), ("old_loans_at_host", host), ("applicants", applicants)):
        upload(flow_address, flow_home, tmp_path, name, table)
    declare_public(parties, PARTIES.guest, TABLES.label_source(), tmp_path / "old_loans.csv")
    name = f"weights of {columns_name(host.columns.drop('id'))}"
    replace_file(make_home(parties, PARTIES.host) / "policy.yaml", yaml.safe_dump({"score_caps": {name: 3}}).encode())
    trained = training_pipeline()
    model = run_job(trained, flow_address, home=flow_home)

    job = run_job(prediction_pipeline(trained, "applicants"), flow_address, home=flow_home)

    scored = task_output_data(flow_address, job.job_id, "guest", PARTIES.guest, "dp_hetero_lr_0")["test_output_data"]
    (own, intercept), (of_host, _) = (
        weights(flow_address, model, role, party) for role, party in (("guest", PARTIES.guest), ("host", PARTIES.host))
    )
    rows = applicants.set_index("id").loc[scored["id"]]
    z = rows[own.index] @ own + rows[of_host.index] @ of_host + intercept
    assert set(scored["id"]) == set(applicants["id"])
    np.testing.assert_allclose(scored["predict_score"], 1 / (1 + np.exp(-z)), atol=1e-6)
    counted = [entry for entry in party_ledger(parties, PARTIES.host) if entry["source"] == name]
    assert [(entry["rounds"], entry["parameters"]) for entry in counted] == [(2, {"purpose": "encrypted scoring"})]
