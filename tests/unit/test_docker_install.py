"""The image's install script in a plain environment: a prefix that sees FATE, a folder laid out like the image's.

What needs an engine (the base image itself, its Python and its users) is not tried here.
"""
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "deploy" / "docker" / "install.sh"
PARTS = ("privacy", "crypto", "components", "pipelines", "conf", "data_prep", "deploy", "bench")
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
    subprocess.run(program, cwd=folder / "source", check=True, timeout=120, capture_output=True)
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
    """Folders and files of the image that the script looks for."""
    project = tmp_path / "fate"
    for path in ("fateflow/bin/service.sh", "fateboard/service.sh", "fateboard/dag/reader.yaml", "bin/init_env.sh"):
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text("")
    (project / "fateboard" / "dag" / "reader.yaml").write_text(READER)
    return project


def run(prefix, image, *arguments, **variables):
    path = f"{prefix / 'bin'}{os.pathsep}{os.environ['PATH']}" if prefix else os.environ["PATH"]
    environment = {"PATH": path, "HOME": str(image.parent), "FATE_PROJECT": str(image), "PIP_NO_INDEX": "1",
                   "FATE_DP_HOME": str(image.parent / "keys"), "PYTHONDONTWRITEBYTECODE": "1", **variables}  # fmt: skip
    return subprocess.run(["bash", str(SCRIPT), *map(str, arguments)], env=environment, capture_output=True, text=True,
                          timeout=120, stdin=subprocess.DEVNULL)  # fmt: skip


def test_the_wheel_the_components_and_the_boards_descriptions_are_installed(wheel, prefix, image):
    done = run(prefix, image, wheel, "--no-requirements")
    assert done.returncode == 0, done.stderr
    names = "align, dp_hetero_lr, dp_homo_nn, flipback, label_flip, share_lr, shuffler, smote"
    assert f"Components: {names}." in done.stdout
    assert f"8 of 8 descriptions written to {image}/fateboard/dag." in done.stdout
    assert done.stdout.endswith("FATE-DP is installed.\n")
    (installed,) = prefix.glob("lib/python3*/site-packages/fate_dp/components/label_flip/component.py")
    assert installed.is_file() and (prefix / "bin" / "fate-dp").is_file()
    assert (image.parent / "keys").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("missing", ["fateflow/bin/service.sh", "fateboard/service.sh", "fateboard/dag"])
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


def stand_in(path, program):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{program}\n")
    path.chmod(0o755)


def assert_refused(done, told):
    assert done.returncode == 1 and told in done.stderr and done.stderr.count("\n") == 1, done.stderr
