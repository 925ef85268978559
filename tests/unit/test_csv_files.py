"""A bank's own CSV: what is taken in whatever form it is written, what is refused, all faults at once, and what FATE gets."""

import re

import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_dp.pipelines.jobs import csv_files
from fate_dp.pipelines.jobs.csv_files import TableMeta, read_csv_file
from fate_dp.pipelines.jobs.upload import check_table
from fate_dp.privacy.table_facts import TableFacts
from fate_dp.privacy.validation import InvalidArgument

LABELLED = TableMeta(label_name="y")
INVISIBLE = ("\ufeff", "\u200b", "\u00ad", "\u2060", "\u202e", "\x01", "\x0b", "\x1c", "\x7f", "\x85", "\u2028", "\n")
PLAIN = "id,y,x\nc1,0,1.5\nc2,1,-2e-3\n"


def lines(path, meta=LABELLED):
    """The lines that FATE would read."""
    table, written = read_csv_file(path, meta), path.with_suffix(".written")
    found = table.write(written)
    assert found.delimiter is not None and b"\r" not in written.read_bytes()
    return written.read_text(encoding="utf-8").splitlines()


def file(folder, content, encoding="utf-8"):
    path = folder / "table.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return path


def test_a_long_reading_tells_lines_and_columns(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "LINES_BETWEEN_NEWS", 2)
    told = []
    read_csv_file(file(tmp_path, PLAIN), LABELLED, told.append)
    assert told == ["2 lines", *(f"{column} of 3 columns of 2 rows" for column in range(3))]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "gb18030"])
@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_one_table_however_it_is_written(tmp_path, encoding, ends, delimiter):
    text = "客户号,y,收入\n客户1,0,1.5\n客户2,1,-2e-3\n"
    path = file(tmp_path, text.replace(",", delimiter).replace("\n", ends), encoding)
    assert lines(path, TableMeta("客户号", "y")) == text.splitlines()


@pytest.mark.parametrize(
    "text",
    [
        '"id","y","x"\n"c1","0","1.5"\n"c2","1","-2e-3"\n',
        '"id","y","x"\n"c1",0,1.5\n"c2",1,-2e-3\n',
        'id,y,x\n c1 ,0, 1.5\n "c2",1,-2e-3 \n\n\n',
        "id,y,x\nc1,0.0,1.5\nc2,1.0,-2e-3\n",
        "id,y,x\nc1,False,1.5\nc2,True,-2e-3\n",
        ",id,y,x\n0,c1,0,1.5\n1,c2,1,-2e-3\n",
        "Unnamed: 0,id,y,x\n1,c1,0,1.5\n2,c2,1,-2e-3\n",
        "id,y,x,\nc1,0,1.5,\nc2,1,-2e-3,\n",
    ],
    ids=["R", "nonnumeric", "blanks", "floats", "booleans", "index", "named index", "last comma"],
)
def test_what_other_programs_write_is_the_plain_table(tmp_path, text):
    assert lines(file(tmp_path, text)) == PLAIN.splitlines()


@pytest.mark.parametrize("missing", ["", "NA", "n/a", "#N/A", "NULL", "None", "nan", "NaN", "?", ".", "-"])
def test_missing_features_come_in_and_are_counted(tmp_path, missing):
    path = file(tmp_path, f"id,y,x\nc1,0,{missing}\nc2,1,3\n")
    assert lines(path) == ["id,y,x", "c1,0,NaN", "c2,1,3"]
    (note,) = read_csv_file(path, LABELLED).notes
    assert "x: 1 missing values" in note and "dp_binning" in note


@pytest.mark.parametrize(
    "delimiter, values, expected, note",
    [
        (",", ['"1,234"', '"12,345.5"', "7"], ["1234", "12345.5", "7"], "between thousands"),
        (";", ["1,5", "2", "0,25"], ["1.5", "2", "0.25"], "decimal point"),
        (",", ["5%", "13.56 %", "NA"], ["5", "13.56", "NaN"], "5 % is 5"),
        (",", ["true", "FALSE", ""], ["1", "0", "NaN"], "true is 1"),
    ],
    ids=["thousands", "comma", "percent", "booleans"],
)
def test_numbers_as_people_write_them(tmp_path, delimiter, values, expected, note):
    rows = [f"c{row}{delimiter}{row % 2}{delimiter}{value}" for row, value in enumerate(values)]
    path = file(tmp_path, "\n".join([delimiter.join(["id", "y", "x"]), *rows]))
    assert [line.rpartition(",")[2] for line in lines(path)[1:]] == expected
    assert any(note in each for each in read_csv_file(path, LABELLED).notes)


