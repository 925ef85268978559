"""The image's install and start scripts in a plain environment: a prefix that sees FATE, folders as the image has them.

What needs an engine (the base image itself, its Python and its users) is not tried here.
"""

import importlib.util
import os
import pwd
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "deploy" / "docker"
PARTS = ("privacy", "crypto", "components", "attacks", "pipelines", "conf", "data_prep", "deploy", "testing")
KEPT = ("data", "localfs", "model", "jobs", "logs", "database")
READER = "component:\n  name: reader\n  input_artifacts: {}\n  output_artifacts: {}\nschema_version: v1\n"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy so that nothing is left in the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in PARTS:
        shutil.copytree(ROOT / name, folder / "source" / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "README.md"):
        shutil.copy(ROOT / name, folder / "source" / name)
    program = [sys.executable, "setup.py", "-q", "bdist_wheel", "-d", str(folder)]
    subprocess.run(program, cwd=folder / "source", check=True, timeout=600, capture_output=True)
    return next(folder.glob("fate_dp-*.whl"))


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """An environment of its own whose Python also sees this one's packages, FATE among them."""
    folder = tmp_path_factory.mktemp("prefix")
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    (site / "fate.pth").write_text(str(Path(pytest.__file__).parents[1]) + "\n")
    return folder


@pytest.fixture
def image(tmp_path):
    """Folders and files of the image, as far as the scripts use them; its services note calls, and FATE-Flow fails."""
    project = tmp_path / "fate"
    files = {
        "bin/init_env.sh": "export FATE_PROJECT_BASE=$FATE_PROJECT PYTHONPATH=$FATE_PROJECT/fate_flow/python\n",
        "fate_flow/bin/service.sh": f'echo "flow $1 in $PWD" >>{project}/calls\nexit 1\n',
        "fateboard/service.sh": f'echo "board $1 in $PWD" >>{project}/calls\n',
        "fateboard/dag/reader.yaml": READER,
        "fateboard/conf/application.properties": "server.port=8080\n",
    }
    for path, text in files.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text)
    package = project / "fate_flow" / "python" / "fate_flow"
    installed = Path(importlib.util.find_spec("fate_flow").origin).parent
    shutil.copytree(installed, package, ignore=shutil.ignore_patterns("__pycache__"))
    # pip's package has inside what the image has beside it.
    for name in ("conf", "fateflow.env"):
        (package / name).rename(project / "fate_flow" / name)
    return project


def run(prefix, image, *arguments, script="install.sh", **variables):
    path = f"{prefix / 'bin'}{os.pathsep}{os.environ['PATH']}" if prefix else os.environ["PATH"]
    environment = {
        "PATH": path,
        "HOME": str(image.parent),
        "FATE_PROJECT": str(image),
        "PIP_NO_INDEX": "1",
        "FATE_DP_HOME": str(image.parent / "keys" / "parties"),
        "PYTHONDONTWRITEBYTECODE": "1",
        **variables,
    }
    return subprocess.run(
        ["bash", str(SCRIPTS / script), *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        stdin=subprocess.DEVNULL,
    )


def test_the_wheel_the_components_and_the_boards_descriptions_are_installed(wheel, prefix, image):
    done = run(prefix, image, wheel, "--no-requirements")
    assert done.returncode == 0, done.stderr
    names = sorted(path.parent.name for path in (ROOT / "components").glob("*/component.py"))
    assert f"Components: {', '.join(names)}." in done.stdout
    assert f"{len(names)} of {len(names)} descriptions written to {image}/fateboard/dag." in done.stdout
    assert done.stdout.endswith("FATE-DP is installed.\n")
    (installed,) = prefix.glob("lib/python3*/site-packages/fate_dp/components/label_flip/component.py")
    assert installed.is_file() and (prefix / "bin" / "fate-dp").is_file()
    folders = [image.parent / "keys", image.parent / "keys" / "parties", *(image / "fate_flow" / name for name in KEPT)]
    assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o700}


def test_our_folder_comes_first_in_what_fate_flows_own_script_starts(wheel, prefix, image):
    """That script reads init_env.sh again, which sets PYTHONPATH anew: the fence would be gone."""
    for _ in range(2):
        assert run(prefix, image, wheel, "--no-requirements").returncode == 0
    (site,) = prefix.glob("lib/python3*/site-packages/fate_dp/deploy/fate_patches")
    script = image / "fate_flow" / "bin" / "service.sh"
    script.write_text(f"source {image}/bin/init_env.sh\necho $PYTHONPATH\n")
    done = subprocess.run(
        ["bash", str(script)], env={"FATE_PROJECT": str(image), "PYTHONPATH": "lost"}, capture_output=True, text=True
    )
    assert done.stdout == f"{site}:{image}/fate_flow/python\n"
    assert (site / "sitecustomize.py").is_file() and (site / "fence.py").is_file()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to another user")
