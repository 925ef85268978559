"""The check of public files says what is missing, damaged or another edition, in one sentence each."""

import gzip

import numpy as np
import pytest

from bench import data_files
from bench.data_files import content_of, main, state_of

WANTED = "3 and 2 pictures of 4 x 4 bytes"


@pytest.fixture
def pictures(tmp_path):
    def write(name, first=0, save=np.savez):
        arrays = {"x_train": np.full((3, 4, 4), first), "y_train": np.arange(3), "x_test": np.zeros((2, 4, 4))}
        save(tmp_path / name, **{key: array.astype(np.uint8) for key, array in arrays.items()}, y_test=np.uint8([1, 2]))
        return tmp_path / name

    return write


def test_content_does_not_depend_on_how_a_file_was_packed(pictures, tmp_path):
    holds, digest = content_of(pictures("plain.npz"))
    assert (holds, digest) == content_of(pictures("packed.npz", save=np.savez_compressed)) and holds == WANTED
    assert content_of(pictures("other.npz", first=1)) != (holds, digest)
    for name, level in (("fast.csv.gz", 1), ("small.csv.gz", 9)):
        (tmp_path / name).write_bytes(gzip.compress(b"id,x\n1,2\n3,4\n", level))
    fast, small = (content_of(tmp_path / name) for name in ("fast.csv.gz", "small.csv.gz"))
    assert fast == small and fast[0] == "2 columns, 2 rows"


def test_each_fault_has_a_sentence(pictures, tmp_path):
    good = pictures("good.npz")
    _, digest = content_of(good)
    assert state_of(good, WANTED, digest[:16]).startswith("as it has to be: 3 and 2 pictures")
    assert state_of(good, WANTED, None).startswith("as it has to be")
    assert "the digest of its content begins with" in state_of(pictures("bad.npz", first=1), WANTED, digest[:16])
    assert state_of(good, "60,000 and", None) == f"holds {WANTED}, and 60,000 and are wanted"
    assert (
        state_of(tmp_path / "none.npz", WANTED, None) == f"not in {tmp_path}; bench/README.md says where it comes from"
    )
    for name in ("broken.npz", "broken.zip", "broken.csv.gz"):
        (tmp_path / name).write_bytes(b"nothing of the kind")
        assert "fetch it again" in state_of(tmp_path / name, WANTED, None)


def test_every_file_is_told_and_counted(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(data_files, "FOLDER", tmp_path)
    main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(data_files.EXPECTED) + 1
    assert lines[-1] == '{"bench": "data-files", "figures": {"files": 7, "ready": 0}}'
