"""A bank's whole way on a real FATE-Flow: reader, psi, dp_binning, dp_scorecard, deploy, predict, evaluation, and folds."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from fate_dp.components.dp_scorecard.export import function_of
from fate_dp.components.dp_scorecard.formats import pmml
from fate_dp.deploy.flow.home import open_home
from fate_dp.pipelines.clients import DPBinning, DPScorecard
from fate_dp.pipelines.jobs.job import run_job, task_metrics, task_output_data, task_output_model
from fate_dp.pipelines.jobs.party_ledgers import party_ledger
from fate_dp.pipelines.jobs.ready import Parties, Tables, evaluation, joined_tables, new_pipeline
from fate_dp.pipelines.jobs.upload import TableMeta, upload_table
from fate_dp.privacy.bins import TableBins
from tests.unit.test_scorecard_formats import evaluated

pytestmark = pytest.mark.end_to_end

PARTIES, TABLES = Parties(arbiter=None), Tables("card_chain", "guest", "host")
NEW = Tables("card_chain", "guest_new", "host_new")
ROWS, EPSILON, FOLDS, COLUMNS = 1500, 3.0, 2, 12
RULES = {"age": {"cuts": [-1, 0, 1]}, "kind": {"categories": [1, 2]}}
OTHERS = {"range": [-2, 2], "bins": 3}
NAMES = [f"x{at}" for at in range(COLUMNS)]


def records_of(rows, seed):
    """{role: table}; the guest's column ``kind`` has a category more in new rows, ``x11`` is constant at the host.

    A host with twelve columns shows joint scores of training rows by three models, unless its operator says otherwise.
    """
    generator = np.random.default_rng(seed)
    ids = [f"{seed} {row}" for row in range(rows)]
    age, host = generator.normal(size=rows), generator.normal(size=(rows, COLUMNS))
    host[:, 11] = 1.0
    kinds = generator.integers(1, 4 + seed, rows).astype(float)
    log_odds = 2 * age + 2 * host[:, 0] - 1.5 * host[:, 1]
    labels = (generator.random(rows) < 1 / (1 + np.exp(-log_odds))).astype(int)
    guest = pd.DataFrame({"id": ids, "y": labels, "age": age, "kind": kinds})
    return {"guest": guest, "host": pd.DataFrame({"id": ids, **dict(zip(NAMES, host.T))})}


TRAIN, TEST = records_of(ROWS, 0), records_of(80, 1)


def tasks():
    reader, psi = joined_tables(PARTIES, TABLES)
    binning = DPBinning(
        "dp_binning_0",
        runtime_parties=PARTIES.data_parties(),
        columns=RULES,
        other_columns=OTHERS,
        privacy="record",
        epsilon=EPSILON,
        train_data=psi.outputs["output_data"],
    )
    return reader, psi, binning


def scorecard(name, binning, **given):
    return DPScorecard(
        name,
        runtime_parties=PARTIES.data_parties(),
        binning_model=binning.outputs["output_model"],
        **{"epsilon": EPSILON, **given},
    )


@pytest.fixture(scope="module")
def trained(flow_address, flow_home, tmp_path_factory):
    """(pipeline, its job) of the whole chain, with folds beside the scorecard."""
    folder = tmp_path_factory.mktemp("chain")
    for made, names in ((TRAIN, TABLES), (TEST, NEW)):
        for role, table in made.items():
            path = folder / f"{getattr(names, role)}.csv"
            table.to_csv(path, index=False)
            meta = TableMeta(label_name="y" if role == "guest" else None)
            upload_table(flow_address, path, names.namespace, path.stem, meta, home=flow_home)
    reader, psi, binning = tasks()
    card = scorecard("dp_scorecard_0", binning, train_data=binning.outputs["train_output_data"], merge_points=2)
    folds = scorecard(
        "folds",
        binning,
        cv_data=binning.outputs["train_output_data"],
        cv_param={"n_splits": FOLDS, "shuffle": False, "random_state": None},
        epsilon=1.0,
    )
    pipeline = new_pipeline(PARTIES).add_tasks([reader, psi, binning, card, folds])
    return pipeline, run_job(pipeline, flow_address, home=flow_home)


def party_of(role):
    return PARTIES.guest if role == "guest" else PARTIES.host


def model_at(address, job, role, task):
    return task_output_model(address, job.job_id, role, party_of(role), task)["output_model"]


def test_every_party_paid_for_its_counts_its_tables_and_those_of_every_fold(trained, flow_home):
    _, job = trained
    for role in TRAIN:
        lines = [
            line for line in party_ledger(open_home(flow_home).parties, party_of(role)) if job.job_id in line["jobs"]
        ]
        paid = [(line["unit"], line["rounds"]) for line in lines if line["mechanism"] == "Gaussian"]
        # At the guest they read labels, which pay as well.
        units = ("label", "record") if role == "guest" else ("record",)
        assert sorted(paid) == [(unit, rounds) for unit in units for rounds in (1, 1, FOLDS)]


def test_the_deployed_chain_scores_new_rows_as_the_exported_formats_do(trained, flow_address, flow_home):
    pipeline, job = trained
    pipeline.deploy([pipeline.psi_0, pipeline.dp_binning_0, pipeline.dp_scorecard_0])
    deployed, again = pipeline.get_deployed_pipeline(), new_pipeline(PARTIES)
    reader, _ = joined_tables(PARTIES, NEW)
    deployed.psi_0.input_data = reader.outputs["output_data"]
    measured = evaluation(PARTIES, deployed.dp_scorecard_0.outputs["test_output_data"])
    result = run_job(again.add_tasks([reader, deployed, measured]), flow_address, home=flow_home)
    scored = task_output_data(flow_address, result.job_id, "guest", PARTIES.guest, "dp_scorecard_0")
    found = scored["test_output_data"].set_index("id")["predict_score"].astype(float)
    document = model_at(flow_address, job, "guest", "dp_scorecard_0")
    host = f"host {PARTIES.host}"
    binning = {role if role == "guest" else host: model_at(flow_address, job, role, "dp_binning_0") for role in TRAIN}
    score, text = function_of(document, binning), pmml(document, binning)
    for own, others in zip(TEST["guest"].to_dict("records"), TEST["host"].to_dict("records")):
        record = {name: own[name] for name in RULES} | {f"{host}: x{at}": others[f"x{at}"] for at in range(COLUMNS)}
        assert found[own["id"]] == pytest.approx(score(record).probability, abs=1e-5)
        assert evaluated(text, record)["probability_of_1"] == pytest.approx(score(record).probability, rel=1e-9)
    for role, table in TEST.items():
        assert_cut(
            flow_address,
            result,
            role,
            table,
            TableBins.from_wire(model_at(flow_address, job, role, "dp_binning_0")["bins"]),
        )
    metrics = task_metrics(flow_address, result.job_id, "guest", PARTIES.guest, "evaluation_0")
    assert roc_auc_score(TEST["guest"]["y"], found.loc[TEST["guest"]["id"]]) > 0.7
    assert metrics and "dp_scorecard_0" in metrics[0]["data"]


def assert_cut(address, job, role, before, bins):
    """Every feature of new rows holds the number of its bin in training, a category that is new in those that are rare."""
    outputs = task_output_data(address, job.job_id, role, party_of(role), "dp_binning_0")
    after, before = outputs["test_output_data"].set_index("id"), before.set_index("id")
    assert set(after.index) == set(before.index)
    codes = bins.codes(before.loc[after.index, list(bins.names)].to_numpy(dtype=float))
    assert (after[list(bins.names)].astype(float).to_numpy() == codes).all()


def test_every_fold_gives_its_held_out_rows(trained, flow_address):
    found = task_output_data(flow_address, trained[1].job_id, "guest", PARTIES.guest, "folds")["cv_output_datas"]
    assert sorted(each for table in found for each in table["id"]) == sorted(TRAIN["guest"]["id"])


def test_cut_points_that_are_not_sorted_are_refused_before_the_job():
    with pytest.raises(ValueError, match="cuts of 'age'"):
        DPBinning("dp_binning_0", runtime_parties=PARTIES.data_parties(), columns={"age": {"cuts": [1, 0]}})
