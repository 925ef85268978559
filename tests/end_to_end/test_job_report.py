"""Reports of jobs that really ran: each party's own, both joined, and one of a job that was refused."""

import json

import pytest

from fate_dp.deploy.flow.home import open_home
from fate_dp.pipelines.cli.main import main
from fate_dp.pipelines.clients import DPHeteroLR
from fate_dp.pipelines.jobs.flow import connect
from fate_dp.pipelines.jobs.job import JobFailed, run_job
from fate_dp.pipelines.jobs.party_ledgers import declare, party_ledger

from .loans import NAMESPACE, PARTIES, QUICK, evaluated, flipped_pipeline, loans, upload

pytestmark = pytest.mark.end_to_end

GUEST, HOST = PARTIES.guest, PARTIES.host
NEEDED = {"psi", "label_flip", "dp_hetero_lr", "evaluation"}


@pytest.fixture(scope="module")
def tables(flow_address, flow_home, tmp_path_factory):
    """Both sides' tables, uploaded under names of their own."""
    folder = tmp_path_factory.mktemp("reported")
    for name, table in zip(("reported_guest", "reported_host"), loans(80, seed=31)):
        # Of their own too, so that their scores are not counted among those of other tests' models.
        own = table.rename(columns=lambda column: column.replace("x", "q").replace("z", "r"))
        upload(flow_address, flow_home, folder, name, own.assign(id="reported-" + own["id"]))


def new_job():
    pipeline, flip = flipped_pipeline(guest="reported_guest", host="reported_host")
    model = DPHeteroLR(
        "dp_hetero_lr_0", train_data=flip.outputs["output_data"], train_scores=True, flipback={"mode": "none"}, **QUICK
    )
    return pipeline, model


@pytest.fixture(scope="module")
def finished(request, flow_address, flow_home):
    """The id of a job of the session with flips, a training and an evaluation; of an own one where there is none."""
    for row in connect(flow_address).job.query(status="success", role="guest", party_id=GUEST).get("data") or []:
        components = {task["component_ref"] for task in row["dag"]["dag"]["tasks"].values()}
        if components >= NEEDED:
            return row["job_id"]
    request.getfixturevalue("tables")
    declare(open_home(flow_home).parties, GUEST, f"{NAMESPACE}/reported_guest/y", cap=2.0)
    pipeline, model = new_job()
    pipeline.add_tasks([model, evaluated(model.outputs["train_output_data"])])
    return run_job(pipeline, flow_address, home=flow_home).job_id


def written(flow_home, folder, *arguments):
    """The document that the command writes."""
    assert main(["report", *arguments, "--home", str(flow_home), "--out", str(folder)]) == 0
    name = "merged" if arguments[0] == "--merge" else f"party-{arguments[2]}"
    assert (folder / f"{name}.html").read_text(encoding="utf-8").rstrip().endswith("</html>")
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def test_guest_and_host_get_their_own_reports_and_an_auditor_both(flow_home, finished, tmp_path):
    guest, host = (written(flow_home, tmp_path, finished, "--party", each) for each in (GUEST, HOST))
    assert guest["unknown"] == [] and not any(each["leaks"] for each in guest["learned"])
    (own,) = guest["parts"]
    assert own["status"] == "success" and all(run["seconds"] > 0 for run in own["tasks"])
    assert any(run["losses"] for run in own["tasks"])
    assert {"flips"} <= {figure["on"] for figure in own["figures"]}
    lines = {line["entry_id"]: line for line in own["ledger"]["lines"]}
    kept = {entry["entry_id"]: entry for entry in party_ledger(open_home(flow_home).parties, GUEST)}
    assert lines and all(finished in kept[number]["jobs"] for number in lines)
    assert any(each["mechanism"] == "randomized_response" and each["acts"] == "yes" for each in own["noise"])
    # Numbers of many digits, which nothing else is by chance.
    of_guest = {str(loss) for run in own["tasks"] for loss in run["losses"] if len(str(loss)) > 10}
    assert of_guest and not any(value in json.dumps(host) for value in of_guest)
    assert {party for part in host["parts"] for party in part["parties"]} == {f"host {HOST}"}
    files = [str(tmp_path / f"party-{each}.json") for each in (GUEST, HOST)]
    both = written(flow_home, tmp_path, "--merge", *files)
    assert [part["party_id"] for part in both["parts"]] == [GUEST, HOST]
    assert both["parts"] == [*guest["parts"], *host["parts"]]


def test_a_finished_job_is_checked_by_its_id(flow_home, finished, capsys):
    assert main(["check", finished, "--home", str(flow_home)]) == 0
    assert "No party can compute every true label" in " ".join(capsys.readouterr().out.split())


def test_the_report_of_a_refused_job_says_why_and_shows_nothing_of_what_never_began(
    flow_home, flow_address, tables, tmp_path
):
    pipeline, flip = flipped_pipeline(guest="reported_guest", host="reported_host", source=f"{NAMESPACE}/undeclared/y")
    model = DPHeteroLR("dp_hetero_lr_0", train_data=flip.outputs["output_data"], **QUICK)
    with pytest.raises(JobFailed, match="is not declared") as failed:
        run_job(pipeline.add_tasks([model]), flow_address, home=flow_home)
    assert str(failed.value).startswith(f"guest {GUEST}: ") and "\n" not in str(failed.value)
    for party in (GUEST, HOST):
        found = written(flow_home, tmp_path, failed.value.job_id, "--party", party)
        (part,) = found["parts"]
        assert part["status"] == "failed" and found["never_ran"] == ["dp_hetero_lr_0"]
        assert "dp_hetero_lr_0" not in {each["task"] for each in found["learned"]}
        assert part["ledger"] is None or part["ledger"]["lines"] == []
    guest = json.loads((tmp_path / f"party-{GUEST}.json").read_text(encoding="utf-8"))
    assert any("declared" in run["refusal"] for run in guest["parts"][0]["tasks"])
