"""fate-dp board install: into a board's dag/ folder only, all or nothing, twice the same, others' files untouched."""

import json
import os
from pathlib import Path

import pytest
import yaml

from fate_dp.deploy.board import install as board_install
from fate_dp.deploy.board.install import (
    CURRENT,
    MISSING,
    OTHER_VERSION,
    STAMP,
    compare,
    flaw_of,
    install,
    read_descriptions,
)
from fate_dp.deploy.flow.programs import FlowServerError
from fate_dp.pipelines.cli.main import main
from fate_dp.pipelines.cli.servers import DESCRIPTIONS

READER = "component:\n  name: reader\n  input_artifacts: {}\n  output_artifacts: {}\nschema_version: v1\n"
COMPONENTS = {path.parent.name for path in (Path(__file__).parents[2] / "components").glob("*/component.py")}
ALL = len(COMPONENTS)


@pytest.fixture
def dag(tmp_path):
    """The dag/ folder of a board, with one of FATE's descriptions and a file of somebody's."""
    folder = tmp_path / "board" / "dag"
    folder.mkdir(parents=True)
    (folder / "reader.yaml").write_text(READER)
    (folder / "notes.txt").write_text("ours")
    return folder


def content(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def states(found):
    return {item.component: item.state for item in found}


def test_all_components_are_installed_and_a_second_run_writes_nothing(dag, monkeypatch):
    before = content(dag)
    assert states(install(dag, DESCRIPTIONS, "0.2.0")) == dict.fromkeys(COMPONENTS, MISSING)
    after = content(dag)
    assert set(after) == set(before) | {f"{name}.yaml" for name in COMPONENTS}
    assert all(after[name] == before[name] for name in before)
    monkeypatch.setattr(board_install.os, "replace", lambda *paths: pytest.fail("written again"))
    assert states(install(dag, DESCRIPTIONS, "0.2.0")) == dict.fromkeys(COMPONENTS, CURRENT)


def test_the_installed_files_are_what_the_board_parses(dag):
    install(dag, DESCRIPTIONS, "0.2.0")
    for name in COMPONENTS:
        path = dag / f"{name}.yaml"
        text = path.read_text()
        assert text.startswith(f"{STAMP}0.2.0\n") and path.stat().st_mode & 0o777 == 0o644
        document = yaml.safe_load(text)
        assert document == yaml.safe_load((DESCRIPTIONS / f"{name}.yaml").read_text())
        assert document["component"]["name"] == name and json.dumps(document)


def test_an_older_version_and_a_copy_by_hand_are_replaced(dag):
    install(dag, DESCRIPTIONS, "0.0.9")
    (dag / "smote.yaml").write_text((DESCRIPTIONS / "smote.yaml").read_text())
    (dag / "align.yaml").unlink()
    found = states(install(dag, DESCRIPTIONS, "0.2.0"))
    assert found.pop("align") == MISSING and set(found.values()) == {OTHER_VERSION}
    assert states(compare(dag, DESCRIPTIONS, "0.2.0")) == dict.fromkeys(COMPONENTS, CURRENT)


@pytest.mark.parametrize(
    "foreign", [READER.replace("reader", "smote"), "\xff not YAML: [", ""], ids=["other", "no YAML", "empty"]
)
def test_a_file_of_somebody_else_with_our_name_stops_everything(dag, foreign):
    (dag / "smote.yaml").write_text(foreign, encoding="latin-1")
    before = content(dag)
    with pytest.raises(FlowServerError, match="smote.yaml was not installed by fate-dp and is left alone"):
        install(dag, DESCRIPTIONS, "0.2.0")
    assert content(dag) == before


@pytest.mark.parametrize(
    "files",
    [{}, {"reader.yaml": "a: 1"}, {"reader.yaml": READER.replace("reader", "psi")}],
    ids=["nothing", "another YAML", "another component"],
)
def test_a_folder_that_is_no_boards_is_refused(tmp_path, files):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    before = content(tmp_path)
    with pytest.raises(FlowServerError, match="is not the dag/ folder of a FATE-Board"):
        install(tmp_path, DESCRIPTIONS, "0.2.0")
    assert content(tmp_path) == before


def test_the_boards_own_folder_is_pointed_out_and_a_missing_one_named(dag):
    with pytest.raises(FlowServerError, match=f"did you mean {dag}"):
        install(dag.parent, DESCRIPTIONS, "0.2.0")
    with pytest.raises(FlowServerError, match="nowhere is not a folder"):
        install(dag / "nowhere", DESCRIPTIONS, "0.2.0")


def test_a_failed_write_leaves_no_half_file_and_the_next_run_goes_on(dag, monkeypatch):
    written, replace = [], os.replace

    def full_after_three(source, target):
        if len(written) == 3:
            raise OSError(28, "No space left on device")
        written.append(target)
        replace(source, target)

    monkeypatch.setattr(board_install.os, "replace", full_after_three)
    with pytest.raises(FlowServerError, match="could not be written: No space left on device"):
        install(dag, DESCRIPTIONS, "0.2.0")
    assert len(content(dag)) == 2 + 3 and not list(dag.glob(".*"))
    monkeypatch.undo()
    assert list(states(install(dag, DESCRIPTIONS, "0.2.0")).values()).count(CURRENT) == 3


def test_a_link_that_somebody_laid_into_the_folder_is_not_followed(dag, tmp_path, monkeypatch):
    """The folder belongs to the board's user, and an administrator runs the command."""
    victim = tmp_path / "victim"
    victim.write_text("theirs")
    monkeypatch.setattr(board_install.secrets, "token_hex", lambda size: "guessed")
    for name in COMPONENTS:
        (dag / f".{name}.yaml.guessed").symlink_to(victim)
    with pytest.raises(FlowServerError, match="could not be written: File exists"):
        install(dag, DESCRIPTIONS, "0.2.0")
    assert victim.read_text() == "theirs"


def test_the_command_says_what_it_did_and_check_writes_nothing(dag, capsys):
    before = content(dag)
    assert main(["board", "install", str(dag), "--check"]) == 3
    assert f"0 of {ALL} descriptions in {dag} are current." in capsys.readouterr().out
    assert content(dag) == before
    assert main(["board", "install", str(dag)]) == 0
    assert f"smote.yaml: installed\n{ALL} of {ALL} descriptions written to {dag}." in capsys.readouterr().out
    assert main(["board", "install", str(dag), "--check"]) == 0
    assert main(["board", "install", str(dag)]) == 0
    assert f"smote.yaml: current\n0 of {ALL} descriptions written" in capsys.readouterr().out


def test_the_command_refuses_in_one_sentence(tmp_path, capsys):
    assert main(["board", "install", str(tmp_path)]) == 1
    told = capsys.readouterr()
    assert told.out == "" and told.err.count("\n") == 1 and "is not the dag/ folder" in told.err


def test_our_descriptions_are_those_of_all_entry_points():
    assert set(read_descriptions(DESCRIPTIONS)) == COMPONENTS


@pytest.mark.parametrize(
    "change, told",
    [
        (lambda text: text.replace("name: smote", "name: other"), "describes no component smote"),
        (lambda text: text.replace("input_artifacts:", "inputs:"), "has no input_artifacts"),
        (lambda text: text.replace("stages:", "stage:"), "no list of roles and stages"),
        (lambda text: text + "written: 2024-01-01\n", "values that JSON cannot"),
        (lambda text: text + "]", "describes no component smote"),
    ],
    ids=["name", "artifacts", "stages", "date", "no YAML"],
)
def test_a_description_that_the_board_could_not_draw_with_is_told(change, told):
    text = (DESCRIPTIONS / "smote.yaml").read_text()
    assert flaw_of("smote", text) is None
    assert told in flaw_of("smote", change(text))
