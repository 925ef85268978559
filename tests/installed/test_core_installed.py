"""`pip install fate-dp`: the privacy core alone, from its wheel, in a clean environment of each Python that is at hand.

Takes minutes and packages from an index: `make core-test`, not part of `make test`.
"""

import os
import pwd
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.wheels import ROOT, built_wheel

MEGABYTES = 300
PYTHONS = [("3.10", "numpy<2"), ("3.11", "numpy"), ("3.12", "numpy"), ("3.13", "numpy")]
TESTS = ("conftest", "test_goldens", "test_accountant", "test_mechanism_gaussian", "test_crypto_sealed_box")
INI = "[pytest]\nmarkers =\n    arithmetic: as in pyproject.toml\n    statistical: the same\n"
PROGRAM = "import fate_dp.privacy, fate_dp.crypto.paillier, numpy, sys; print(numpy.__version__)"


def interpreter(version):
    """An interpreter of this version among pyenv's, whose names on the path may run nothing, or there; None without one."""
    versions = Path(os.environ.get("PYENV_ROOT", Path(pwd.getpwuid(os.getuid()).pw_dir) / ".pyenv")) / "versions"
    of_pyenv = sorted(versions.glob(f"{version}.*/bin/python")) if os.access(versions, os.R_OK) else []
    return str(of_pyenv[-1]) if of_pyenv else shutil.which(f"python{version}")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return built_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.mark.parametrize("version, numpy", PYTHONS)
def test_the_core_installs_runs_and_says_which_extra_a_command_needs(version, numpy, wheel, tmp_path):
    found = interpreter(version)
    if found is None:
        pytest.skip(f"There is no Python {version} on the path or in pyenv.")
    folder = tmp_path / "environment"
    subprocess.run([found, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=300)
    python = str(folder / "bin" / "python")

    def run(*command, status=0):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=1800)
        assert done.returncode == status, done.stdout[-1500:] + done.stderr[-1500:]
        return done.stdout + done.stderr

    def install(*wanted):
        run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", *wanted)

    begun = time.perf_counter()
    install(str(wheel), numpy)
    seconds = time.perf_counter() - begun
    megabytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink()) / 1e6
    there = run(python, "-c", PROGRAM).strip()
    print(f"\nPython {version}: numpy {there}, {megabytes:.0f} MB, installed in {seconds:.0f} s")
    assert megabytes <= MEGABYTES and there.startswith("1." if "<" in numpy else "2.")

    command = str(folder / "bin" / "fate-dp")
    assert "keep a label with probability" in run(command, "plan", "labels", "--records", "1000", "--epsilon", "1")
    assert 'pip install "fate-dp[fate]"' in run(command, "up", status=1)
    assert 'pip install "fate-dp[report]"' in run(command, "ledger", "--html", "page.html", status=1)

    install("pytest", "hypothesis")
    (tmp_path / "pytest.ini").write_text(INI)
    for name in TESTS:
        shutil.copy(ROOT / "tests" / "unit" / f"{name}.py", tmp_path)
    run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(f"{name}.py" for name in TESTS[1:]))
