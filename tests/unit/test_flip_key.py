"""The secret key file, and the flips and tags derived from it."""

import hmac
import multiprocessing
import os
import stat

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_dp.privacy import UnsafeKeyFile, private_files
from fate_dp.privacy.labels import flips as label_flips
from fate_dp.privacy.labels.flips import canonical_label, flip_labels, label_tags, record_tags
from fate_dp.privacy.private_files import key_id, load_or_create_key
from fate_dp.privacy.validation import InvalidArgument

KEY = bytes(range(32))
SOURCE = "experiment/breast_guest/y"
IDS = [f"record-{i}" for i in range(400)]
LABELS = np.arange(400) % 2
# floor(2^64 e / (e + 2)), computed with 60 digits
KEEP_BELOW = 10627480729818066791
FORK = multiprocessing.get_context("fork")


# --- the key file ---


def test_key_is_made_once_and_private(tmp_path):
    path = tmp_path / "home" / "keys" / "label.key"
    key = load_or_create_key(path)
    assert len(key) == 32 and load_or_create_key(str(path)) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert os.listdir(path.parent) == ["label.key"]


def test_two_parties_have_different_keys(tmp_path):
    assert load_or_create_key(tmp_path / "a") != load_or_create_key(tmp_path / "b")


def test_processes_that_start_together_agree(tmp_path):
    def load(start, queue):
        start.wait()
        queue.put(load_or_create_key(tmp_path / "home" / "key"))

    start, queue = FORK.Barrier(6), FORK.Queue()
    processes = [FORK.Process(target=load, args=(start, queue)) for _ in range(6)]
    for process in processes:
        process.start()
    keys = {queue.get(timeout=600) for _ in processes}
    for process in processes:
        process.join()
    assert keys == {(tmp_path / "home" / "key").read_bytes()}


@pytest.mark.parametrize("owner, killed_in", [(os, "fsync"), (os, "link"), (private_files, "sync")])
def test_a_killed_process_leaves_a_whole_key_or_none(tmp_path, monkeypatch, owner, killed_in):
    path = tmp_path / "key"

    def die(*_):
        os._exit(9)

    def create():
        monkeypatch.setattr(owner, killed_in, die)
        load_or_create_key(path)

    process = FORK.Process(target=create)
    process.start()
    process.join()
    assert process.exitcode == 9
    assert not path.exists() or len(path.read_bytes()) == 32
    assert len(load_or_create_key(path)) == 32


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o644, 0o610])
def test_key_open_to_others_is_refused(tmp_path, mode):
    path = tmp_path / "key"
    load_or_create_key(path)
    path.chmod(mode)
    with pytest.raises(UnsafeKeyFile, match=f"must be 0600, got {mode:04o}. Run chmod 600"):
        load_or_create_key(path)


@pytest.mark.parametrize("length", [0, 31, 33])
def test_key_of_wrong_length_is_refused(tmp_path, length):
    path = tmp_path / "key"
    path.touch(mode=0o600)
    path.write_bytes(b"k" * length)
    with pytest.raises(UnsafeKeyFile, match=f"must be 32 bytes, got {length}"):
        load_or_create_key(path)


@pytest.mark.parametrize("target_exists", [True, False])
def test_symbolic_link_is_refused(tmp_path, target_exists):
    if target_exists:
        load_or_create_key(tmp_path / "real")
    (tmp_path / "key").symlink_to(tmp_path / "real")
    with pytest.raises(UnsafeKeyFile, match="symbolic link"):
        load_or_create_key(tmp_path / "key")
    assert (tmp_path / "real").exists() == target_exists


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_other_kinds_of_file_are_refused(tmp_path, make):
    make(tmp_path / "key")
    with pytest.raises(UnsafeKeyFile, match="must be a regular file"):
        load_or_create_key(tmp_path / "key")


def test_key_of_another_user_is_refused(tmp_path, monkeypatch):
    load_or_create_key(tmp_path / "key")
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(UnsafeKeyFile, match=f"must be user {owner + 1}, got {owner}"):
        load_or_create_key(tmp_path / "key")


def test_key_id_identifies_without_revealing():
    assert key_id(KEY) == key_id(bytes(range(32))) != key_id(bytes(32))
    assert len(key_id(KEY)) == 16 and key_id(KEY) not in KEY.hex()


# --- flips ---


def flips(ids=IDS, labels=LABELS, epsilon=1, classes=2, key=KEY, source=SOURCE):
    return flip_labels(ids, labels, epsilon, classes, key, source)


def test_training_twice_sees_identical_flips():
    """Pitfall 1: a mutant that draws afresh (here: another key) is caught."""
    assert np.array_equal(flips(), flips())
    assert not np.array_equal(flips(), flips(key=os.urandom(32)))