def test_what_the_servers_write_belongs_to_their_user_also_a_second_time(wheel, prefix, image):
    """The administrator's key is made in the folder above the parties', by that user and at every start."""
    for _ in range(2):
        done = run(prefix, image, wheel, "--no-requirements", FATE_DP_USER="nobody")
        assert done.returncode == 0, done.stderr
    settings = image / "fate_flow" / "python" / "fate_flow" / "settings.py"
    written = [
        image.parent / "keys",
        image.parent / "keys" / "parties",
        settings,
        image / "fateboard" / "conf",
        *(image / "fate_flow" / name for name in KEPT),
    ]
    assert {pwd.getpwuid(path.stat().st_uid).pw_name for path in written} == {"nobody"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to another user")
def test_a_folder_of_others_is_not_given_away(image):
    home = image.parent / "parties"
    done = run(None, image, __file__, FATE_DP_USER="nobody", FATE_DP_HOME=str(home))
    assert_refused(done, f"{image.parent}, the folder above FATE_DP_HOME, does not belong to nobody")
    assert image.parent.stat().st_uid == 0 and not home.exists()


@pytest.mark.parametrize(
    "missing", ["fate_flow/bin/service.sh", "fate_flow/conf/service_conf.yaml", "fateboard/service.sh", "fateboard/dag"]
)
def test_a_folder_that_is_no_fate_is_refused_before_anything_is_installed(image, missing):
    path = image / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    done = run(None, image, __file__)
    assert_refused(done, f"{missing} does not exist; set FATE_PROJECT")


def test_a_missing_wheel_and_an_unknown_option_are_refused(image):
    assert_refused(run(None, image), "the wheel '' does not exist")
    assert_refused(run(None, image, __file__, "--force"), "'--force' is not an option")


def test_a_python_that_we_do_not_support_is_refused_with_the_way_out(image, tmp_path):
    stand_in(tmp_path / "bin" / "python", "echo 3.8")
    assert_refused(run(tmp_path, image, __file__), "is 3.8; FATE-DP needs 3.10 or 3.11")


def test_a_python_without_fate_is_refused(image, tmp_path):
    stand_in(tmp_path / "bin" / "python", 'case "$2" in *version_info*) echo 3.10 ;; *) exit 1 ;; esac')
    assert_refused(run(tmp_path, image, __file__), "finds no fate and fate_flow")


def test_a_user_that_does_not_exist_is_refused(image):
    assert_refused(run(None, image, __file__, FATE_DP_USER="nobody-here"), "there is no user nobody-here")


def test_the_container_configures_the_fate_flow_of_the_image_and_starts_it_in_its_folder(wheel, prefix, image):
    assert run(prefix, image, wheel, "--no-requirements").returncode == 0
    done = started(prefix, image, "", FATE_DP_CLIENT_AUTHENTICATION="off")
    assert "Configured party 9999" in done.stdout
    written = yaml.safe_load((image / "fate_flow" / "conf" / "local.service_conf.yaml").read_text())
    assert written["database"]["sqlite"]["path"] == f"{image}/fate_flow/database/fate_flow_sqlite.db"
    assert calls(image) == [f"board start in {image}/fateboard", f"flow start in {image}/fate_flow"]
    assert f"its logs are in {image}/fate_flow/logs" in done.stderr


def test_with_client_authentication_the_board_does_not_start_and_the_container_says_so(wheel, prefix, image):
    assert run(prefix, image, wheel, "--no-requirements").returncode == 0
    done = started(prefix, image, "", FATE_DP_CLIENT_AUTHENTICATION="on")
    assert "FATE-Board does not start: FATE_DP_CLIENT_AUTHENTICATION is on" in done.stdout
    assert calls(image) == [f"flow start in {image}/fate_flow"]
    assert (image.parent / "keys" / "administrator.key").stat().st_mode & 0o777 == 0o600
    assert "fate_flow_admin" not in (image / "fate_flow" / "python" / "fate_flow" / "settings.py").read_text()


@pytest.mark.parametrize(
    "answers, asked",
    [("no " * 14 + "yes", 14 + 1 + 3), ("yes no no yes", 4 + 3), ("", 12 + 3)],
    ids=["slow", "hiccup", "never"],
)
def test_a_start_may_take_two_minutes_and_then_three_misses_end_the_container(answers, asked, prefix, image):
    """FATE-Flow's own script calls a start that takes more than 5 s failed."""
    done = started(prefix, image, answers, configure="exit 0")
    assert done.returncode == 1 and done.stderr.startswith("FATE-Flow does not answer; the container ends")
    assert (image / "asked").read_text().count("health") == asked


def started(prefix, image, answers, configure='exec "{python}" "$@"', **variables):
    """start.sh, whose clock stands still and whose health check finds `answers` one after the other, then none."""
    (image / "answers").write_text(answers.replace(" ", "\n") + "\n")
    stand_in(image / "stand-ins" / "sleep", "exit 0")
    stand_in(
        image / "stand-ins" / "python",
        f"""
case "$2" in
    *.configure) {configure.format(python=prefix / "bin" / "python")} ;;
    *.health)
        echo health >>{image}/asked
        [ "$(sed -n "$(wc -l <{image}/asked)p" {image}/answers)" = yes ] ;;
esac""",
    )
    (image / "password").write_text("secret\n")
    path = f"{image / 'stand-ins'}{os.pathsep}{os.environ['PATH']}"
    return run(
        prefix,
        image,
        script="start.sh",
        PATH=path,
        FATE_DP_PARTY="9999",
        FATE_DP_BOARD_PASSWORD_FILE=str(image / "password"),
        **variables,
    )


def calls(image):
    return (image / "calls").read_text().splitlines()


def stand_in(path, program):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{program}\n")
    path.chmod(0o755)


def assert_refused(done, told):
    assert done.returncode == 1 and told in done.stderr and done.stderr.count("\n") == 1, done.stderr
