"""dp_scorecard on a real FATE-Flow: join, train with noise, evaluate, deploy, predict, refuse."""

import numpy as np
import pandas as pd
import pytest
from fate_client.pipeline.components.fate import PSI
from sklearn.metrics import roc_auc_score

from bench.scorecard_twin import fit_records
from fate_dp.components.dp_scorecard.export import function_of
from fate_dp.deploy.flow.home import open_home
from fate_dp.pipelines.clients import DPScorecard
from fate_dp.pipelines.jobs.job import JobFailed, run_job, task_metrics, task_output_data, task_output_model
from fate_dp.pipelines.jobs.party_ledgers import party_ledger
from fate_dp.pipelines.jobs.ready import Federation, evaluation, new_pipeline, reader_of
from fate_dp.pipelines.jobs.upload import TableMeta, upload_table
from fate_dp.privacy.bins import TableBins, cut_bins
from fate_dp.privacy.noise.stream import ReproducibleStream

pytestmark = pytest.mark.end_to_end

FEDERATION, NAMESPACE = Federation(hosts=("10000",)), "scorecard_test"
PARTIES = {"guest": "9999", "host": "10000"}
BINS, ROWS = 5, 3000
CUTS = [number + 0.5 for number in range(BINS - 1)]
EPSILON, DELTA, DRAWS = 4.0, 1e-6, 300


def reader_at(name, part):
    return reader_of(name, NAMESPACE, *((party_id, f"{role}_{party_id}_{part}") for role, party_id in PARTIES.items()))


def scorecard(name, **given):
    return DPScorecard(name, runtime_parties=PARTIES, **given)


@pytest.fixture(scope="module")
def tables(flow_address, flow_home, tmp_path_factory):
    """Binned tables of train and test rows at both parties, uploaded; the label depends on the bins of both."""
    folder, generator, made = tmp_path_factory.mktemp("scorecard"), np.random.default_rng(3), {}
    effects = generator.normal(size=(4, BINS))
    for part, rows in (("train", ROWS), ("test", 800)):
        codes = generator.integers(0, BINS, (rows, 4))
        log_odds = 1.5 * effects[np.arange(4), codes].sum(axis=1)
        labels = (generator.random(rows) < 1 / (1 + np.exp(-log_odds))).astype(int)
        ids = [f"{part} {number}" for number in range(rows)]
        guest = pd.DataFrame({"id": ids, "y": labels, "x0": codes[:, 0], "x1": codes[:, 1]})
        host = pd.DataFrame({"id": ids, "x0": codes[:, 2], "x1": codes[:, 3]})
        for role, table in (("guest", guest), ("host", host)):
            path = folder / f"{role}_{part}.csv"
            table.to_csv(path, index=False)
            meta = TableMeta(label_name="y" if role == "guest" else None)
            upload_table(flow_address, path, NAMESPACE, f"{role}_{PARTIES[role]}_{part}", meta, home=flow_home)
        made[part] = (guest, host)
    return made


@pytest.fixture(scope="module")
def trained(tables, flow_address, flow_home):
    """(pipeline, its job): psi and a scorecard with noise at both parties."""
    reader = reader_at("reader_0", "train")
    joined = PSI("psi_0", runtime_parties=PARTIES, input_data=reader.outputs["output_data"])
    card = scorecard(
        "dp_scorecard_0", train_data=joined.outputs["output_data"], bins=BINS, epsilon=EPSILON, delta=DELTA
    )
    pipeline = new_pipeline(FEDERATION).add_tasks([reader, joined, card])
    return pipeline, run_job(pipeline, flow_address, home=flow_home)


def model_at(address, job, role):
    return task_output_model(address, job.job_id, role, PARTIES[role], "dp_scorecard_0")["output_model"]


