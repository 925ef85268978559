"""Where a study puts its tables on a FATE-Flow that others use, too."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from flow_double import flow_double
from prep_loans import raw_file
from recorded_job import GUEST, JOB, Recorded, homes

from examples.credit_risk import flow
from examples.credit_risk.flow import FlowPlace, job_page, run_split
from examples.credit_risk.homo_lr import HomoLRSettings
from fate_dp.data_prep.lending_club.cleaning import clean
from fate_dp.data_prep.lending_club.options import PrepOptions
from fate_dp.data_prep.lending_club.preparation import divide
from fate_dp.deploy.flow.client import FlowAddress
from fate_dp.deploy.flow.home import open_home
from fate_dp.pipelines.jobs import upload
from fate_dp.privacy.private_files import HOME_VARIABLE

OPTIONS = PrepOptions(units="public", over_sampling="none")


@pytest.fixture
def run(monkeypatch, tmp_path):
    """A function that sends a split to a FATE-Flow which only takes notes: namespaces of the uploads, and the job's."""
    loans, uploads = clean(raw_file(tmp_path)), []
    monkeypatch.setattr(upload, "upload_table", lambda *arguments, **more: uploads.append(arguments[2]))
    monkeypatch.setattr(flow, "run_federated", lambda address, federation, tables, *more, **rest: tables)

    def run(options, folder="one"):
        uploads.clear()
        place = FlowPlace(FlowAddress("127.0.0.1", 1), None, Path(tmp_path / folder), lambda *news: None)
        tables = run_split(place, loans, divide(loans, options), options, HomoLRSettings())
        assert uploads == [tables.namespace] * (len(options.parties) + 1)
        return tables.namespace

    return run


def test_a_study_leaves_the_tables_of_others_alone(run):
    first = run(OPTIONS)
    assert first != upload.NAMESPACE, "those that `fate-dp upload-prepared` makes for the DAG file in conf/"
    assert run(replace(OPTIONS, seed=1)) != first
    assert run(replace(OPTIONS, parties=("9999", "10000"), shares=(50, 50))) != first


def test_the_same_rows_have_the_same_place_wherever_they_were_written(run):
    assert run(OPTIONS, "one") == run(OPTIONS, "two")


@pytest.mark.parametrize("embedded", [True, False])
def test_a_job_of_the_study_gets_the_page_of_its_guest_with_its_ledger(embedded, tmp_path, monkeypatch):
    home = tmp_path / "home"
    parties = homes(open_home(home).parties if embedded else tmp_path / "operator")
    if not embedded:
        monkeypatch.setenv(HOME_VARIABLE, str(parties))
    with flow_double(Recorded()) as (address, _):
        place = FlowPlace(address, home if embedded else None, tmp_path, lambda *news: None)
        name = job_page(place, JOB, GUEST[1], tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [name, f"job-{JOB}.json"]
    (part,) = json.loads((tmp_path / "out" / f"job-{JOB}.json").read_text())["parts"]
    assert part["parties"] == ["guest 9999"] and len(part["ledger"]["lines"]) == 1
    assert "Who learned what" in (tmp_path / "out" / name).read_text()
