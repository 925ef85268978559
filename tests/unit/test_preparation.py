"""Divided loans: test rows apart, each loan at one party, nothing synthetic where it must not be, bytes from a seed."""

import errno
import json
import os
import re
import resource
import shutil
from dataclasses import replace
from pathlib import Path

import numpy
import pandas
import pytest
from prep_loans import contents, raw_file

from fate_dp.data_prep.lending_club import preparation
from fate_dp.data_prep.lending_club import written as manifests
from fate_dp.data_prep.lending_club.cleaning import clean
from fate_dp.data_prep.lending_club.columns import (
    APPLICATION_TIME,
    FEATURES,
    GROUPS,
    ID,
    LABEL,
    NUMERIC,
    PUBLIC_LIMITS,
    PUBLIC_UNITS,
)
from fate_dp.data_prep.lending_club.options import APPLICATION, CREDIT_FILE, PrepOptions
from fate_dp.data_prep.lending_club.preparation import CannotDivide, divide
from fate_dp.data_prep.lending_club.written import sha256_of, verify, write
from fate_dp.data_prep.over_sampling import SYNTHETIC_PREFIX, OverSampling
from fate_dp.pipelines.jobs.upload import TableMeta, check_table
from fate_dp.privacy.validation import InvalidArgument
from tests.real_data import LENDING_CLUB, needs_lending_club

VERTICAL = PrepOptions(split="vertical", over_sampling="none")
ALL_COLUMNS = [ID, *FEATURES, LABEL]


@pytest.fixture(scope="module")
def loans(tmp_path_factory):
    return clean(raw_file(tmp_path_factory.mktemp("raw")))


@pytest.fixture(scope="module")
def division(loans):
    return divide(loans, PrepOptions())