def test_both_parties_pay_for_their_records_and_hold_their_points(trained, flow_address, flow_home):
    _, job = trained
    guest, host = (model_at(flow_address, job, role) for role in PARTIES)
    of_host = guest["data"]["scorecard"]["hosts"]["host 10000"]
    assert [each["points"] for each in of_host] == [each["points"] for each in host["data"]["scorecard"]["columns"]]
    for party_id in PARTIES.values():
        (line,) = [line for line in party_ledger(open_home(flow_home).parties, party_id) if job.job_id in line["jobs"]]
        assert (line["unit"], line["mechanism"]) == ("record", "Gaussian") and 0 < float(line["epsilon"]) <= EPSILON


def test_the_weights_are_those_of_the_plaintext_twin_within_the_noise(trained, tables, flow_address):
    """Each weight lies among the twin's draws; without the parties' noise all would lie at their middle."""
    _, job = trained
    parts = [table[["x0", "x1"]].to_numpy(dtype=float) for table in tables["train"]]
    bins = [TableBins(tuple(cut_bins(name, CUTS, missing=False) for name in ("x0", "x1"))) for _ in parts]
    labels = tables["train"][0]["y"].to_numpy(dtype=float)
    draws = np.array(
        [
            fit_records(bins, parts, labels, EPSILON, DELTA, ReproducibleStream(f"draw {draw}".encode()))
            for draw in range(DRAWS)
        ]
    )
    card = model_at(flow_address, job, "guest")["data"]["scorecard"]
    columns = [*card["columns"], *card["hosts"]["host 10000"]]
    found = np.concatenate([column["weights"] for column in columns])
    distances = (found - draws.mean(axis=0)) / draws.std(axis=0)
    assert np.abs(distances).max() < 7 and np.sqrt((distances**2).mean()) > 0.2


def test_the_deployed_scorecard_scores_and_is_evaluated_as_its_table_says(trained, tables, flow_address, flow_home):
    pipeline, job = trained
    pipeline.deploy([pipeline.psi_0, pipeline.dp_scorecard_0])
    deployed, again = pipeline.get_deployed_pipeline(), new_pipeline(FEDERATION)
    reader = reader_at("reader_1", "test")
    deployed.psi_0.input_data = reader.outputs["output_data"]
    measured = evaluation(FEDERATION, deployed.dp_scorecard_0.outputs["test_output_data"])
    result = run_job(again.add_tasks([reader, deployed, measured]), flow_address, home=flow_home)
    scored = task_output_data(flow_address, result.job_id, "guest", PARTIES["guest"], "dp_scorecard_0")
    found = scored["test_output_data"].set_index("id")
    guest, host = tables["test"]
    score = function_of(model_at(flow_address, job, "guest"))
    records = zip(guest[["x0", "x1"]].to_numpy().tolist(), host[["x0", "x1"]].to_numpy().tolist())
    names = ("x0", "x1", "host 10000: x0", "host 10000: x1")
    wanted = [score(dict(zip(names, [*own, *others]))).probability for own, others in records]
    assert found.loc[guest["id"], "predict_score"].astype(float).to_numpy() == pytest.approx(wanted, abs=1e-5)
    assert roc_auc_score(guest["y"], wanted) > 0.8
    metrics = task_metrics(flow_address, result.job_id, "guest", PARTIES["guest"], "evaluation_0")
    assert metrics and "dp_scorecard_0" in metrics[0]["data"]


def test_a_bin_that_the_scorecard_does_not_have_is_refused_at_all_parties(tables, flow_address, flow_home):
    reader = reader_at("reader_0", "train")
    joined = PSI("psi_0", runtime_parties=PARTIES, input_data=reader.outputs["output_data"])
    card = scorecard("dp_scorecard_0", train_data=joined.outputs["output_data"], bins=BINS - 1, epsilon=1.0)
    pipeline = new_pipeline(FEDERATION).add_tasks([reader, joined, card])
    with pytest.raises(JobFailed, match="has a value that is none of its bins"):
        run_job(pipeline, flow_address, home=flow_home)
