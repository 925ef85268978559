"""dp_binning on a real FATE-Flow: between psi and two trainings; `test_scorecard_chain` has it in front of new rows."""

import sqlite3

import numpy as np
import pandas as pd
import pytest

from bench.scorecard_twin import noisy_sums, tables_of
from fate_dp.components.dp_scorecard.additive import solve
from fate_dp.deploy.flow.home import open_home
from fate_dp.pipelines.jobs.job import run_job, task_output_data, task_output_model
from fate_dp.pipelines.jobs.party_ledgers import declare, home_at, party_ledger
from fate_dp.pipelines.jobs.ready import Parties, Tables, joined_tables, new_pipeline
from fate_dp.pipelines.jobs.upload import TableMeta, upload_table
from fate_dp.privacy.bins import TableBins
from fate_dp.privacy.labels.flips import record_tags
from fate_dp.privacy.mechanisms.second_moments import noise_multiplier_for
from fate_dp.privacy.noise.stream import ReproducibleStream
from fate_dp.privacy.table_facts import TableFacts

pytestmark = pytest.mark.end_to_end

PARTIES, TABLES = Parties(arbiter=None), Tables("binned", "guest", "host")
ROWS = 400
SPECIAL = {"guest": {}, "host": {"income": (-999,)}}
EPSILON, HOST_EPSILON, DRAWS = 4.0, 4.0, 100


def records_of(count):
    """{role: table}: a number at each party, unknown of some at the host, and categories at the host; all miss some values."""
    generator = np.random.default_rng(0)
    ids = [f"client {row}" for row in range(count)]
    numbers = generator.normal(size=(count, 2))
    kinds = generator.integers(1, 4, count).astype(float)
    labels = (numbers.sum(axis=1) + generator.normal(size=count) > 0).astype(int)
    numbers[:40, 1] = -999
    numbers[40:60, 0] = numbers[60:80, 1] = kinds[80:90] = np.nan
    guest = pd.DataFrame({"id": ids, "y": labels, "debt": numbers[:, 0]})
    return {"guest": guest, "host": pd.DataFrame({"id": ids, "income": numbers[:, 1], "kind": kinds})}


TRAIN = records_of(ROWS)


@pytest.fixture(scope="module")
def job(flow_address, flow_home, tmp_path_factory):
    """The job of reader, psi, label_flip, dp_binning, then dp_hetero_lr and dp_scorecard."""
    from fate_dp.pipelines.clients import DPBinning, DPHeteroLR, DPScorecard, LabelFlip

    folder = tmp_path_factory.mktemp("binned")
    for role, table in TRAIN.items():
        path = folder / f"{role}.csv"
        table.to_csv(path, index=False)
        meta = TableMeta(
            label_name="y" if role == "guest" else None, facts=TableFacts("clients", special=SPECIAL[role])
        )
        upload_table(flow_address, path, TABLES.namespace, role, meta, home=flow_home)
    declare(open_home(flow_home).parties, PARTIES.guest, TABLES.label_source(), cap=EPSILON)
    reader, psi = joined_tables(PARTIES, TABLES)
    flip = LabelFlip(
        "label_flip_0",
        runtime_parties=PARTIES.data_parties(),
        epsilon=EPSILON,
        label_source=TABLES.label_source(),
        input_data=psi.outputs["output_data"],
    )
    binning = DPBinning(
        "dp_binning_0",
        runtime_parties=PARTIES.data_parties(),
        columns={"debt": {"cuts": [-1, 0, 1]}, "kind": {"categories": [1, 2]}},
        other_columns={"range": [-3, 3], "quantiles": 4},
        bins_epsilon=2.0,
        train_data=flip.outputs["output_data"],
    )
    model = DPHeteroLR(
        "dp_hetero_lr_0",
        runtime_parties=PARTIES.data_parties(),
        train_data=binning.outputs["train_output_data"],
        train_scores=False,
        epochs=3,
        flipback={"mode": "none"},
    )
    card = DPScorecard(
        "dp_scorecard_0",
        runtime_parties=PARTIES.data_parties(),
        train_data=binning.outputs["train_output_data"],
        binning_model=binning.outputs["output_model"],
        privacy="none",
    )
    card.hosts[0].task_parameters(epsilon=HOST_EPSILON)
    pipeline = new_pipeline(PARTIES).add_tasks([reader, psi, flip, binning, model, card])
    return run_job(pipeline, flow_address, home=flow_home)


def party_of(role):
    return PARTIES.guest if role == "guest" else PARTIES.host


def bins_at(address, job, role):
    model = task_output_model(address, job.job_id, role, party_of(role), "dp_binning_0")["output_model"]
    return model, TableBins.from_wire(model["bins"])


