"""The ``fate-dp run`` command: from flags to a study, and what it prints, writes and refuses."""

import argparse
from pathlib import Path

import pytest
from rich.console import Console

from fate_dp.deploy.flow.server import ANSWERS, SILENT, FlowState
from fate_dp.pipelines.cli import studies
from fate_dp.pipelines.cli.studies import add_run, study_of
from fate_dp.pipelines.jobs import flow
from fate_dp.pipelines.jobs.flow import FlowUnavailable
from fate_dp.pipelines.lending_club import report, tables
from fate_dp.pipelines.lending_club import study as credit_study
from fate_dp.pipelines.lending_club.private_study import PrivateStudy
from fate_dp.pipelines.lending_club.study import Study


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch):
    monkeypatch.delenv("FATE_DP_DATA", raising=False)


def parsed(*flags):
    parser = argparse.ArgumentParser()
    add_run(parser.add_subparsers())
    return parser.parse_args(["run", "lending-club", *flags])


def test_without_flags_generated_loans_are_studied_with_the_library_s_defaults():
    options = parsed()
    study = study_of(options)
    private = PrivateStudy(seeds=(2024, 2025, 2026))
    assert study == Study(Path("out/lending-club/synthetic.csv.gz"), synthetic=True, private=private)
    assert (studies.rows_to_generate(options), options.home, options.flow) == (50_000, Path(".fate-dp"), None)


def test_a_quick_run_has_one_seed_and_one_epsilon_and_compares_nothing():
    options = parsed("--quick")
    study = study_of(options)
    assert study.seeds == study.flow_seeds == study.private.seeds == (2024,)
    assert (study.private.epsilons, study.private.trees) == ((4.0,), 2) and not study.compared
    assert studies.rows_to_generate(options) == 20_000
    assert studies.rows_to_generate(parsed("--quick", "--synthetic", "30000")) == 30_000


@pytest.mark.parametrize(
    "parts, flow_seeds, private",
    [("homo-lr", 1, None), ("rows, columns", 0, ("rows", "columns")), ("homo-lr,transfer", 1, ("transfer",))],
)
def test_parts_can_be_chosen(parts, flow_seeds, private):
    study = study_of(parsed("--parts", parts))
    assert (study.private and study.private.parts) == private
    assert len(study.flow_seeds) == flow_seeds and study.compared == bool(flow_seeds)
    assert len(study.seeds) == (10 if flow_seeds else 3)


def test_the_loans_of_the_data_folder_are_studied_where_no_others_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("FATE_DP_DATA", str(tmp_path))
    assert study_of(parsed()).synthetic
    (tmp_path / "lending_club.csv.gz").write_bytes(b"")
    study = study_of(parsed())
    assert (study.csv, study.synthetic) == (tmp_path / "lending_club.csv.gz", False)
    assert study_of(parsed("--csv", "other.csv")).csv == Path("other.csv")
    assert study_of(parsed("--synthetic", "100")).synthetic


def test_every_flag_reaches_the_study():
    study = study_of(
        parsed(
            "--csv",
            "loans.csv",
            "--seeds",
            "3",
            "--seed",
            "5",
            "--private-seeds",
            "2",
            "--epsilons",
            "2, 0.5",
            "--every-seed-on-flow",
            "--over-sampling",
            "smote",
            "--neighbours",
            "3",
            "--shares",
            "40,60",
            "--parties",
            "1, 2",
            "--epochs",
            "7",
            "--alpha",
            "0",
        )
    )
    assert (study.csv, study.synthetic) == (Path("loans.csv"), False)
    assert study.seeds == study.flow_seeds == (5, 6, 7)
    assert (study.settings.epochs, study.settings.alpha, study.settings.optimizer) == (7, 0.0, "rmsprop")
    prepared = study.preparation
    assert (prepared.over_sampling, prepared.shares, prepared.parties) == ("smote", (40.0, 60.0), ("1", "2"))
    assert prepared.neighbours == 3
    assert (study.private.seeds, study.private.epsilons) == ((5, 6), (2.0, 0.5))
    assert (study.private.parties, study.private.shares) == (("1", "2"), (40.0, 60.0))
    assert (prepared.units, prepared.test_share) == ("public", 0.3)


