"""A job whose binning shows the labels is refused, by whoever submits it or by the guest; with label_flip first it runs.

In `make test` tests/protocol/test_label_flip.py has the guest's refusal, `test_attack_views` the job that runs.
"""

import pytest

from fate_dp.deploy.flow.home import open_home
from fate_dp.pipelines.cli.main import main
from fate_dp.pipelines.clients import DPHeteroLR
from fate_dp.pipelines.jobs.flow import connect
from fate_dp.pipelines.jobs.job import JobFailed, Watch, follow_job, run_job
from fate_dp.pipelines.jobs.party_ledgers import declare, party_ledger

from .loans import NAMESPACE, PARTIES, QUICK, flipped_pipeline, loans, upload

pytestmark = pytest.mark.end_to_end

LEAK = "Host 10000 can read every true label of guest 9999 in binning_0"
CURE = "put label_flip before it, directly behind psi_0"


@pytest.fixture(scope="module")
def parties(flow_address, flow_home, tmp_path_factory):
    """The folder of the parties, who have uploaded their tables and declared the labels."""
    for name, table in zip(("checked_guest", "checked_host"), loans(160, seed=23)):
        # Records and columns of their own: no other test's labels are taken for these flips, and no cap holds for both.
        own = table.assign(id="checked-" + table["id"]).rename(
            columns=lambda column: column.replace("x", "a").replace("z", "b")
        )
        upload(flow_address, flow_home, tmp_path_factory.mktemp(name), name, own)
    folder = open_home(flow_home).parties
    declare(folder, PARTIES.guest, f"{NAMESPACE}/checked_guest/y", cap=2.0)
    return folder


def pipeline(flip_first):
    """reader, psi, then binning and label_flip in either order, and a training on flips."""
    from fate_client.pipeline.components.fate import HeteroFeatureBinning

    job, flip = flipped_pipeline(guest="checked_guest", host="checked_host")
    joined = job.tasks["psi_0"].outputs["output_data"]
    before = flip.outputs["output_data"] if flip_first else joined
    binning = HeteroFeatureBinning("binning_0", method="quantile", n_bins=4, train_data=before)
    model = DPHeteroLR("dp_hetero_lr_0", train_data=flip.outputs["output_data"], **QUICK)
    return job.add_tasks([binning, model])


def test_run_job_refuses_a_binning_of_labels_that_were_not_flipped(flow_address, flow_home, parties):
    with pytest.raises(JobFailed) as refused:
        run_job(pipeline(flip_first=False), flow_address, home=flow_home)
    assert str(refused.value).startswith(LEAK) and CURE in str(refused.value)
    assert refused.value.job_id is None and party_ledger(parties, PARTIES.guest) == unchanged(parties)


def unchanged(parties):
    """The guest's ledger without lines of this file's label source."""
    return [line for line in party_ledger(parties, PARTIES.guest) if "checked_guest" not in str(line)]


@pytest.mark.long
def test_the_guests_label_flip_refuses_it_where_it_was_submitted_otherwise(flow_address, flow_home, parties):
    import yaml

    job = pipeline(flip_first=False).compile()
    client = connect(flow_address)
    submitted = client.job.submit(dag_schema=yaml.safe_load(job.get_dag()))["job_id"]
    with pytest.raises(JobFailed) as refused:
        follow_job(client, submitted, "guest", PARTIES.guest, Watch(home=flow_home))
    assert LEAK in str(refused.value) and party_ledger(parties, PARTIES.guest) == unchanged(parties)


@pytest.mark.long
def test_with_label_flip_first_the_same_job_runs(flow_address, flow_home, parties, tmp_path, capsys):
    job = pipeline(flip_first=True)
    result = run_job(job, flow_address, home=flow_home)
    assert {"binning_0", "dp_hetero_lr_0"} <= set(result.seconds_per_task())
    # The finished job's verdict by its id, as its operator asks for it.
    assert main(["check", result.job_id, "--home", str(flow_home)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "binning_0" in shown and "No party can compute every true label" in shown


def test_a_file_of_the_dag_is_checked_without_a_server(tmp_path, capsys):
    path = tmp_path / "job.yaml"
    path.write_text(pipeline(flip_first=False).compile().get_dag())
    assert main(["check", str(path)]) == 1
    assert CURE in " ".join(capsys.readouterr().out.split())