def test_flip_is_the_documented_prf():
    def encode(*parts):
        return b"".join(len(part).to_bytes(8, "big") + part.encode() for part in parts)

    def reference(match_id, label, threshold):
        message = encode("label flip", SOURCE, "1.0", "3", match_id)
        draw = hmac.new(KEY, message, "sha256").digest()
        if int.from_bytes(draw[:8], "big") < threshold:
            return label
        return (label + 1 + int.from_bytes(draw[8:24], "big") * 2 // 2**128) % 3

    expected = [reference(match_id, i % 3, KEEP_BELOW) for i, match_id in enumerate(IDS)]
    assert flips(labels=np.arange(400) % 3, classes=3).tolist() == expected


@pytest.mark.parametrize(
    "epsilon, draw, kept",
    [(1, 0, True), (1, KEEP_BELOW - 1, True), (1, KEEP_BELOW, False), (99, 2**64 - 2, True), (99, 2**64 - 1, False)],
)
def test_keep_threshold_is_exact_to_64_bits(monkeypatch, epsilon, draw, kept):
    """Rounded down, so that even at a huge epsilon a flip stays possible and epsilon is never exceeded."""
    monkeypatch.setattr(label_flips.hmac, "digest", lambda *_: draw.to_bytes(8, "big") + bytes(24))
    assert (flips(["a"], [2], epsilon, 3)[0] == 2) == kept


@pytest.mark.parametrize("epsilon", [1, np.int64(1), np.float64(1), np.float32(1)])
def test_equal_epsilons_of_any_type_give_equal_flips(epsilon):
    assert np.array_equal(flips(epsilon=epsilon), flips(epsilon=1.0))


@pytest.mark.parametrize("changed", [{"key": b"x" * 32}, {"source": "a/b/y"}, {"epsilon": 1.5}, {"classes": 3}])
def test_every_input_changes_the_draws(changed):
    assert not np.array_equal(flips(**changed), flips())


def test_parts_of_the_input_cannot_be_shifted():
    ids = [f"{i}" for i in range(64)]
    longer = [f"y{i}" for i in range(64)]
    assert not np.array_equal(flips(longer, LABELS[:64], source="a/b/"), flips(ids, LABELS[:64], source="a/b/y"))


@given(st.lists(st.integers(0, 399), unique=True), st.floats(0.1, 5), st.integers(2, 5))
def test_flips_of_any_selection_are_the_selected_flips(chosen, epsilon, classes):
    """Subsets and permutations keep their flips, hence so do partitions, halves and added rows."""
    labels = np.arange(400) % classes
    whole = flips(labels=labels, epsilon=epsilon, classes=classes)
    part = flips([IDS[i] for i in chosen], labels[chosen], epsilon, classes)
    assert np.array_equal(part, whole[chosen])


def test_integer_and_text_ids_agree():
    numbers = list(range(400))
    assert np.array_equal(flips(numbers), flips([str(i) for i in numbers]))
    assert np.array_equal(flips(np.arange(400)), flips(numbers))


@given(st.floats(1e-3, 1e4), st.integers(2, 50))
def test_flips_are_classes(epsilon, classes):
    result = flips(IDS[:50], np.arange(50) % classes, epsilon, classes)
    assert result.dtype == np.int64 and result.min() >= 0 and result.max() < classes


def test_numpy_class_count_does_not_overflow():
    assert np.array_equal(flips(classes=np.int64(3)), flips(classes=3))


def test_empty_partition():
    assert flips([], []).shape == (0,) and record_tags([], KEY, SOURCE) == []


@pytest.mark.parametrize(
    "changed, error",
    [
        ({"epsilon": 0}, InvalidArgument),
        ({"epsilon": "2"}, InvalidArgument),
        ({"classes": 1}, InvalidArgument),
        ({"labels": [0, 2]}, InvalidArgument),
        ({"labels": [0, -1]}, InvalidArgument),
        ({"labels": [0.0, 1.0]}, InvalidArgument),
        ({"ids": ["a", 1.5]}, InvalidArgument),
        ({"ids": ["a", None]}, InvalidArgument),
        ({"ids": ["a", True]}, InvalidArgument),
        ({"ids": ["a"]}, ValueError),
    ],
)
def test_bad_input_is_refused(changed, error):
    with pytest.raises(error):
        flips(**{"ids": ["a", "b"], "labels": [0, 1], **changed})


# --- tags ---


def test_record_tags_depend_on_key_source_and_id_alone():
    tags = record_tags(IDS, KEY, SOURCE)
    assert len(set(tags)) == len(IDS) and {len(tag) for tag in tags} == {16}
    assert tags == record_tags(IDS, KEY, SOURCE)
    assert not set(tags) & set(record_tags(IDS, b"x" * 32, SOURCE))
    assert not set(tags) & set(record_tags(IDS, KEY, "a/b/y"))
    assert record_tags([7], KEY, SOURCE) == record_tags(["7"], KEY, SOURCE)


def test_label_tags_show_a_change_but_not_equal_labels():
    tags = label_tags(IDS, ["1"] * 400, KEY, SOURCE)
    assert len(set(tags)) == 400 and not set(tags) & set(record_tags(IDS, KEY, SOURCE))
    assert tags == label_tags(IDS, [1.0] * 400, KEY, SOURCE)
    assert not set(tags) & set(label_tags(IDS, ["0"] * 400, KEY, SOURCE))


@pytest.mark.parametrize("value", [1, 1.0, "1", "1.0", " 1 ", np.int64(1), np.float32(1), np.str_("1"), True, np.True_])
def test_one_text_per_label(value):
    assert canonical_label(value) == "1"


@pytest.mark.parametrize(
    "value, text",
    [
        (0.1, "0.1"),
        (np.float32(0.1), "0.1"),
        ("0.10", "0.1"),
        (-0.0, "0"),
        ("good", "good"),
        ("1_0", "1_0"),
        (2**60 + 1, str(2**60 + 1)),
        (str(2**60 + 1), str(2**60 + 1)),
        ("-3", "-3"),
    ],
)
def test_canonical_texts(value, text):
    assert canonical_label(value) == text


@pytest.mark.parametrize("value", [None, float("nan"), np.float32("nan"), float("inf"), "", "  ", "NaN", b"1", [1]])
def test_missing_label_is_refused(value):
    with pytest.raises(InvalidArgument, match="^A label (is missing|must be text or a finite number)"):
        canonical_label(value)


def test_no_error_names_a_label():
    with pytest.raises(InvalidArgument) as caught:
        flip_labels(["a"], [7654], 1, 2, KEY, SOURCE)
    assert "7654" not in str(caught.value)