def test_special_and_missing_codes_ranges_and_units_are_kept_and_told(tmp_path):
    path = file(tmp_path, "id,y,x,rate\nc1,0,-999,5%\nc2,1,250,6%\nc3,1,-7,7%\nc4,0,300,8%\n")
    facts = TableFacts(missing=("-7",), special={"x": (-999,)}, ranges={"x": (0, 1), "rate": (0, 100)})
    table = read_csv_file(path, TableMeta(label_name="y", facts=facts))
    assert table.frame["x"].tolist() == ["-999", "250", "NaN", "300"]
    assert table.meta.facts.units == {"rate": "percent"} and table.meta.facts.special == {"x": (-999,)}
    told = " ".join(table.notes)
    assert "x: 1 special values" in told and "x: 1 missing values" in told and "rate: " in told
    assert "x: 2 of 2 values lie outside 0 to 1; is it in another unit?" in told and "rate: 4 of" not in told
    for special, said in (
        ({"z": (1,)}, "no column 'z', for which special"),
        ({"y": (1,)}, "column 'y' is not a feature"),
    ):
        with pytest.raises(InvalidArgument, match=said):
            read_csv_file(path, TableMeta(label_name="y", facts=TableFacts(special=special)))


def test_categories_become_their_numbers_in_the_order_that_was_given(tmp_path):
    path = file(tmp_path, "id,y,region\nc1,0,south\nc2,1,\nc3,1,north\n")
    meta = TableMeta(label_name="y", facts=TableFacts(categories={"region": ("north", "south", "west")}))
    assert lines(path, meta)[1:] == ["c1,0,1", "c2,1,NaN", "c3,1,0"]
    with pytest.raises(InvalidArgument, match="line 2 has 'south' as 'region', which is none of its categories"):
        read_csv_file(path, TableMeta(label_name="y", facts=TableFacts(categories={"region": ("north", "west")})))


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("x,y\n1,0\n", "has no id column 'id'; name it with --id: its columns are x, y"),
        ("id,x\n1,0\n", "has no label column 'y'; its columns are id, x"),
        ("id,y,x\na,0,1\na,1,2\n", "line 3 has the 'id' 'a' again; keep one row for each id"),
        ("id,y,x\na,0,1\n a,1,2\n", "line 3 has the 'id' 'a' again"),
        ("id,y,x\n,0,1\n", "line 2 has no 'id'"),
        ("id,y,x,x\na,0,1,2\n", "the column 'x' occurs 2 times"),
        ("id,y,x\na,0,inf\nb,0,-Infinity\n", "line 2 has 'inf' as 'x', and 1 more like it; finite numbers"),
        ("id,y,x\na,0,1\nb,1\n", "line 3 has 2 values, the header 3; quote a value"),
        ("id,y,x\na,0,1,9\n", "line 2 has 4 values, the header 3; quote a value"),
        ("id,y,x\na,,1\n", "line 2 has no label 'y'"),
        ("id,y,x\na,bad,1\nb,good,1\n", "line 2 has 'bad' as 'y', and 1 more like it; write classes as 0, 1"),
        ("id,y,x\na,0,2020-01-31\nb,1,2021/3/4\n", "'2020-01-31' as 'x'.*write dates as a number"),
        ("id,y,x\na,0,south\nb,1,north\n", "--categories x=north,south"),
        ("id,y,x\na,0,1\nb,1,oops\n", "line 3 has 'oops' as 'x'; finite numbers are allowed, and blanks"),
        ("id;y;x\na;0;1,234\nb;1;2,345\n", "1,234 may be 1234 or 1.234"),
        ("id,y,,x\na,0,7,1\nb,1,8,1\n", "column 3 has no name"),
        ("id,y,extend_sid\na,0,7\n", "'extend_sid' has a name that FATE keeps for itself"),
        ("id,y,x\n", "it has no rows"),
        ("", "is empty"),
        (b"id,y,x\n\xff\xff,0,1\n", "not text in UTF-8 nor GBK"),
        ("id,y,x\nM\u00fcller,0,1\n".encode("latin-1"), "not text in UTF-8 nor GBK; name its encoding"),
        ("id,y,x\na,0,1\n".encode("utf-16-le"), "not text in UTF-8 nor GBK"),
        *[(f'id,y,"in{each}come"\na,0,1\n', "has an invisible character in its name") for each in INVISIBLE],
        *[(f'id,y,x\n"a{each}b",0,1\n', "line 2 has an invisible character in the 'id'") for each in INVISIBLE],
        *[(f"id,y,x\nb,1,1\n{each},0,1\n", "line 3 has no 'id', got") for each in ("", "NaN", "NULL", "n/a", "None")],
        *[
            (f"id,y,x\n{each},0,1\n", "as a spreadsheet keeps it; export ids as text")
            for each in ('="007"', "1.23457E+11", "4E+15", "=A1")
        ],
        ("id,y,年齡\n張,0,1\n李,1,2\n".encode("big5"), "not text in UTF-8 nor GBK; name its encoding"),
        ("id,y,x\na,3000000000,1\n", "labels of type int32 must be at most"),
        ("id,y,x\na,1e300,1\n", "labels of type int32 must be at most"),
        ("id,y,x\na,100000000000000000000000,1\n", "labels of type int32 must be at most"),
        ('id,y,x\na,0,"0,125"\nb,1,"0,250"\n', "1,234 may be 1234 or 1.234"),
        ("id;y;x\na;0;1.234\nb;1;999,5\n", "1,234 may be 1234 or 1.234"),
        ("id;y;x;z\na;0;1.234;0,5\nb;1;2.500;0,7\n", "write thousands without points"),
    ],
)
def test_what_nobody_can_read_is_refused_with_its_line_and_its_cure(tmp_path, text, complaint):
    with pytest.raises(InvalidArgument, match=complaint):
        read_csv_file(file(tmp_path, text), LABELLED)