def test_its_records_count_in_the_population_that_the_upload_declared(job, flow_home):
    home, ids = home_at(open_home(flow_home).parties, PARTIES.host), TRAIN["host"]["id"]
    with sqlite3.connect(home.ledger.path) as connection:
        counted = {record for (record,) in connection.execute("SELECT record FROM family_record")}
    assert counted.issuperset(record_tags(ids, home.key, "records of clients"))
    assert counted.isdisjoint(record_tags(ids, home.key, "records"))


def assert_cut(table, before, bins):
    """Every feature holds the number of its bin, row by row."""
    after, before = table.set_index("id"), before.set_index("id")
    assert set(after.index) == set(before.index)
    codes = bins.codes(before.loc[after.index, list(bins.names)].to_numpy(dtype=float))
    assert (after[list(bins.names)].astype(float).to_numpy() == codes).all()


def test_each_party_has_its_binned_table_and_a_model_of_its_own_columns(job, flow_address):
    for role, table in TRAIN.items():
        model, bins = bins_at(flow_address, job, role)
        outputs = task_output_data(flow_address, job.job_id, role, party_of(role), "dp_binning_0")
        assert_cut(outputs["train_output_data"], table, bins)
        ivs = {column["name"]: column["iv"] for column in model["columns"]}
        assert {column.name: column.special for column in bins.columns if column.special} == SPECIAL[role]
        number = "debt" if role == "guest" else "income"
        assert set(ivs) == set(bins.names) and ivs[number] > 0.3
        assert model["privacy"]["level"] == "none" and model["privacy"]["epsilon"] == EPSILON


def test_the_host_paid_for_quantiles_and_scorecard_and_nobody_for_counting_flips(job, flow_home):
    charged = {}
    for role in TRAIN:
        lines = party_ledger(open_home(flow_home).parties, party_of(role))
        charged[role] = sorted(line["mechanism"] for line in lines if job.job_id in line["jobs"])
    assert charged == {
        "guest": ["randomized_response"],
        "host": ["ExponentialMechanism", "Gaussian", "losses of trainings"],
    }


def test_the_training_reads_the_binned_table(job, flow_address):
    model = task_output_model(flow_address, job.job_id, "guest", PARTIES.guest, "dp_hetero_lr_0")["output_model"]
    assert model["meta"]["privacy"]["epsilon"] == EPSILON


def test_the_scorecard_has_points_for_every_bin(job, flow_address):
    model = task_output_model(flow_address, job.job_id, "guest", PARTIES.guest, "dp_scorecard_0")["output_model"]
    card, bins = model["data"]["scorecard"], {role: bins_at(flow_address, job, role)[1] for role in TRAIN}
    assert [len(each["points"]) for each in card["columns"]] == list(bins["guest"].counts)
    assert [len(each["points"]) for each in card["hosts"][f"host {PARTIES.host}"]] == list(bins["host"].counts)
    debt = np.array(card["columns"][0]["points"])
    # The more debt the likelier the label 1, which costs points; the bin of missing values is the last one.
    assert debt[0] > debt[3]


def test_the_scorecard_is_its_plaintext_twin_s_within_the_host_s_noise(job, flow_address):
    """The twin has the same bins, the flipped labels and noise of its own, and no cryptography."""
    bins = [bins_at(flow_address, job, role)[1] for role in TRAIN]
    outputs = task_output_data(flow_address, job.job_id, "guest", PARTIES.guest, "dp_binning_0")
    ids = TRAIN["guest"]["id"]
    flipped = outputs["train_output_data"].set_index("id").loc[ids, "y"].astype(float).to_numpy()
    assert (flipped != TRAIN["guest"]["y"]).any()
    parts = [table[list(of_party.names)].to_numpy(dtype=float) for table, of_party in zip(TRAIN.values(), bins)]
    tables = tables_of(bins, (0.0, noise_multiplier_for(HOST_EPSILON, 1e-6)))
    streams = [ReproducibleStream(f"draw {draw}".encode()) for draw in range(DRAWS)]
    draws = [solve(*noisy_sums(tables, bins, parts, flipped, each), tables.required_ridge()) for each in streams]
    model = task_output_model(flow_address, job.job_id, "guest", PARTIES.guest, "dp_scorecard_0")["output_model"]
    card = model["data"]["scorecard"]
    columns = [*card["columns"], *card["hosts"][f"host {PARTIES.host}"]]
    found = np.concatenate([column["weights"] for column in columns])
    distances = (found - np.mean(draws, axis=0)) / np.std(draws, axis=0)
    assert np.abs(distances).max() < 7 and np.sqrt((distances**2).mean()) > 0.2
