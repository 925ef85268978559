"""The folders at the top level are one import package whose arrows run downwards, in the checkout and in a wheel."""

import ast
import configparser
import json
import os
import shutil
import subprocess
import sys
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.support.wheels import PARTS, ROOT, built_wheel, copied_sources

FATE = ("fate", "fate_client", "fate_flow", "fate_utils", "fate_test")

IMPORT_ALL = """
import importlib, json, pkgutil, sys
import fate_dp
report = {}
for part in json.loads(sys.argv[1]):
    package = importlib.import_module("fate_dp." + part)
    names = [package.__name__] + [m.name for m in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
    for name in names:
        if not name.endswith("__main__"):
            report[name] = importlib.import_module(name).__file__
report["fate"] = sorted(name for name in sys.modules if name == "fate" or name.startswith("fate."))
print("REPORT" + json.dumps(report))
"""


def sources(*parts):
    return [path for part in parts for path in sorted((ROOT / part).rglob("*.py"))]


def imported_modules(path):
    """Full names of all modules that a file imports, at any depth of the file, relative ones resolved."""
    package = ("fate_dp", *path.relative_to(ROOT).parent.parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = [*package[: len(package) - node.level + 1]] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def offenders(paths, forbidden):
    return [
        f"{path.relative_to(ROOT)}: {name}"
        for path in paths
        for name in imported_modules(path)
        if any(name == prefix or name.startswith(prefix + ".") for prefix in forbidden)
    ]


def import_all(parts, python_path, folder):
    """Import every module of the parts in a fresh interpreter; {module: file} and the modules of FATE's engine."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IMPORT_ALL, json.dumps(parts)],
        env={**os.environ, "PYTHONPATH": python_path},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.split("REPORT")[-1])


def test_no_file_imports_a_part_from_the_root():
    assert offenders([*sources(*PARTS, "tests"), ROOT / "setup.py"], PARTS) == []


def test_the_import_check_sees_an_import_from_the_root(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    (tmp_path / "conf").mkdir()
    guilty = tmp_path / "conf" / "guilty.py"
    guilty.write_text(
        "def late():\n    from privacy.ledger import Ledger\n    import crypto\n    from ..privacy import x\n"
    )
    assert offenders([guilty], PARTS) == ["conf/guilty.py: privacy.ledger.Ledger", "conf/guilty.py: crypto"]
    assert offenders([guilty], ["fate_dp.privacy"]) == ["conf/guilty.py: fate_dp.privacy.x"]


@pytest.mark.parametrize("part, other", [("privacy", "crypto"), ("crypto", "privacy")])
def test_privacy_and_crypto_know_neither_fate_nor_each_other_nor_anything_above(part, other):
    above = [f"fate_dp.{name}" for name in PARTS if name not in (part, other)]
    assert sources(part)
    assert offenders(sources(part), [*FATE, f"fate_dp.{other}", *above]) == []


def test_components_know_nothing_above_them():
    assert offenders(sources("components"), [f"fate_dp.{name}" for name in ("pipelines", "deploy", "conf")]) == []


@pytest.mark.parametrize("part", ["privacy", "crypto", "pipelines"])
def test_importing_a_part_loads_nothing_of_the_fate_engine(part, tmp_path):
    assert import_all([part], str(tmp_path), tmp_path)["fate"] == []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The unpacked wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    built = built_wheel(folder)
    zipfile.ZipFile(built).extractall(folder / "unpacked")
    return folder / "unpacked"


def test_every_module_of_the_checkout_imports_from_the_wheel(wheel, tmp_path):
    report = import_all(PARTS, str(wheel), tmp_path)
    report.pop("fate")
    outside = {name: file for name, file in report.items() if not Path(file).is_relative_to(wheel)}
    assert not outside
    in_checkout = {str(path.relative_to(ROOT)) for path in sources(*PARTS) if path.name != "__main__.py"}
    in_wheel = {str(Path(file).relative_to(wheel / "fate_dp")) for file in report.values() if file.endswith(".py")}
    assert in_checkout == in_wheel


@pytest.mark.parametrize("compiler", ["a-compiler-that-is-not-there", "false"])
def test_a_compiler_that_is_missing_or_fails_leaves_a_package_without_native_code(compiler, tmp_path):
    built = tmp_path / "built"
    done = subprocess.run(
        [sys.executable, "setup.py", "build", "--build-lib", str(built)],
        cwd=copied_sources(tmp_path),
        env={**os.environ, "CC": compiler},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for extension in ("fate_dp.crypto._montgomery", "fate_dp.components.dp_homo_nn._records"):
        assert f'building extension "{extension}" failed' in done.stderr
    assert not list(built.rglob("*.so"))
    # An editable install would bring the native code of the checkout.
    asked = "import sys; sys.meta_path = [finder for finder in sys.meta_path if 'Editable' not in str(finder)]\n"
    asked += "from fate_dp.crypto import kernel; print(kernel.__file__, kernel.kernel().sentence)"
    said = subprocess.run(
        [sys.executable, "-c", asked],
        env={**os.environ, "PYTHONPATH": str(built)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    ).stdout
    assert said.startswith(str(built)) and "was not built or cannot be loaded" in said
    assert "gmpy2 computes instead" in said


def test_data_files_are_in_the_wheel(wheel):
    for path in [
        file
        for part in PARTS
        for kind in ("*.yaml", "*.html", "*.json", "py.typed")
        for file in (ROOT / part).rglob(kind)
    ]:
        assert (wheel / "fate_dp" / path.relative_to(ROOT)).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("compiler, built", [(os.environ.get("CC", "cc"), True), ("/bin/false", False)])
def test_the_kernel_is_built_where_there_is_a_compiler_and_left_out_where_not(compiler, built, tmp_path):
    if built and shutil.which(compiler) is None:
        pytest.skip(f"There is no compiler {compiler} here.")
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", f"--build-lib={tmp_path}", f"--build-temp={tmp_path}/objects"],
        cwd=ROOT,
        env={**os.environ, "CC": compiler, "FATE_DP_KERNEL": "on"},
        timeout=300,
        capture_output=True,
    )
    assert done.returncode == 0 and bool(list(tmp_path.rglob("_montgomery*.so"))) == built


def test_the_wheel_holds_no_tests_and_announces_the_components(wheel):
    assert {path.name.split("-")[0] for path in wheel.iterdir()} == {"fate_dp"}
    assert not (wheel / "fate_dp" / "tests").exists()
    announced = configparser.ConfigParser()
    announced.read(wheel.glob("*.dist-info/entry_points.txt"))
    components = {path.parent.name for path in (ROOT / "components").glob("*/component.py")}
    assert set(announced["fate.ext.component_desc"]) == components and len(components) > 7
    assert set(announced["console_scripts"]) == {"fate-dp"}


def test_the_wheel_brings_the_core_and_names_extras_for_the_rest(wheel):
    """With FATE among its requirements no component would load in FATE's image, which has no record of FATE."""
    (metadata,) = wheel.glob("*.dist-info/METADATA")
    message = message_from_string(metadata.read_text())
    assert SpecifierSet(message["Requires-Python"]) == SpecifierSet(">=3.10,<3.14")
    asked = [Requirement(text) for text in message.get_all("Requires-Dist")]

    def brought(extra):
        return {each.name: each for each in asked if each.marker is None or each.marker.evaluate({"extra": extra})}

    core = {"numpy", "scipy", "mpmath", "dp-accounting", "cryptography", "pynacl", "gmpy2", "pyyaml", "rich"}
    assert set(brought("")) == core
    assert set(brought("nn")) - core == {"torch", "kymatio"}
    assert set(brought("report")) - core == {"jinja2", "matplotlib"}
    with_fate = {
        each.name: str(each.specifier) for each in asked if each.marker and 'extra == "fate"' in str(each.marker)
    }
    assert with_fate.items() >= {"numpy": "<2", "setuptools": "<81", "fate_client": "==2.2.0"}.items()
    assert with_fate.keys() >= {"torch", "kymatio", "jinja2", "matplotlib", "pandas"}


def test_the_core_imports_plans_and_names_the_extra_where_nothing_else_is_installed(tmp_path):
    asked = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in EXTRAS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
from fate_dp.pipelines.cli.main import EXTRAS, main
sys.meta_path.insert(0, Absent())
import importlib, pkgutil
for part in ("privacy", "crypto"):
    package = importlib.import_module("fate_dp." + part)
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(found.name)
assert not set(EXTRAS) & {name.partition(".")[0] for name in sys.modules}
sys.exit(main(sys.argv[1:]))
"""

    def said(*command):
        done = subprocess.run(
            [sys.executable, "-c", asked, *command], cwd=tmp_path, capture_output=True, text=True, timeout=300
        )
        return done.returncode, done.stdout + done.stderr

    status, text = said("plan", "labels", "--records", "100", "--epsilon", "1")
    assert status == 0 and "keep a label with probability" in text
    for command, extra in ((["up"], "fate"), (["ledger", "--html", "page.html"], "report"), (["demo"], "fate")):
        status, text = said(*command)
        assert status == 1 and f'run `pip install "fate-dp[{extra}]"`' in text and text.count("\n") == 1, text
