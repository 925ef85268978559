"""A prepared folder is uploaded whole, under names that a job can count on, or not at all."""

import shutil

import pytest
from prep_loans import raw_file

from fate_dp.data_prep.lending_club.cleaning import clean
from fate_dp.data_prep.lending_club.options import PrepOptions
from fate_dp.data_prep.lending_club.preparation import divide
from fate_dp.data_prep.lending_club.written import write
from fate_dp.deploy.flow.client import FlowAddress
from fate_dp.pipelines.jobs import upload as module
from fate_dp.pipelines.jobs.upload import TableMeta, check_table, upload_prepared
from fate_dp.privacy.validation import InvalidArgument

ADDRESS = FlowAddress("127.0.0.1", 1)
HORIZONTAL, VERTICAL = PrepOptions(), PrepOptions(split="vertical", over_sampling="none")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    loans = clean(raw_file(folder))
    for options in (HORIZONTAL, VERTICAL):
        write(loans, divide(loans, options), options, folder / options.split)
    return folder


@pytest.fixture
def uploads(monkeypatch):
    done = []

    def upload_table(address, csv_file, namespace, name, meta, progress, home, owner):
        check_table(csv_file, meta)
        progress("upload", "success", 1.5)
        done.append((address, str(csv_file), namespace, name, meta, home, owner.party))

    monkeypatch.setattr(module, "upload_table", upload_table)
    return done


def test_parties_and_test_rows_are_uploaded_under_their_names(folders, uploads, tmp_path):
    told, folder = [], folders / "horizontal"
    names = upload_prepared(ADDRESS, folder, progress=lambda *news: told.append(news), home=tmp_path)
    tables = {
        "guest_9999/train.csv": "guest_9999_train",
        "host_10000/train.csv": "host_10000_train",
        "host_9998/train.csv": "host_9998_train",
        "test.csv": "test",
    }
    assert names == tables
    meta = TableMeta("id", "loan_status")
    parties = ("9999", "10000", "9998", None)
    assert uploads == [
        (ADDRESS, f"{folder}/{path}", "lending_club", name, meta, tmp_path, party)
        for (path, name), party in zip(tables.items(), parties)
    ]
    assert told == [(name, "upload", "success", 1.5) for name in tables.values()]


def test_a_host_of_a_vertical_split_has_no_label(folders, uploads):
    upload_prepared(ADDRESS, folders / "vertical", "bank")
    assert {(namespace, name): meta.label_name for _, _, namespace, name, meta, *_ in uploads} == {
        ("bank", "guest_9999_train"): "loan_status",
        ("bank", "host_10000_train"): None,
        ("bank", "guest_9999_test"): "loan_status",
        ("bank", "host_10000_test"): None,
    }


@pytest.mark.parametrize("name", ["test.csv", "loans.csv", "guest_9999/train.csv"])
def test_nothing_is_uploaded_from_a_folder_with_a_changed_file(folders, uploads, tmp_path, name):
    folder = tmp_path / "folder"
    shutil.copytree(folders / "horizontal", folder)
    with (folder / name).open("a") as file:
        file.write(" ")
    with pytest.raises(InvalidArgument) as refusal:
        upload_prepared(ADDRESS, folder)
    assert str(refusal.value) == f"{folder}/{name} was changed after it was written; prepare the loans again."
    assert not uploads


def test_a_folder_that_is_no_preparation_is_refused(uploads, tmp_path):
    with pytest.raises(InvalidArgument) as refusal:
        upload_prepared(ADDRESS, tmp_path)
    assert str(refusal.value) == (
        f"{tmp_path} has no readable manifest.json; make one with `fate-dp prep lending-club`."
    )
    assert not uploads
