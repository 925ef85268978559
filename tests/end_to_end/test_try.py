"""`fate-dp try` as docs/howto/scorecard.md prints it, on files of a bank and a shop; then what the page says of the model."""

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import yaml
from sklearn.metrics import roc_auc_score

from fate_dp.components.common.charges import columns_name
from fate_dp.pipelines.cli.main import main
from fate_dp.pipelines.jobs.party_ledgers import home_at
from fate_dp.privacy.validation import DEFAULT_DELTA
from tests import bank_files
from tests.board.browser import CHROMIUM, FLAGS
from tests.unit.test_scorecard_formats import evaluated

pytestmark = pytest.mark.end_to_end

WIDTH, HEIGHT = 1100, 1300
PICTURES = "FATE_DP_PICTURES"
"""Names the folder where README's picture is kept; without it the picture is taken all the same, and thrown away."""
PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "scorecard.md").read_text(encoding="utf-8")
COMMAND = re.search(r"^    fate-dp (try scorecard (?:.*\\\n)*.*)$", PAGE, re.MULTILINE)[1].replace("\\\n", " ")
BLOCK = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]


@pytest.fixture(scope="module")
def folder(flow_address, tmp_path_factory):
    """Where the command of the page ran, on the session's server."""
    folder = tmp_path_factory.mktemp("try")
    bank_files.write(folder)
    return folder


@pytest.fixture(scope="module")
def out(folder, flow_home):
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        assert main([*shlex.split(COMMAND), "--home", str(flow_home)]) == 0
        exec(compile(BLOCK, "scorecard.md", "exec"), {})
    return folder / "out" / "try"


def test_the_card_ranks_held_out_customers_and_every_format_scores_alike(out):
    found = json.loads((out / "card.json").read_text(encoding="utf-8"))
    bank, shop = bank_files.tables()
    joined = bank.merge(shop.rename(columns={"客户号": "customer"}), on="customer")
    texts = {"region": bank_files.REGIONS, "年龄段": bank_files.AGES}
    score, source = runpy.run_path(str(out / "card.py"))["score"], (out / "card.pmml").read_text(encoding="utf-8")
    points = []
    for at, row in enumerate(joined.to_dict("records")):
        values = {name: texts[name].index(value) if name in texts else value for name, value in row.items()}
        record = {
            name if name in bank else f"host 10000: {name}": None if value == "" else float(value)
            for name, value in values.items()
            if name not in ("customer", "default")
        }
        points.append(score(record)[0])
        if at < 20:
            assert evaluated(source, record)["points"] == points[-1]
    assert roc_auc_score(joined["default"], -np.array(points)) > 0.65
    assert found["model"]["data"]["scorecard"]["columns"][0]["records"]


def test_the_page_has_the_names_whiskers_and_measures_and_no_measure_beyond_1(out):
    page = (out / "card.html").read_text(encoding="utf-8")
    assert "host 10000: 信用分" in page and "青年" in page and 'href="card.pmml"' in page
    assert page.count('class="bar-of-bin"') == len(re.findall(r"±\d+</td>", page)) / 2
    measured = [float(each) for each in re.findall(r"<b>(\d\.\d+)</b>", page)]
    assert len(measured) == 2 and all(0 < each <= 1 for each in measured)
    report = (out / "report.html").read_text(encoding="utf-8")
    assert not re.search("columns:[0-9a-f]{16}", report) and "IV of host 10000: x0" in report


@pytest.mark.skipif(not any(map(shutil.which, CHROMIUM)), reason="Chromium is missing")
def test_the_picture_of_the_readme_is_of_this_page(out, tmp_path):
    picture, program = tmp_path / "report.png", next(filter(None, map(shutil.which, CHROMIUM)))
    flags = [*FLAGS, f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={WIDTH},{HEIGHT}"]
    shot = [program, *flags, f"--screenshot={picture}", f"file://{out / 'card.html'}"]
    subprocess.run(shot, check=True, capture_output=True, timeout=120)
    assert picture.read_bytes().startswith(b"\x89PNG")
    if os.environ.get(PICTURES):
        shutil.copy(picture, Path(os.environ[PICTURES]) / picture.name)


def test_each_party_paid_the_total_that_was_asked_and_no_more(out, flow_home):
    for party, table in zip(("9999", "10000"), bank_files.tables()):
        ledger = home_at(flow_home / "parties", party).ledger
        features = [name for name in table if name not in ("customer", "default", "客户号")]
        assert 0.99 < ledger.spent_by_steps(columns_name(features), DEFAULT_DELTA) <= 1.0


def test_the_bins_that_were_made_cost_nothing_again(out, folder, flow_home, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    rules = yaml.safe_load((out / "bins.yaml").read_text(encoding="utf-8"))
    assert (
        set(rules["host"]) == {"月消费", "逾期次数", "信用分", "年龄段"} and len(rules["guest"]["income"]["cuts"]) >= 3
    )
    again = [*shlex.split(COMMAND), "--home", str(flow_home), "--bins", str(out / "bins.yaml"), "--dry-run"]
    assert main(again) == 0
    assert re.search(r"guest +0 +1 ", capsys.readouterr().out)
