"""Scripts in examples/ are short, say what they protect, and refuse wrong settings in one sentence."""

import ast
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from examples import settings
from examples.settings import load_config
from fate_dp.pipelines.jobs.job import JobFailed
from fate_dp.privacy.validation import InvalidArgument

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("pipeline/*/test_*.py"))
TUTORIAL = (EXAMPLES.parent / "docs" / "tutorial.md").read_text(encoding="utf-8")


def module_of(script):
    return ".".join(script.relative_to(EXAMPLES.parent).with_suffix("").parts)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_is_short_says_what_is_protected_and_is_in_the_tutorial(script):
    text = script.read_text(encoding="utf-8")
    told = " ".join(ast.get_docstring(ast.parse(text)).split())
    assert len(text.splitlines()) < 80 and max(map(len, text.splitlines())) <= 128
    assert " Protected: " in told and " Not protected: " in told
    assert f"examples/{script.relative_to(EXAMPLES)}" in TUTORIAL
    assert f"    python -m examples.tables {script.parent.name}\n    python -m {module_of(script)}\n" in text


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_sends_its_job_to_the_server_of_its_settings(script, monkeypatch, tmp_path):
    """Up to its first job, as far as parameters can be wrong without a server."""
    sent = []

    def run_job(pipeline, flow):
        pipeline.compile()
        sent.append((list(pipeline.tasks), str(flow)))
        raise JobFailed("There is no server here.")

    monkeypatch.setattr("fate_dp.pipelines.jobs.job.run_job", run_job)
    with pytest.raises(JobFailed, match="no server"):
        runpy.run_path(str(script))["main"](EXAMPLES / "config.yaml", "_of_mine")
    assert len(sent[0][0]) >= 2 and sent[0][1] == "127.0.0.1:9380"


class Config:
    """As FATE-Test makes it of FATE's config.yaml, which numbers parties and names no server."""

    parties = SimpleNamespace(guest=[9999], host=[10000, 9998], arbiter=[10000])
    data_base_dir = Path("/data/projects/fate")


@pytest.mark.parametrize("folder", sorted({script.parent for script in SCRIPTS}), ids=lambda path: path.name)
def test_fate_test_finds_every_script_and_calls_it_with_its_own_settings(folder, monkeypatch):
    suite = yaml.safe_load((folder / f"{folder.name}_testsuite.yaml").read_text(encoding="utf-8"))
    scripts = [folder / task["script"] for task in suite["tasks"].values()]
    assert suite["data"] == [] and sorted(scripts) == [script for script in SCRIPTS if script.parent == folder]

    def run_job(pipeline, flow):
        pipeline.compile()
        raise JobFailed("There is no server here.")

    monkeypatch.setattr("fate_dp.pipelines.jobs.job.run_job", run_job)
    for script in scripts:
        with pytest.raises(JobFailed, match="no server"):
            runpy.run_path(str(script))["main"](config=Config(), namespace="_20261127")


def test_fates_own_settings_are_enough(tmp_path):
    text = "parties:\n  guest:\n    - 9999\n  host:\n    - 10000\n    - 9998\n  arbiter:\n    - 10000\nwork_mode: 0\n"
    (tmp_path / "config.yaml").write_text(text)
    found = load_config(tmp_path / "config.yaml")
    assert found == load_config(Config()) and (found.guest, found.hosts) == ("9999", ("10000", "9998"))
    ours = load_config(EXAMPLES / "config.yaml")
    assert (found.epochs, found.rounds) == (ours.epochs, ours.rounds)
    with pytest.raises(InvalidArgument, match="The settings of FATE-Test have no list of party ids for parties: guest"):
        load_config(SimpleNamespace(parties=None))


def test_a_script_without_its_settings_ends_with_one_sentence(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", module_of(SCRIPTS[0]), "--config", str(tmp_path / "none.yaml")],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=EXAMPLES.parent,
    )
    assert done.returncode == 1
    assert done.stderr == f"The settings {tmp_path / 'none.yaml'} cannot be read: No such file or directory.\n"


def test_what_a_party_refuses_is_printed_as_its_sentence(capsys):
    def main(config, namespace):
        raise JobFailed(f"guest 9999: refused {config.name}{namespace}.")

    main.__module__ = __name__
    assert settings.run_example(main, ["--config", "my.yaml", "--namespace", "_2"]) == 1
    assert capsys.readouterr().err == "guest 9999: refused my.yaml_2.\n"


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda content: content.pop("parties"), "have no list of party ids for parties: guest."),
        (lambda content: content["parties"].update(guest=[]), "have no list of party ids for parties: guest."),
        (lambda content: content["parties"].update(arbiter="10001"), "have no list of party ids for parties: arbiter."),
        (lambda content: content["parties"].update(host=["10000"]), "name one host; the examples need two"),
        (lambda content: content.update(flow="localhost"), "flow is wrong: address 'localhost' is not an address"),
        (lambda content: content.update(epochs=0), "epochs must be a whole number of at least 1, got 0."),
        (lambda content: content.update(rounds="ten"), "rounds must be a whole number of at least 1, got 'ten'."),
    ],
)
def test_wrong_settings_are_refused(tmp_path, change, said):
    content = yaml.safe_load((EXAMPLES / "config.yaml").read_text(encoding="utf-8"))
    change(content)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(InvalidArgument) as refused:
        load_config(tmp_path / "config.yaml")
    assert said in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["a: [", "- 1\n", ""])
def test_settings_that_are_none_are_refused(tmp_path, text):
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(InvalidArgument, match="are no YAML|have no list of party ids"):
        load_config(tmp_path / "config.yaml")
