"""The demo as a reader of the README runs it, on a server of its own; README's picture is taken of the report that it writes."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from fate_dp.deploy.flow.server import down
from fate_dp.pipelines.cli.main import main
from tests.board.browser import CHROMIUM, FLAGS

WIDTH, HEIGHT = 1100, 1500
PICTURES = "FATE_DP_PICTURES"
"""Names the folder where README's picture is kept; without it the picture is taken all the same, and thrown away."""


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    try:
        assert main(["demo", "--home", str(folder / "home"), "--out", str(folder / "out")]) == 0
        yield folder / "out"
    finally:
        down(folder / "home")


def test_the_demo_tells_what_it_protects_and_no_measure_beyond_its_range(out):
    result, page = json.loads((out / "result.json").read_text()), (out / "report.html").read_text(encoding="utf-8")
    assert result["models"]["private"]["metrics"]["auc"] > 0.9
    assert all(0 <= line["estimate"] <= 1 for line in result["training_figures"])
    # The held-out rows that were scored are none of those whose scores are counted.
    assert [(each["table"], each["released"]) for each in result["privacy"]["score_releases"]] == [
        ("table fate_dp_demo/host_train", 1)
    ]
    assert not re.search("columns:[0-9a-f]{16}", page) and (out / "job-train-private.html").is_file()


@pytest.mark.skipif(not any(map(shutil.which, CHROMIUM)), reason="Chromium is missing")
def test_the_picture_of_the_readme_is_of_this_report(out, tmp_path):
    picture, program = tmp_path / "report.png", next(filter(None, map(shutil.which, CHROMIUM)))
    flags = [
        *FLAGS,
        f"--user-data-dir={tmp_path / 'profile'}",
        f"--window-size={WIDTH},{HEIGHT}",
        f"--screenshot={picture}",
    ]
    subprocess.run([program, *flags, f"file://{out / 'report.html'}"], check=True, capture_output=True, timeout=120)
    assert picture.read_bytes().startswith(b"\x89PNG")
    if os.environ.get(PICTURES):
        shutil.copy(picture, Path(os.environ[PICTURES]) / picture.name)