@pytest.mark.parametrize(
    "flags, sentence",
    [
        (["--seeds", "0"], "The seeds are (); there must be at least one, and none may repeat."),
        (["--shares", "25,25,40"], "shares are 25/25/40, which add to 90; they must add to 1 or to 100."),
        (["--shares", "a,b"], "shares are 'a,b'; they must be numbers with commas between, like 25,25,50."),
        (
            ["--parts", "rows,sideways"],
            "The part 'sideways' of --parts is unknown; allowed are homo-lr, rows, columns, transfer.",
        ),
        (["--epsilons", "4,none"], "--epsilons has 'none'; allowed are numbers greater than 0 with commas between."),
        (["--trees", "0"], "--trees is 0; allowed is a whole number of at least 1."),
        (["--private-seeds", "11"], "--private-seeds is 11; allowed are 1 to 10, the number of seeds."),
        (["--epochs", "0"], "The HomoLR setting epochs is 0; allowed is a whole number of at least 1."),
    ],
)
def test_refusals_come_before_any_work(flags, sentence):
    with pytest.raises(ValueError) as refusal:
        study_of(parsed(*flags))
    assert str(refusal.value) == sentence


def test_a_file_and_generated_rows_exclude_each_other(capsys):
    with pytest.raises(SystemExit):
        parsed("--csv", "loans.csv", "--synthetic", "10")
    assert "not allowed with argument --csv" in capsys.readouterr().err


@pytest.fixture
def staged(monkeypatch, capsys):
    """The command without its study and its report; returns what they were asked."""
    asked = {}

    def study(study, place):
        asked.update(study=study, server=place.connect())
        return {"schema": "made up", "private": None}

    monkeypatch.setattr(credit_study, "run_credit_study", study)
    monkeypatch.setattr(report, "write_credit_report", lambda result, path: Path(path).write_text("report"))
    monkeypatch.setattr(tables, "print_credit_result", lambda result, console: console.print("the tables"))
    monkeypatch.setattr(studies, "demo_server", lambda options, lines: (options.flow, options.home))
    monkeypatch.setattr(flow, "state_of", lambda address: asked.get("state", FlowState(SILENT)))
    monkeypatch.setattr(studies, "wide_console", lambda: Console(width=300))
    return asked


def test_generated_loans_are_written_and_results_land_in_the_folder(staged, tmp_path, capsys):
    options = parsed("--synthetic", "40", "--out", str(tmp_path / "new" / "out"), "--home", str(tmp_path))
    studies.lending_club(options)
    assert sorted(path.name for path in options.out.iterdir()) == ["report.html", "result.json", "synthetic.csv.gz"]
    assert (options.out / "result.json").read_text() == '{\n  "schema": "made up",\n  "private": null\n}\n'
    assert staged["study"].csv == options.out / "synthetic.csv.gz" and staged["server"] == (None, tmp_path)
    printed = capsys.readouterr().out
    assert "the tables" in printed and f"Report: {options.out / 'report.html'}" in printed
    assert "fate-dp down" in printed


def test_a_given_server_is_used_and_no_file_is_generated(staged, tmp_path, capsys):
    staged["state"] = FlowState(ANSWERS, version="2.2.0")
    options = parsed("--csv", "loans.csv", "--out", str(tmp_path), "--flow", "127.0.0.1:9")
    studies.lending_club(options)
    assert staged["server"][0] == "127.0.0.1:9" and "fate-dp down" not in capsys.readouterr().out
    assert not (tmp_path / "synthetic.csv.gz").exists()


@pytest.mark.parametrize(
    "address, sentence",
    [("127.0.0.1:9", "No FATE-Flow answers at 127.0.0.1:9;"), ("nonsense", "--flow 'nonsense' is not an address;")],
)
def test_a_server_that_does_not_answer_is_refused_before_the_study(staged, tmp_path, address, sentence):
    with pytest.raises(FlowUnavailable, match=sentence):
        studies.lending_club(parsed("--out", str(tmp_path / "out"), "--flow", address))
    assert not staged and not (tmp_path / "out").exists()


def test_an_output_that_cannot_be_made_is_refused_before_the_study(staged, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot be made"):
        studies.lending_club(parsed("--out", str(tmp_path / "file")))
    assert not staged


def test_a_refused_run_leaves_no_folder(staged, tmp_path, monkeypatch):
    def refused(study, place):
        raise ValueError("not fit")

    monkeypatch.setattr(credit_study, "run_credit_study", refused)
    with pytest.raises(ValueError, match="not fit"):
        studies.lending_club(parsed("--csv", "loans.csv", "--out", str(tmp_path / "a" / "b")))
    assert list(tmp_path.iterdir()) == []
