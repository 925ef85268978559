"""What jobs in conf/ and scripts in examples/ read is what `python -m examples.tables` makes; uploads are doubled here."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml

from examples import tables
from examples.tables import (
    CREDIT_FILES,
    EXAMPLES,
    FOLDERS,
    Destination,
    credit_records,
    main,
    makers_of,
    motors,
    people,
)
from fate_dp.data_prep.over_sampling import SYNTHETIC_PREFIX
from fate_dp.deploy.flow.client import FlowAddress
from fate_dp.pipelines.jobs import upload
from fate_dp.pipelines.jobs.populations import Owner
from fate_dp.pipelines.jobs.upload import check_table
from fate_dp.privacy.ledger.policy import load_policy

EVERY_PARTY = SimpleNamespace(site=SimpleNamespace(info=dict))
"""A FATE-Flow that plays all of them."""
CONF = Path(__file__).parents[2] / "conf"
SCRIPTS = CONF.parent / "examples" / "pipeline"


@pytest.fixture
def uploads(monkeypatch, tmp_path):
    """{namespace/name: (header, rows)} of what was uploaded, each table checked as an upload checks it; and where to."""
    done = {}

    def upload_table(address, csv_file, namespace, name, meta, progress, home, owner=None):
        check_table(csv_file, meta)
        lines = Path(csv_file).read_text().splitlines()
        done[f"{namespace}/{name}"] = lines
        Owner().declare(
            EVERY_PARTY, home, f"{namespace}/{name}", SimpleNamespace(meta=meta, ids=[], written_ids=[], features=[])
        )
        progress("upload", "success", 1.0)

    monkeypatch.setenv("FATE_DP_HOME", str(tmp_path / "parties"))
    for module in (tables, upload):
        monkeypatch.setattr(module, "upload_table", upload_table)
    monkeypatch.setattr(tables, "LOANS", 3000)
    (tmp_path / "made").mkdir()
    return done, Destination(FlowAddress("127.0.0.1", 1), tmp_path / "parties"), tmp_path / "made"


def tables_read_by(name) -> set:
    """namespace/name of every reader of a job's file."""
    sides = yaml.safe_load((CONF / f"{name}.yaml").read_text())["dag"]["party_tasks"].values()
    readers = [
        task["parameters"] for side in sides for name, task in side["tasks"].items() if name.startswith("reader")
    ]
    return {f"{reader['namespace']}/{reader['name']}" for reader in readers}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_tables_of_a_job_are_made_and_its_header_says_how(name, uploads):
    done, destination, folder = uploads
    names = makers_of([name])[0](destination, folder)
    assert tables_read_by(name) <= set(names) == set(done)
    header = (CONF / f"{name}.yaml").read_text().split("dag:")[0].replace("\n#", "")
    assert f"`python -m examples.tables {name}`" in header


def test_every_job_in_conf_is_an_example():
    assert {path.stem for path in CONF.glob("*.yaml")} - {"policy.example"} == set(EXAMPLES)


def test_labels_that_a_job_flips_are_declared(uploads):
    _, destination, folder = uploads
    tables.upload_patients(destination, folder)
    declared = load_policy(destination.parties_folder / "party-9999" / "policy.yaml")
    for name in ("label_private_hetero_lr", "joined_shares_lr"):
        tasks = yaml.safe_load((CONF / f"{name}.yaml").read_text())["dag"]["tasks"]
        assert declared.label_cap(tasks["label_flip_0"]["parameters"]["label_source"]) >= 2


def test_loans_have_no_synthetic_rows_and_the_classes_that_the_job_expects(uploads):
    done, destination, folder = uploads
    tables.upload_loans(destination, folder)
    header, *rows = done["lending_club/guest_9999_train"]
    label = header.split(",").index("loan_status")
    assert not any(row.startswith(SYNTHETIC_PREFIX) for row in rows)
    share = sum(row.split(",")[label] == "0" for row in rows) / len(rows)
    job = yaml.safe_load((CONF / "private_homo_nn.yaml").read_text())
    prior = job["dag"]["tasks"]["dp_homo_nn_0"]["parameters"]["class_weights"]["prior"]
    assert abs(share - prior[0]) < 0.1


def test_people_are_the_same_again_and_differ_between_parties():
    assert people(50, 1).equals(people(50, 1)) and not set(people(50, 1)["id"]) & set(people(50, 2)["id"])


def test_an_unknown_job_is_refused_before_anything_is_made(capsys, tmp_path):
    assert main(["private_homo", "--home", str(tmp_path / "none")]) == 1
    assert "The job must be one of label_private_hetero_lr," in capsys.readouterr().err
    assert makers_of(["joined_shares_lr", "label_private_hetero_lr"]) == [tables.upload_patients]
    assert len(makers_of([])) == 8


def test_a_folder_of_real_tables_that_is_none_is_refused(capsys, tmp_path):
    assert main(["shuffler", "--data", str(tmp_path / "none"), "--home", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err == f"--data {tmp_path / 'none'} is not a folder.\n"


def test_every_folder_of_scripts_has_its_tables():
    assert {path.parent.name for path in SCRIPTS.glob("*/*.py")} == set(FOLDERS)


@pytest.mark.parametrize("folder_of_scripts", FOLDERS)
def test_the_tables_of_scripts_are_made_and_their_labels_declared(folder_of_scripts, uploads):
    done, destination, folder = uploads
    for make in makers_of([folder_of_scripts]):
        make(destination, folder)
    declared = load_policy(destination.parties_folder / "party-9999" / "policy.yaml")
    for script in (SCRIPTS / folder_of_scripts).glob("*.py"):
        text = script.read_text(encoding="utf-8").replace("{namespace}", "").replace("{number + 1}", "1")
        read = re.findall(r'namespace=f"(\w+)",\s+name=f?"(\w+)"', text) + [
            pair[::-1] for pair in re.findall(r'name="(\w+)", namespace=f"(\w+)"', text)
        ]
        assert read and {"/".join(pair) for pair in read} <= set(done), script
        assert all(declared.is_declared(source) for source in re.findall(r'label_source=f"(\S+)"', text))


def test_real_card_holders_are_taken_where_they_lie_and_others_are_of_their_shape(tmp_path):
    guest = pd.DataFrame({"id": [7, 8, 9], "y": [0, 1, 0], **{f"x{number}": [0, 1, number] for number in range(13)}})
    host = pd.DataFrame({"id": [7, 8, 9], **{f"x{number}": [0.25, 2.0, -number] for number in range(10)}})
    for name, table in zip(CREDIT_FILES, (host, guest)):
        table.to_csv(tmp_path / f"{name}.csv.gz", index=False)
    real, invented = credit_records(tmp_path, 2), credit_records(None, 1000)
    assert real["id"].tolist() == ["card-7", "card-8"]
    assert real["x22"].tolist() == [0, 1] and real["x0"].tolist() == [0.25, 2.0]
    assert list(real) == list(invented) and 0.15 < invented["y"].mean() < 0.35
    assert invented["x1"].nunique() == 2 and invented["x22"].nunique() == 1000
    assert np.allclose(invented.filter(like="x").mean(), 0, atol=1e-5) and invented.equals(credit_records(None, 1000))


def test_motors_keep_within_the_bounds_that_their_script_names():
    assert (
        motors(800, 1)["motor_speed"].abs().max() <= 2
        and "bounds=[-2.0, 2.0]" in (SCRIPTS / "dp_hetero_lr" / "test_regression.py").read_text()
    )
