"""A job on a table with canaries is audited: the guest gets a certificate of its flips, the host one that is void."""

import json

import pandas as pd
import pytest

from fate_dp.deploy.flow.home import open_home
from fate_dp.pipelines.cli.main import main
from fate_dp.pipelines.jobs.job import run_job
from fate_dp.pipelines.jobs.party_ledgers import declare

from .loans import NAMESPACE, PARTIES, flipped_pipeline, loans, upload

pytestmark = pytest.mark.end_to_end

SOURCE = f"{NAMESPACE}/audited_guest/y"


def certificate(home, folder, job, party):
    """Of the only line that the job used at a party, or of none."""
    status = main(["audit", job, "--party", party, "--home", str(home), "--out", str(folder)])
    (file,) = folder.glob(f"{job}-party-{party}-*.json")
    return status, file, json.loads(file.read_text(encoding="utf-8"))


def test_a_job_with_label_flips_is_audited_by_the_canaries_of_its_table(flow_address, flow_home, tmp_path):
    # Ids of their own: other tests hold out records of loans whose flips must not have been released.
    guest, host = (table.assign(id="audited " + table["id"]) for table in loans(200, seed=41))
    plain, planted = tmp_path / "guest.csv", tmp_path / "with_canaries.csv"
    guest.to_csv(plain, index=False)
    command = ["canaries", str(plain), SOURCE, "--count", "150", "--out", str(planted)]
    assert main([*command, "--party", PARTIES.guest, "--home", str(flow_home)]) == 0
    upload(flow_address, flow_home, tmp_path, "audited_guest", pd.read_csv(planted))
    upload(flow_address, flow_home, tmp_path, "audited_host", host)
    declare(open_home(flow_home).parties, PARTIES.guest, SOURCE, cap=2.0)
    pipeline, _ = flipped_pipeline("audited_guest", "audited_host")
    job = run_job(pipeline, flow_address, home=flow_home).job_id
    status, file, found = certificate(flow_home, tmp_path / "out", job, PARTIES.guest)
    assert status == 0 and found["verdict"] == "consistent", found["reason"]
    assert found["claim"]["epsilon"] == 1.0 and found["claim"]["delta"] == 0
    assert found["evidence"]["canaries"] == 150 > found["evidence"]["correct"] > 75
    assert main(["audit", "--verify", str(file)]) == 0
    status, _, at_host = certificate(flow_home, tmp_path / "out", job, PARTIES.host)
    assert status == 0 and at_host["verdict"] == "void"
