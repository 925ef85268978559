"""The credit study on a real FATE-Flow, of few generated loans: three private jobs, their ledgers, the report, and a run that goes on."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fate_dp.data_prep.lending_club.synthetic import write_synthetic
from fate_dp.pipelines.lending_club import private_jobs, private_study
from fate_dp.pipelines.lending_club import result as credit_result
from fate_dp.pipelines.lending_club.private_jobs import COLUMNS, HORIZONTAL, ROWS, SECURE_SUM, SMOTENC
from fate_dp.pipelines.lending_club.private_study import PrivateStudy
from fate_dp.pipelines.lending_club.result import Study, write_credit_study
from fate_dp.pipelines.lending_club.study import Workplace, run_credit_study
from tests.unit.json_schema import violations

pytestmark = pytest.mark.end_to_end

KINDS = ("homo_secure_sum", SMOTENC, "label_noise_regression")
EPSILON = 4.0
SCHEMA = Path(credit_result.__file__).with_name("credit_result_schema.json")


@pytest.fixture(scope="module")
def outcome(flow_address, flow_home, tmp_path_factory):
    """The results of a run and of the same run again, the folder, and the jobs that the second one ran."""
    folder, ran = tmp_path_factory.mktemp("study"), []
    # Training by columns wants more rows than 40 times its features.
    write_synthetic(folder / "loans.csv.gz", 12_000, 5)
    private = PrivateStudy(seeds=(5,), parts=(ROWS, COLUMNS), epsilons=(EPSILON,), kinds=KINDS)
    study = Study(folder / "loans.csv.gz", True, seeds=(5,), flow_seeds=(), private=private, compared=False)
    place = Workplace(folder, lambda: (flow_address, flow_home))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(private_jobs.HORIZONTAL, SECURE_SUM, replace(HORIZONTAL[SECURE_SUM], rounds=5))
        first = run_credit_study(study, place)
        patch.setattr(private_study, "run_study_job", lambda job, splits: ran.append(job.name))
        again = run_credit_study(study, place)
    write_credit_study(first, folder)
    return first, again, folder, ran


def test_the_result_follows_its_schema_and_the_report_links_its_jobs(outcome):
    result, _, folder, _ = outcome
    assert list(violations(json.loads((folder / "result.json").read_text()), json.loads(SCHEMA.read_text()))) == []
    page = (folder / "report.html").read_text()
    for job in result["private"]["jobs"]:
        assert f'href="{job["page"]}"' in page and (folder / job["page"]).is_file()


def test_every_model_scored_the_held_out_loans(outcome):
    models = {(model["kind"], model["epsilon"]): model["measures"] for model in outcome[0]["private"]["models"]}
    assert set(models) == {("homo_secure_sum", EPSILON), (SMOTENC, None), ("label_noise_regression", EPSILON)}
    # Better than chance, and not better than what is known at application time allows.
    assert all(0.55 < measures["auc"]["mean"] < 0.75 for measures in models.values())
    # Over-sampled loans teach to recognise those that are charged off.
    assert models[SMOTENC, None]["specificity"]["mean"] > 0.4


def test_the_ledgers_say_what_each_job_cost(outcome):
    private = outcome[0]["private"]
    names = {job["job_id"]: job["name"] for job in private["jobs"]}
    found = {}
    for line in private["ledger"]:
        found.setdefault(names[line["job_id"]], []).append(line)
    for line in found["homo_secure_sum"]:
        assert line["unit"] == "record" and 0.9 * EPSILON < line["epsilon"] <= EPSILON
    assert {line["party"] for line in found["homo_secure_sum"]} == {"guest 9999", "host 10000", "host 9998"}
    assert {line["epsilon"] for line in found[SMOTENC]} == {"infinity"}
    (label,) = (line for line in found["label_noise_regression"] if line["mechanism"] == "Gaussian")
    assert label["party"] == "guest 9999" and label["unit"] == "label" and label["epsilon"] <= EPSILON * 1.01


def test_a_second_run_takes_all_jobs_over(outcome):
    first, again, _, ran = outcome
    assert ran == [] and again["private"] == first["private"]