def test_all_faults_of_a_file_are_named_at_once(tmp_path):
    path = file(tmp_path, "id,y,x,z,when\na,0,1,north,2020-01-31\na,1,oops,south,2020-02-01\n,0,3,south,2020-02-02\n")
    with pytest.raises(InvalidArgument) as refused:
        read_csv_file(path, LABELLED)
    found = re.findall(r"line (\d+) has", str(refused.value))
    assert found == ["4", "3", "3", "2", "2"]


@pytest.mark.parametrize("labels, expected", [("01", "int32"), (("-3", "7.0"), "int32"), (("0.25", "1"), "float64")])
def test_the_type_of_labels_is_found_out(tmp_path, labels, expected):
    rows = "".join(f"{row},{label},1\n" for row, label in enumerate(labels))
    assert read_csv_file(file(tmp_path, f"id,y,x\n{rows}"), LABELLED).meta.label_type == expected


def test_labels_of_a_given_type_must_be_of_it(tmp_path):
    path = file(tmp_path, "id,y,x\na,0.5,1\nb,1,1\n")
    with pytest.raises(InvalidArgument, match="labels of type int32 must be whole numbers. Use type float64"):
        read_csv_file(path, TableMeta(label_name="y", label_type="int32"))


def test_a_training_table_needs_two_classes_and_a_file_must_exist(tmp_path):
    path = file(tmp_path, "id,y,x\na,0,1\nb,0,1\n")
    with pytest.raises(InvalidArgument, match="has 1 different label in 'y'; training needs at least 2"):
        check_table(path, LABELLED)
    with pytest.raises(InvalidArgument, match="cannot be read: No such file"):
        check_table(tmp_path / "absent.csv", LABELLED)


@pytest.mark.parametrize(
    "meta, complaint",
    [
        (TableMeta(delimiter="ab"), "^delimiter must be one character"),
        (TableMeta(label_name="id"), "^label must be another column than the id"),
        (TableMeta(encoding="no such"), "not text in no such"),
    ],
)
def test_what_nobody_can_read_a_file_by_is_refused(tmp_path, meta, complaint):
    with pytest.raises(InvalidArgument, match=complaint):
        read_csv_file(file(tmp_path, PLAIN), meta)


def test_letters_that_are_joined_or_not_are_no_marks(tmp_path):
    ids = ["می\u200cشود", "क्\u200dष"]
    table = read_csv_file(file(tmp_path, f"id,y,{ids[0]}\n{ids[0]},0,1\n{ids[1]},1,2\n"), LABELLED)
    assert table.ids.tolist() == ids and table.features == ids[:1]


def test_ids_with_commas_get_another_delimiter(tmp_path):
    assert lines(file(tmp_path, 'id,y,x\n"Doe, J",0,1\nb,1,2\n')) == ["id;y;x", "Doe, J;0;1", "b;1;2"]


TEXTS = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Cf", "Zl", "Zp")), min_size=1, max_size=8)
USUAL = TEXTS.map(str.strip).filter(lambda each: each.lower() not in csv_files.MISSING_VALUES and each[0] != "=")
IDS = st.lists(USUAL, min_size=1, max_size=6, unique=True)


@given(IDS, st.sampled_from([",", ";", "\t"]), st.booleans())
@settings(max_examples=60)
def test_ids_come_out_as_they_went_in(tmp_path_factory, ids, delimiter, quoted):
    path = tmp_path_factory.mktemp("ids") / "table.csv"
    frame = pandas.DataFrame({"id": ids, "y": [0] * len(ids), "x": [1.5] * len(ids)})
    frame.to_csv(path, index=False, sep=delimiter, quoting=1 if quoted else 0)
    assert read_csv_file(path, TableMeta(label_name="y", delimiter=delimiter)).ids.tolist() == ids