@pytest.fixture(scope="module")
def prepared(loans, division, tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared") / "folder"
    write(loans, division, PrepOptions(), folder)
    return folder


def ids(frame):
    return set(frame[ID])


def read(path):
    return pandas.read_csv(path, dtype={ID: str}, float_precision="round_trip")


def only_paid(loans, charged_off):
    """All the paid loans, and so many of the others."""
    unpaid = loans.frame[LABEL] == 0
    keep = ~unpaid | (unpaid.cumsum() <= charged_off)
    frame, states = (rows[keep].reset_index(drop=True) for rows in (loans.frame, loans.states))
    return replace(loans, frame=frame, states=states)


@pytest.mark.parametrize(
    "settings, sentence",
    [
        ({"seed": -1}, "seed must be a whole number, at least 0, got -1."),
        ({"seed": True}, "seed must be a whole number, at least 0, got True."),
        ({"test_share": 0}, "test_share must be a number between 0 and 1, both excluded, got 0."),
        ({"test_share": 1.0}, "test_share must be a number between 0 and 1, both excluded, got 1.0."),
        ({"test_share": float("nan")}, "test_share must be a number between 0 and 1, both excluded, got nan."),
        ({"most_missing": 1.5}, "most_missing must be a number from 0 to 1, got 1.5."),
        ({"concentration": 0}, "concentration must be a positive number, got 0."),
        ({"neighbours": 0}, "neighbours must be a whole number, at least 1, got 0."),
        (
            {"over_sampling": "adasyn"},
            "over_sampling must be one of smotenc, smotenc_parents, smote, none, got 'adasyn'.",
        ),
        ({"units": "z"}, "units must be one of raw, public, got 'z'."),
        ({"skew": "age"}, "skew must be one of none, label, state, got 'age'."),
        ({"split": "diagonal"}, "split must be one of horizontal, vertical, got 'diagonal'."),
        ({"shares": (0.5, 0.6, 0.1)}, "sum of shares must be 1 or 100, got 1.2 from 0.5/0.6/0.1."),
        ({"shares": (50, 50)}, "shares must be one number for each of the 3 parties, got (50, 50)."),
        ({"shares": (-25, 75, 50)}, "a share must be a finite number greater than 0, got -25."),
        ({"parties": ("1",)}, "parties must be at least two party ids, got ('1',)."),
        ({"parties": "12"}, "parties must be at least two party ids, got '12'."),
        ({"parties": ("1", "2", "1")}, "parties must be ids that differ from each other, got ('1', '2', '1')."),
        (
            {"parties": ("1", "2/..")},
            "a party id must be a text of 1 to 64 letters, digits and underscores, got '2/..'.",
        ),
        (
            {"columns": (("dti",), ("term",))},
            "columns must be left out, since they belong to the split vertical, got (('dti',), ('term',)).",
        ),
    ],
)
def test_options_are_refused_in_one_sentence(settings, sentence):
    with pytest.raises(ValueError) as refusal:
        PrepOptions(**settings)
    assert str(refusal.value) == sentence


@pytest.mark.parametrize(
    "settings, sentence",
    [
        (
            {"over_sampling": "smotenc"},
            "over_sampling must be none for the split vertical, where a synthetic row of one party has no counterpart at "
            "the others, got 'smotenc'.",
        ),
        (
            {"shares": (50, 50)},
            "shares must be left out for the split vertical, where every party holds all rows, got (50, 50).",
        ),
        ({"skew": "label"}, "skew must be none for the split vertical, where every party holds all rows, got 'label'."),
        ({"parties": ("1", "2", "3")}, "columns must be one list of columns for each of the 3 parties, got ()."),
        (
            {"columns": (APPLICATION, (*CREDIT_FILE, "grade"))},
            "a column of a party must be one of "
            f"{', '.join(column for column in NUMERIC[:5])}, home_ownership, annual_inc, verification_status, purpose, dti, "
            "delinq_2yrs, inq_last_6mths, open_acc, pub_rec, revol_bal, revol_util, total_acc, got 'grade'.",
        ),
        (
            {"columns": (APPLICATION, (*CREDIT_FILE, "term"))},
            "columns must be at one party each, got ['term', 'term'].",
        ),
        (
            {"columns": (APPLICATION[1:], CREDIT_FILE)},
            f"columns must be complete, got {(APPLICATION[1:], CREDIT_FILE)}. Give a party loan_amnt.",
        ),
        (
            {"columns": (APPLICATION + CREDIT_FILE, ())},
            f"columns must be one list of columns for each of the 2 parties, got {(APPLICATION + CREDIT_FILE, ())}.",
        ),
    ],
)
def test_options_of_a_vertical_split_are_refused_in_one_sentence(settings, sentence):
    with pytest.raises(InvalidArgument) as refusal:
        PrepOptions(**{"split": "vertical", "over_sampling": "none", **settings})
    assert str(refusal.value) == sentence


def test_defaults_depend_on_the_split_and_the_number_of_parties():
    same = PrepOptions(seed=numpy.int64(2024), shares=(25, 25.0, 50), concentration=1)
    assert json.dumps(vars(same)) == json.dumps(vars(PrepOptions()))
    assert PrepOptions().parties == ("9999", "10000", "9998") and PrepOptions().shares == (25, 25, 50)
    assert PrepOptions(parties=("1", "2")).shares == (0.5, 0.5)
    assert PrepOptions(parties=tuple("1234567")).shares == (1 / 7,) * 7
    assert VERTICAL.parties == ("9999", "10000") and VERTICAL.shares is None
    assert VERTICAL.columns == (APPLICATION, CREDIT_FILE)
    assert replace(PrepOptions(), seed=3) == PrepOptions(seed=3)
    assert replace(VERTICAL, seed=3).columns == VERTICAL.columns


def test_a_class_too_small_for_the_split_is_refused_by_its_name(loans):
    charged_off = loans.frame[LABEL] == 0
    kept = (~charged_off | (charged_off.cumsum() == 1)).to_numpy()
    few = replace(loans, frame=loans.frame[kept].reset_index(drop=True), states=loans.states[kept])
    with pytest.raises(CannotDivide) as refusal:
        divide(few, PrepOptions())
    assert str(refusal.value) == (
        "Only 1 Charged Off loans are left after cleaning, too few to hold out a share of 0.3 for testing and train on "
        "the rest."
    )


def test_every_loan_is_tested_or_trained_on_at_exactly_one_party(loans, division):
    held = [ids(party.original.frame) for party in division.parties] + [ids(division.test)]
    assert sum(map(len, held)) == len(loans.frame) and set.union(*held) == ids(loans.frame)
    assert ids(division.training.frame) == set.union(*held[:-1])
    assert [(party.role, party.party_id) for party in division.parties] == [
        ("guest", "9999"),
        ("host", "10000"),
        ("host", "9998"),
    ]
    sizes = [len(party.original) for party in division.parties]
    for size, share in zip(sizes, (0.25, 0.25, 0.5)):
        assert abs(size - share * sum(sizes)) < 1


def test_synthetic_loans_are_at_parties_only_and_below_the_real_ones(loans, division):
    assert not any(name.startswith(SYNTHETIC_PREFIX) for name in ids(division.test) | ids(loans.frame))
    made = []
    for party in division.parties:
        real = len(party.original)
        assert party.training[ID][:real].tolist() == party.original.frame[ID].tolist()
        synthetic = party.training[ID][real:]
        assert len(synthetic) and synthetic.str.startswith(SYNTHETIC_PREFIX).all()
        paid = int(party.original.frame[LABEL].sum())
        assert party.rows_before == {"Fully Paid": paid, "Charged Off": real - paid}
        assert party.rows_after == dict.fromkeys(party.rows_before, max(party.rows_before.values()))
        assert 0 < party.largest_influence <= 6 * len(synthetic)
        made += synthetic.tolist()
    assert len(made) == len(set(made)), "rows of several parties may meet in one model"


@pytest.mark.parametrize(
    "settings",
    [
        {"over_sampling": "none"},
        {"over_sampling": "smote"},
        {"neighbours": 2},
        {"units": "public"},
        {"skew": "state", "concentration": 50.0},
        {"shares": (20, 30, 50)},
    ],
)
def test_an_option_of_a_later_step_leaves_earlier_draws_alone(loans, division, settings):
    other = divide(loans, PrepOptions(**settings))
    assert other.test[ID].tolist() == division.test[ID].tolist()
    if not {"skew", "shares"} & set(settings):
        for party, before in zip(other.parties, division.parties):
            assert party.original.frame[ID].tolist() == before.original.frame[ID].tolist()


def test_each_party_over_samples_its_own_rows_with_draws_of_its_own(loans, monkeypatch):
    asked, over_sample = [], preparation.over_sample

    def spy(training, over_sampling, *, groups, seed, tag):
        asked.append((over_sampling, groups, seed, tag, len(training)))
        return over_sample(training, over_sampling, groups=groups, seed=seed, tag=tag)

    monkeypatch.setattr(preparation, "over_sample", spy)
    parties = divide(loans, PrepOptions(seed=9, neighbours=3)).parties
    method = OverSampling("smotenc", 3)
    assert asked == [(method, GROUPS, 9, party.party_id, len(party.original)) for party in parties]


def test_the_concentration_matters(loans):
    def largest(concentration):
        options = PrepOptions(skew="state", concentration=concentration, over_sampling="none")
        return max(len(party.original) for party in divide(loans, options).parties)

    assert largest(0.3) != largest(3.0)


def test_without_over_sampling_parties_train_on_their_loans(loans):
    for party in divide(loans, PrepOptions(over_sampling="none")).parties:
        pandas.testing.assert_frame_equal(party.training, party.original.frame.reset_index(drop=True))
        assert party.rows_after == party.rows_before and party.largest_influence == 0


def test_public_units_hold_for_training_and_test_alike(loans, division):
    public = divide(loans, PrepOptions(units="public"))
    pairs = [(public.test, division.test)]
    pairs += [(new.training, old.training) for new, old in zip(public.parties, division.parties)]
    for new, old in pairs:
        for column in NUMERIC:
            centre, spread = PUBLIC_UNITS[column]
            expected = (old[column].clip(*PUBLIC_LIMITS[column]) - centre) / spread
            numpy.testing.assert_array_equal(new[column], expected)
        rest = [column for column in ALL_COLUMNS if column not in NUMERIC]
        pandas.testing.assert_frame_equal(new[rest], old[rest])


def test_a_party_without_one_outcome_is_refused_by_name(loans):
    few = only_paid(loans, 4)
    with pytest.raises(ValueError, match=r"^party (9999|10000|9998) has no Charged Off rows\.$"):
        divide(few, PrepOptions(over_sampling="none"))


def test_fewer_rows_than_neighbours_are_refused_by_name(loans, division):
    party = min(division.parties, key=lambda party: party.rows_before["Charged Off"])
    rows = party.rows_before["Charged Off"]
    with pytest.raises(CannotDivide) as refusal:
        divide(loans, PrepOptions(neighbours=rows))
    assert re.fullmatch(
        rf"neighbours is {rows}, but party \w+ has {rows} Charged Off rows and needs at least {rows + 1} to "
        "interpolate; give fewer neighbours, a larger share or over_sampling none.",
        str(refusal.value),
    )
    assert divide(loans, PrepOptions(neighbours=rows - 1)).parties


def test_a_party_that_gets_no_rows_is_refused(loans):
    with pytest.raises(CannotDivide) as refusal:
        divide(loans, PrepOptions(shares=(0.00001, 0.49999, 0.5)))
    assert str(refusal.value).startswith("party 1 of 3 gets none of the ")
    assert str(refusal.value).endswith("; the parties are 9999, 10000, 9998.")


def test_a_vertical_split_gives_common_ids_and_own_columns(loans, tmp_path):
    division = divide(loans, VERTICAL)
    guest, host = division.parties
    assert guest.training[ID].tolist() == host.training[ID].tolist() == division.training.frame[ID].tolist()
    assert list(host.training) == [ID, *CREDIT_FILE] and list(guest.training)[-1] == LABEL
    assert sorted([*guest.training, *CREDIT_FILE]) == sorted(ALL_COLUMNS)
    written = write(loans, division, VERTICAL, tmp_path / "v")
    names = {entry["table"]: path for path, entry in written["files"].items() if "table" in entry}
    assert names == {
        "guest_9999_train": "guest_9999/train.csv",
        "host_10000_train": "host_10000/train.csv",
        "guest_9999_test": "guest_9999/test.csv",
        "host_10000_test": "host_10000/test.csv",
    }
    assert list(read(tmp_path / "v/host_10000/test.csv")) == list(host.training)
    check_table(tmp_path / "v/guest_9999/test.csv", TableMeta(label_name=LABEL))
    check_table(tmp_path / "v/host_10000/train.csv", TableMeta())


def test_columns_of_a_party_may_be_chosen(loans):
    options = PrepOptions(
        split="vertical",
        over_sampling="none",
        parties=("1", "2", "3"),
        columns=(
            ("term", "loan_amnt"),
            ("purpose", "dti"),
            tuple(
                column for column in APPLICATION + CREDIT_FILE if column not in ("term", "loan_amnt", "purpose", "dti")
            ),
        ),
    )
    first, second, _ = divide(loans, options).parties
    assert list(first.training) == [ID, "loan_amnt", "term", LABEL]
    assert list(second.training) == [ID, "dti", *GROUPS[2]]


def test_files_hold_the_very_numbers(loans, division, prepared):
    pandas.testing.assert_frame_equal(read(prepared / "loans.csv"), loans.frame, check_dtype=False, check_exact=True)
    pandas.testing.assert_frame_equal(read(prepared / "test.csv"), division.test, check_dtype=False, check_exact=True)
    for party in division.parties:
        written = read(prepared / f"{party.role}_{party.party_id}" / "train.csv")
        pandas.testing.assert_frame_equal(written, party.training, check_dtype=False, check_exact=True)


def test_files_hold_the_columns_of_the_study_and_nothing_else(prepared):
    allowed = {ID, LABEL} | APPLICATION_TIME
    tables = sorted(prepared.rglob("*.csv"))
    assert len(tables) == 5
    for path in tables:
        first, second = path.read_text().split("\n")[:2]
        assert first == ",".join(ALL_COLUMNS) and '"' not in path.read_text() and "\r" not in path.read_text()
        for column in first.split(","):
            assert any(column == name or column.startswith(f"{name}_") for name in allowed)
        assert re.fullmatch(r"\d+,\d+,(36|60),.*,[01]", second), "whole numbers have no point"
        check_table(path, TableMeta(label_name=LABEL))


def test_plain_smote_keeps_its_fractions(loans, tmp_path):
    options = PrepOptions(over_sampling="smote")
    division = divide(loans, options)
    write(loans, division, options, tmp_path / "s")
    written = read(tmp_path / "s/guest_9999/train.csv")[list(GROUPS[0])].to_numpy()
    assert ((written > 0) & (written < 1)).any()
    numpy.testing.assert_array_equal(written, division.parties[0].training[list(GROUPS[0])])


def test_the_manifest_tells_what_was_done(loans, division, prepared):
    manifest = verify(prepared)
    assert manifest["schema"] == "fate-dp/prepared/1" and manifest["features"] == list(FEATURES)
    assert manifest["source"] == {"file": "raw.csv", "sha256": loans.sha256}
    assert (
        PrepOptions(
            **{name: tuple(value) if isinstance(value, list) else value for name, value in manifest["options"].items()}
        )
        == PrepOptions()
    )
    assert [step["rows"] for step in manifest["steps"]] == [step.rows for step in loans.steps]
    assert manifest["missing"] == loans.missing and manifest["dropped_columns"] == loans.dropped_columns
    assert "epsilon infinity" in manifest["record_privacy"]
    on_disk = set(contents(prepared)) - {"manifest.json"}
    assert on_disk == set(manifest["files"])
    for name, entry in manifest["files"].items():
        assert entry["sha256"] == sha256_of(prepared / name)
    guest = manifest["files"]["guest_9999/train.csv"]
    assert guest == {
        "table": "guest_9999_train",
        "sha256": guest["sha256"],
        "rows": len(division.parties[0].training),
        "columns": ALL_COLUMNS,
        "role": "guest",
        "party_id": "9999",
        "share": 0.25,
        "before": division.parties[0].rows_before,
        "after": division.parties[0].rows_after,
        "largest_influence": division.parties[0].largest_influence,
    }


def test_public_units_are_in_the_manifest_and_no_warning_where_nothing_was_made(loans, tmp_path):
    options = PrepOptions(units="public", over_sampling="none")
    manifest = write(loans, divide(loans, options), options, tmp_path / "p")
    units = manifest["units"]
    assert units["limits"]["dti"] == [0.0, 40.0] and units["centre_and_spread"]["dti"] == [17.0, 8.0]
    assert manifest == verify(tmp_path / "p")
    assert "infinity" not in manifest["record_privacy"]


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(loans, prepared, tmp_path):
    for seed, folder in ((2024, tmp_path / "again"), (5, tmp_path / "other")):
        options = PrepOptions(seed=seed)
        write(loans, divide(loans, options), options, folder)
    assert contents(tmp_path / "again") == contents(prepared)
    other, first = contents(tmp_path / "other"), contents(prepared)
    assert {name for name in first if first[name] == other[name]} == {"loans.csv"}


def test_progress_reaches_the_whole(loans, division, tmp_path):
    told = []
    write(loans, division, PrepOptions(), tmp_path / "x", progress=lambda text, share: told.append((text, share)))
    assert len(told) == 5 and told[-1] == ("wrote test.csv", 1.0)
    assert [share for _, share in told] == sorted(share for _, share in told)


def test_an_earlier_preparation_is_replaced_and_anything_else_is_kept(loans, division, prepared, tmp_path):
    folder = tmp_path / "folder"
    shutil.copytree(prepared, folder)
    options = PrepOptions(over_sampling="none", parties=("1", "2"))
    write(loans, divide(loans, options), options, folder)
    assert verify(folder)["options"]["parties"] == ["1", "2"] and not (folder / "host_9998").exists()
    (folder / "notes.txt").write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(InvalidArgument) as refusal:
        write(loans, division, PrepOptions(), folder)
    assert str(refusal.value) == (
        f"{folder}/notes.txt is not part of the prepared loans and would be lost; move it away first."
    )
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "x").write_text("mine")
    with pytest.raises(InvalidArgument) as refusal:
        write(loans, division, PrepOptions(), tmp_path / "mine")
    assert str(refusal.value) == (
        f"{tmp_path}/mine holds things other than prepared loans; name a folder that is empty or new."
    )
    assert contents(tmp_path) == {**before, os.path.join("mine", "x"): b"mine"}


