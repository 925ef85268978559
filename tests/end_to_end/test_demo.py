"""The demo as a reader of the README runs it, on a server of its own."""

import json
import re

import pytest

from fate_dp.deploy.flow.server import down
from fate_dp.pipelines.cli.main import main


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    try:
        assert main(["demo", "--home", str(folder / "home"), "--out", str(folder / "out")]) == 0
        yield folder / "out"
    finally:
        down(folder / "home")


def test_the_demo_tells_what_it_protects_and_no_measure_beyond_its_range(out):
    result, page = (
        json.loads((out / "result.json").read_text()),
        (out / "job-train-private.html").read_text(encoding="utf-8"),
    )
    assert result["models"]["private"]["metrics"]["auc"] > 0.9
    assert all(0 <= line["estimate"] <= 1 for line in result["training_figures"])
    # The held-out rows that were scored are none of those whose scores are counted.
    assert [(each["table"], each["released"]) for each in result["privacy"]["score_releases"]] == [
        ("table fate_dp_demo/host_train", 1)
    ]
    assert not re.search("columns:[0-9a-f]{16}", page)
