"""label_count and smote in a job on a real FATE-Flow: counts, each party's rows, its ledger, and FATE's HomoLR on them."""

import pytest

from examples.credit_risk.homo_lr import HomoLRSettings
from examples.pipelines import Federation, StudyTables, training_reader
from examples.synthetic_loans import write_synthetic
from fate_dp.data_prep.lending_club.cleaning import clean
from fate_dp.data_prep.lending_club.columns import FEATURES, GROUPS, LABEL
from fate_dp.data_prep.lending_club.options import PrepOptions
from fate_dp.data_prep.lending_club.preparation import divide
from fate_dp.data_prep.lending_club.written import write
from fate_dp.data_prep.over_sampling import SYNTHETIC_PREFIX
from fate_dp.deploy.flow.home import open_home
from fate_dp.pipelines.jobs.job import JobFailed, run_job, task_output_data, task_output_model
from fate_dp.pipelines.jobs.party_ledgers import party_ledger
from fate_dp.pipelines.jobs.ready import new_pipeline
from fate_dp.pipelines.jobs.upload import upload_prepared

pytestmark = pytest.mark.end_to_end

FEDERATION, TABLES = Federation(hosts=("10000",)), StudyTables("smote_test")
PARTIES = {"guest": "9999", "host": "10000"}


@pytest.fixture(scope="module")
def division(flow_address, flow_home, tmp_path_factory):
    """Two institutions with uploaded tables that are not balanced yet."""
    folder = tmp_path_factory.mktemp("smote")
    write_synthetic(folder / "raw.csv.gz", rows=1500)
    options = PrepOptions(units="public", over_sampling="none", parties=("9999", "10000"))
    loans = clean(folder / "raw.csv.gz")
    divided = divide(loans, options)
    write(loans, divided, options, folder / "prepared")
    upload_prepared(flow_address, folder / "prepared", TABLES.namespace, home=flow_home)
    return divided


def over_sampling():
    """The training reader and smote on what it reads."""
    from fate_dp.pipelines.clients import Smote

    reader = training_reader(FEDERATION, TABLES)
    smote = Smote(
        "smote_0",
        runtime_parties=PARTIES,
        dataset="smote_test/host_10000_train",
        groups=[list(group) for group in GROUPS],
        train_data=reader.outputs["output_data"],
    )
    smote.guest.task_parameters(dataset="smote_test/guest_9999_train")
    return reader, smote


@pytest.fixture(scope="module")
def result(flow_address, flow_home, division):
    from fate_client.pipeline.components.fate import HomoLR

    from fate_dp.pipelines.clients import LabelCount

    reader, smote = over_sampling()
    count = LabelCount("label_count_0", runtime_parties=PARTIES, epsilon=2.0, input_data=reader.outputs["output_data"])
    rows = smote.outputs["train_output_data"]
    model = HomoLR("homo_lr_0", train_data=rows, **HomoLRSettings(epochs=1).for_fate())
    pipeline = new_pipeline(FEDERATION).add_tasks([reader, count, smote, model])
    return run_job(pipeline, flow_address, home=flow_home)


@pytest.mark.parametrize("number", [0, 1])
def test_each_party_gets_its_rows_and_synthetic_ones_until_its_classes_are_equal(
    result, division, flow_address, number
):
    party = division.parties[number]
    table = task_output_data(flow_address, result.job_id, party.role, party.party_id, "smote_0")["train_output_data"]
    synthetic = table["id"].str.startswith(SYNTHETIC_PREFIX)
    assert set(table["id"][~synthetic]) == set(party.original.frame["id"])
    assert (table[LABEL][synthetic].astype(int) == 0).all()
    assert table[LABEL].astype(int).value_counts().to_dict() == dict.fromkeys((0, 1), party.rows_before["Fully Paid"])
    for group in GROUPS:
        assert (table.loc[synthetic, list(group)].astype(float).sum(axis=1) == 1).all()
    assert set(FEATURES) < set(table)


def test_each_ledger_says_what_became_of_the_records(result, flow_home):
    for party_id, dataset in (("9999", "smote_test/guest_9999_train"), ("10000", "smote_test/host_10000_train")):
        (line,) = [
            entry for entry in party_ledger(open_home(flow_home).parties, party_id) if entry["source"] == dataset
        ]
        assert (line["unit"], line["epsilon"], line["counted"]) == ("record", "infinity", False)
        assert line["mechanism"] == "over-sampling" and line["jobs"] == [result.job_id]


def test_all_parties_hold_the_same_noisy_counts(result, division, flow_address):
    documents = [
        task_output_model(flow_address, result.job_id, role, party_id, "label_count_0")["output_model"]
        for role, party_id in PARTIES.items()
    ]
    assert documents[0] == documents[1]
    # Noise of scale 1/2: beyond 20 once in 10^17 draws.
    for party, counts in zip(division.parties, documents[0]["counts"].values()):
        labels = party.original.frame[LABEL].astype(int)
        assert all(abs(got - true) < 20 for got, true in zip(counts, ((labels == 0).sum(), (labels == 1).sum(), 0)))


def test_each_ledger_is_charged_once_for_the_counts_of_its_own_table(result, flow_home):
    for party_id in PARTIES.values():
        lines = party_ledger(open_home(flow_home).parties, party_id)
        lines = [each for each in lines if result.job_id in each["jobs"] and each["mechanism"] == "PureDP"]
        line, of_labels = sorted(lines, key=lambda each: each["unit"], reverse=True)
        assert (line["unit"], of_labels["unit"], line["jobs"]) == ("record", "label", [result.job_id])
        # The scale is rounded up to a grid, so that a little less is spent.
        assert 1.99 < float(line["epsilon"]) <= 2


def test_testing_on_over_sampled_rows_is_refused_before_anything_is_submitted(division, flow_address, flow_home):
    from fate_client.pipeline.components.fate import HomoLR

    reader, smote = over_sampling()
    rows = smote.outputs["train_output_data"]
    model = HomoLR("homo_lr_0", train_data=rows, validate_data=rows, **HomoLRSettings(epochs=1).for_fate())
    with pytest.raises(JobFailed, match="models are tested on real rows only") as refusal:
        run_job(new_pipeline(FEDERATION).add_tasks([reader, smote, model]), flow_address, home=flow_home)
    assert refusal.value.job_id is None