@pytest.mark.parametrize("limit", [0, 100, 30_000, "the largest but one byte"])
def test_a_full_disk_leaves_nothing_half_written(loans, division, prepared, tmp_path, limit):
    if isinstance(limit, str):
        limit = (prepared / "loans.csv").stat().st_size - 1
    shutil.copytree(prepared, tmp_path / "old")
    before = contents(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for folder in (tmp_path / "new", tmp_path / "old"):
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            with pytest.raises(InvalidArgument) as refusal:
                write(loans, division, PrepOptions(), folder)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert str(refusal.value) == (
            f"{folder} could not be written: File too large; files of this size are not allowed here."
        )
    assert contents(tmp_path) == before and os.listdir(tmp_path) == ["old"]


def test_a_disk_that_is_full_at_the_end_leaves_nothing_half_written(loans, division, tmp_path, monkeypatch):
    write_text = Path.write_text

    def full(path, *arguments, **options):
        if path.name == "manifest.json":
            raise OSError(errno.ENOSPC, "full")
        return write_text(path, *arguments, **options)

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(InvalidArgument) as refusal:
        write(loans, division, PrepOptions(), tmp_path / "new")
    assert str(refusal.value) == (
        f"{tmp_path}/new could not be written: No space left on device; free some space or choose another disk."
    )
    assert os.listdir(tmp_path) == []


def test_an_interrupt_leaves_nothing_half_written(loans, division, tmp_path):
    def interrupt(text, share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(loans, division, PrepOptions(), tmp_path / "new", interrupt)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("text", ["1,2", '1"2', "1\n2"])
def test_an_id_that_a_line_cannot_hold_is_refused(loans, tmp_path, text):
    frame = loans.frame.copy()
    frame.loc[3, ID] = text
    broken = replace(loans, frame=frame)
    with pytest.raises(InvalidArgument) as refusal:
        write(broken, divide(broken, PrepOptions()), PrepOptions(), tmp_path / "new")
    assert re.fullmatch(
        r"An id in (loans|test|train)\.csv has a comma, a quote or a line break; FATE cannot read such an id\.",
        str(refusal.value),
    )
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "break_it, sentence",
    [
        (
            lambda folder: (folder / "test.csv").open("a").write("\n"),
            "{}/test.csv was changed after it was written; prepare the loans again.",
        ),
        (
            lambda folder: (folder / "loans.csv").unlink(),
            "{}/loans.csv cannot be read: No such file or directory; prepare the loans again.",
        ),
        (
            lambda folder: (folder / "manifest.json").unlink(),
            "{} has no readable manifest.json; make one with `fate-dp prep lending-club`.",
        ),
        (
            lambda folder: (folder / "manifest.json").write_text("[1]"),
            "{}/manifest.json is not a manifest of prepared loans.",
        ),
        (
            lambda folder: (folder / "manifest.json").write_text("{"),
            "{}/manifest.json is not a manifest of prepared loans.",
        ),
        (
            lambda folder: (folder / "manifest.json").write_text('{"schema": "x/2", "files": {}}'),
            "schema of {}/manifest.json must be 'fate-dp/prepared/1', got 'x/2'. Prepare the loans again.",
        ),
        (
            lambda folder: (folder / "manifest.json").write_text(
                '{"schema": "fate-dp/prepared/1", "files": {"../x": {"sha256": "a"}}}'
            ),
            "{0}/manifest.json names files without a hash or outside {0}.",
        ),
    ],
)
def test_a_changed_folder_is_refused(prepared, tmp_path, break_it, sentence):
    folder = tmp_path / "folder"
    shutil.copytree(prepared, folder)
    assert verify(folder)
    break_it(folder)
    with pytest.raises(InvalidArgument) as refusal:
        verify(folder)
    assert str(refusal.value) == sentence.format(folder)


def test_the_manifest_knows_no_place_and_no_time(prepared):
    text = (prepared / "manifest.json").read_text()
    assert str(prepared.parent) not in text and not re.search(r"20\d\d-\d\d-\d\d", text)
    assert text == manifests.manifest_text(json.loads(text))


@needs_lending_club
def test_the_real_file(tmp_path):
    loans, options = clean(LENDING_CLUB), PrepOptions()
    division = divide(loans, options)
    written = write(loans, division, options, tmp_path / "real")["files"]
    assert written["loans.csv"]["rows"] == 38961 and written["loans.csv"]["columns"] == ALL_COLUMNS
    assert written["test.csv"]["classes"] == {"Fully Paid": 9934, "Charged Off": 1754}
    assert [sum(entry["before"].values()) for entry in written.values() if "before" in entry] == [6818, 6818, 13637]
    assert not loans.frame.isna().to_numpy().any()
    assert not ids(division.test) & ids(division.training.frame)
