"""The split of the breast-cancer data between guest and host."""

import hashlib
import json

import numpy
import pytest

from fate_dp.data_prep.breast_cancer import Split, load_patients, party_tables, write_tables


@pytest.fixture(scope="module")
def tables():
    return party_tables()


def test_each_side_has_its_columns(tables):
    for part in ("train", "test"):
        guest, host = tables[f"guest_{part}"], tables[f"host_{part}"]
        assert list(guest.columns[:3]) == ["id", "y", "mean_radius"] and len(guest.columns) == 12
        assert list(host.columns[:2]) == ["id", "radius_error"] and len(host.columns) == 21
        assert not set(guest.columns[1:]) & set(host.columns[1:])


def test_held_out_rows_are_in_no_training_table(tables):
    train = set(tables["guest_train"]["id"]) | set(tables["host_train"]["id"])
    test = set(tables["guest_test"]["id"]) | set(tables["host_test"]["id"])
    assert not train & test
    assert abs(len(test) / (len(train) + len(test)) - 0.25) < 0.01


def test_about_five_percent_are_missing_on_each_side_independently(tables):
    for part, whole in (("train", 426), ("test", 143)):
        ids = [set(tables[f"{side}_{part}"]["id"]) for side in ("guest", "host")]
        for held in ids:
            assert abs(len(held) / whole - 0.95) < 0.005
        assert ids[0] - ids[1] and ids[1] - ids[0]
        assert len(ids[0] & ids[1]) > 0.88 * whole


def test_ids_are_unique_and_in_another_order_on_each_side(tables):
    for part in ("train", "test"):
        guest, host = list(tables[f"guest_{part}"]["id"]), list(tables[f"host_{part}"]["id"])
        common = set(guest) & set(host)
        assert len(set(guest)) == len(guest) and len(set(host)) == len(host)
        orders = [[identity for identity in side if identity in common] for side in (guest, host)]
        assert orders[0] != orders[1] and sorted(orders[0]) != orders[0]


def test_standardised_with_the_training_part_of_the_same_party(tables):
    originals = load_patients().set_index("id")
    for side in ("guest", "host"):
        train, test = (
            tables[f"{side}_{part}"].set_index("id").drop(columns="y", errors="ignore") for part in ("train", "test")
        )
        assert numpy.allclose(train.mean(), 0, atol=1e-9) and numpy.allclose(train.std(ddof=0), 1)
        known = originals.loc[train.index, train.columns]
        expected = (originals.loc[test.index, test.columns] - known.mean()) / known.std(ddof=0)
        assert numpy.allclose(test, expected)


def test_labels_are_stratified_and_belong_to_their_patients(tables):
    labels = load_patients().set_index("id")["y"]
    for part in ("train", "test"):
        guest = tables[f"guest_{part}"].set_index("id")["y"]
        assert (guest == labels.loc[guest.index]).all()
        assert abs(guest.mean() - labels.mean()) < 0.02


def test_files_are_reproducible_from_the_seed(tmp_path):
    first, again = write_tables(tmp_path / "a"), write_tables(tmp_path / "b")
    other = write_tables(tmp_path / "c", Split(seed=7))
    assert first == again and first["files"] != other["files"]
    assert first == json.loads((tmp_path / "a" / "manifest.json").read_text())
    for name, entry in first["files"].items():
        assert hashlib.sha256((tmp_path / "a" / name).read_bytes()).hexdigest() == entry["sha256"]
    assert first["files"]["public/guest_train.csv"] == first["files"]["guest_train.csv"]
