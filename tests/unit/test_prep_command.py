"""`fate-dp prep`: from a raw file to a folder and tables on the terminal, or one sentence and nothing written."""

import gzip
import os
import subprocess
import sys

import pytest
from prep_loans import ROWS, contents, raw_file

from fate_dp.data_prep.lending_club.options import APPLICATION, CREDIT_FILE
from fate_dp.data_prep.lending_club.written import verify
from fate_dp.pipelines.cli.main import main


def run(*arguments):
    return main([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    return raw_file(tmp_path_factory.mktemp("raw"))


def test_a_folder_and_tables(raw, tmp_path, capsys):
    assert run("prep", "lending-club", "--csv", raw, "--out", tmp_path / "out") == 0
    manifest, text = verify(tmp_path / "out"), capsys.readouterr().out
    text_in_a_row, steps = " ".join(text.split()), manifest["steps"]
    for before, after in zip(steps, steps[1:]):
        change = f"{before['rows']:,} -> {after['rows']:,} {before['columns']} -> {after['columns']}"
        assert f"{after['name']} {change}" in text_in_a_row
    assert f"raw file read {ROWS:,} 74" in text_in_a_row
    for reason in set(manifest["dropped_columns"].values()):
        assert reason in text
    assert "recoveries" in text and "-> 38" in text and len(manifest["features"]) == 37
    guest = manifest["files"]["guest_9999/train.csv"]
    counts = [*guest["before"].values(), *guest["after"].values(), guest["largest_influence"]]
    assert " ".join(["guest 9999 25 %", *map(str, counts)]) in text_in_a_row
    assert "no record-level guarantee (epsilon infinity)" in text_in_a_row
    assert max(map(len, text.splitlines())) <= 100 and f"Written: {tmp_path / 'out'}" in text.replace("\n", "")


@pytest.mark.parametrize("command", [("prep", "lending-club"), ("upload-prepared",)])
def test_help_is_what_was_written(command, capsys):
    with pytest.raises(SystemExit):
        run(*command, "--help")
    text = capsys.readouterr().out
    assert "{'" not in text and "%" not in text


@pytest.mark.parametrize("text", ["a third", "1/0", ""])
def test_a_share_is_a_number_or_a_fraction(text, capsys):
    with pytest.raises(SystemExit):
        run("prep", "lending-club", "--csv", "loan.csv", "--out", "out", "--most-missing", text)
    assert f"--most-missing: {text!r} is not a fraction such as 0.5 or 2/3" in capsys.readouterr().err


def test_every_option_reaches_the_manifest(raw, tmp_path):
    assert (
        run(
            "prep",
            "lending-club",
            "--csv",
            raw,
            "--out",
            tmp_path / "out",
            "--seed",
            3,
            "--test-share",
            0.25,
            "--parties",
            "1,2",
            "--shares",
            "40,60",
            "--skew",
            "state",
            "--concentration",
            9,
            "--over-sampling",
            "smote",
            "--neighbours",
            2,
            "--most-missing",
            "2/2",
            "--units",
            "public",
            "--split",
            "horizontal",
        )
        == 0
    )
    manifest = verify(tmp_path / "out")
    assert "missing in too many loans" not in manifest["dropped_columns"].values()
    assert manifest["options"] == {
        "seed": 3,
        "test_share": 0.25,
        "parties": ["1", "2"],
        "shares": [40, 60],
        "skew": "state",
        "concentration": 9,
        "over_sampling": "smote",
        "neighbours": 2,
        "most_missing": 1,
        "units": "public",
        "split": "horizontal",
        "columns": None,
    }


def test_a_vertical_split_with_chosen_columns(raw, tmp_path, capsys):
    guest = [column for column in APPLICATION if column != "term"]
    assert (
        run(
            "prep",
            "lending-club",
            "--csv",
            raw,
            "--out",
            tmp_path / "out",
            "--split",
            "vertical",
            "--columns",
            ",".join(guest),
            "--columns",
            ", ".join((*CREDIT_FILE, "term")),
        )
        == 0
    )
    files = verify(tmp_path / "out")["files"]
    assert len(files["host_10000/train.csv"]["columns"]) == 10 and len(files["guest_9999/test.csv"]["columns"]) == 30
    text = " ".join(capsys.readouterr().out.split())
    assert "guest 9999 all" in text and "A record-private" not in text and "Not over-sampled" in text


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["--shares", "25,25,60"], "sum of shares must be 1 or 100, got 110 from 25/25/60."),
        (["--shares", "a,b"], "shares must be numbers with commas between, such as 25,25,50, got 'a,b'."),
        (
            ["--parties", "1,2", "--shares", "25,25,50"],
            "shares must be one number for each of the 2 parties, got (25.0, 25.0, 50.0).",
        ),
        (["--test-share", "1"], "test_share must be a number between 0 and 1, both excluded, got 1.0."),
        (
            ["--split", "vertical", "--over-sampling", "smotenc"],
            "over_sampling must be none for the split vertical, where a synthetic row of one party has no counterpart at "
            "the others, got 'smotenc'.",
        ),
    ],
)
def test_a_refused_option_writes_nothing(raw, tmp_path, capsys, arguments, sentence):
    assert run("prep", "lending-club", "--csv", raw, "--out", tmp_path / "out", *arguments) == 1
    output = capsys.readouterr()
    assert (output.err, output.out) == (sentence + "\n", "") and not os.listdir(tmp_path)


def test_a_target_is_refused_before_the_raw_file_is_read(raw, tmp_path, capsys):
    for target in (raw, raw.parent):
        assert run("prep", "lending-club", "--csv", tmp_path / "missing.csv", "--out", target) == 1
    assert capsys.readouterr().err == (
        f"{raw} is a file; name a folder that does not exist yet.\n"
        f"{raw.parent} holds things other than prepared loans; name a folder that is empty or new.\n"
    )


def test_a_raw_file_that_is_refused_leaves_the_earlier_preparation(raw, tmp_path, capsys):
    out = tmp_path / "out"
    assert run("prep", "lending-club", "--csv", raw, "--out", out) == 0
    before = contents(tmp_path)
    broken = raw.parent / "cut.csv.gz"
    broken.write_bytes(gzip.compress(raw.read_bytes())[:-4000])
    capsys.readouterr()
    for path in (broken, tmp_path / "missing.csv"):
        assert run("prep", "lending-club", "--csv", path, "--out", out) == 1
        assert capsys.readouterr().err.count("\n") == 1
    assert run("prep", "lending-club", "--csv", raw, "--out", out, "--neighbours", 999) == 1
    assert contents(tmp_path) == before


def test_the_help_loads_no_heavy_module():
    script = """
import sys
from fate_dp.pipelines.cli.main import main
try:
    main(["prep", "lending-club", "--help"])
except SystemExit as ended:
    assert ended.code == 0
sys.exit(bool({"pandas", "pyarrow", "numpy", "sklearn", "rich"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], timeout=600, capture_output=True, text=True)
    assert done.returncode == 0 and "--neighbours" in done.stdout
