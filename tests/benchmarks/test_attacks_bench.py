"""What `make bench-attacks` makes of its lines, on made-up ones: figures, cells of the table, the page."""

import json
import sys

import numpy as np
import pytest

from bench import attacks
from bench.attack_methods.results import AttackResult, Cost, Yardstick, bootstrap
from bench.attacks_bounds import TITLE
from bench.attacks_labels import BINNING, FIT, NO_FLIPS, flips, label_figures, share_line
from bench.attacks_models import Attacked
from bench.attacks_page import write_page
from bench.attacks_pictures import MNIST
from bench.attacks_tables import FILE
from bench.attacks_trials import HEADINGS, Figure, Line, row, summarised
from fate_dp.attacks.of_views import Interval


def line(attack, defence, values, unit="dB", yardstick=None, pictures=None):
    values, baselines = np.array(values), np.full(len(values), 12.0 if unit == "dB" else 0.4)
    statistic = np.median if unit == "dB" else np.mean
    result = AttackResult(
        "made up",
        attack,
        defence,
        float(statistic(values)),
        unit,
        bootstrap(values),
        float(baselines[0]),
        yardstick,
        len(values),
        Cost(0.5, 10),
    )
    return Line("a net", result, f"What {defence} is.", values, baselines, None, pictures, pictures)


@pytest.fixture
def lines():
    pictures = np.random.default_rng(0).random((2, 1, 8, 8))
    digits = [
        line("one", "plain averaging", [40.0, 50.0, 60.0], yardstick=Yardstick(30.0, "a control."), pictures=pictures),
        line("one", "epsilon 8", [3.0, 4.0, 5.0]),
        line("two", "epsilon 8", [12.0, 12.5, 14.0]),
        line("two", "epsilon 8, 20 rounds", [12.0, 13.0, 14.0]),
    ]
    loans = [
        line("rows", "plain averaging", [0.9, 1.0], "share", Yardstick(0.8, "a control.")),
        line("rows", "epsilon 4", [0.3, 0.3], "share"),
        line("likely", "epsilon 4", [0.4, 0.5], "share"),
    ]
    return {"digits": digits, "photographs": [], "loans": loans}


def test_figures_are_those_of_the_attack_that_gains_most(lines):
    figures = {figure.name: figure.value for figure in summarised(lines["digits"], lines["loans"])}
    assert figures == {
        "psnr_no_defence": 50.0,
        "psnr_excess_eps_8": 0.5,
        "psnr_excess_eps_8_all_rounds": 1.0,
        "tab_cells_no_defence": pytest.approx(0.95),
        "tab_cells_eps_4": pytest.approx(0.45),
        "tab_cells_public": pytest.approx(0.4),
    }
    assert summarised([], []) == []


def label_line(attack, defence, right, of="coins"):
    bound = defence.bound(np.full(1, 0.5))
    found = np.arange(20_000) < right
    return share_line((attack, of), defence, found, 0.5, None, seconds=0.1, bound=bound)


def test_the_figure_of_labels_is_the_largest_excess_over_the_bound_of_enough_coins():
    lines = [
        label_line(FIT, NO_FLIPS, 20_000),
        label_line(BINNING, NO_FLIPS, 19_000),
        label_line("one", flips(1.0), 14_700),
        label_line("two", flips(0.5), 12_600),
        label_line("learnt", flips(0.5), 20_000, "labels of a logistic law"),
    ]
    figures = {figure.name: figure for figure in label_figures(lines)}
    assert figures["labels_stock_lr"].value == 1.0 and figures["labels_stock_binning"].value == 0.95
    excess = figures["labels_ours_excess"]
    assert excess.value == pytest.approx(0.63 - 1 / (1 + np.exp(-0.5)))
    assert excess.interval.low < excess.value < excess.interval.high


def test_a_line_has_a_cell_under_every_heading(lines):
    cells = dict(zip(HEADINGS, row(lines["loans"][0]), strict=True))
    assert cells["found"] == "0.950 share" and cells["public alone"] == "0.400" and cells["SSIM"] == ""
    assert cells["bound"] == ""
    assert dict(zip(HEADINGS, row(label_line("one", flips(1.0), 14_700)), strict=True))["bound"] == "0.731"


def test_the_page_shows_pictures_and_defences_and_needs_nothing_else(lines, tmp_path):
    write_page(tmp_path / "attacks" / "index.html", lines, summarised(lines["digits"], lines["loans"]), quick=True)
    page = (tmp_path / "attacks" / "index.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 1 and 'src="http' not in page
    assert "What epsilon 8 is." in page and "This was a quick run" in page and "reaches a control." in page


OF_MODELS = ("lira_tpr_no_privacy", "lira_tpr_eps_8")
OF_AUDITS = ("audit_share", "mutants_caught", "false_alarms")
STATED = {
    *("labels_stock_lr", "labels_stock_binning", "labels_ours_excess", "psnr_no_defence", "psnr_excess_eps_8"),
    *("tab_cells_no_defence", "tab_cells_eps_4", *OF_MODELS, *OF_AUDITS),
}


def test_one_last_line_has_every_figure_that_the_project_states(lines, tmp_path, monkeypatch, capsys):
    labels = [
        label_line(FIT, NO_FLIPS, 20_000),
        label_line(BINNING, NO_FLIPS, 19_000),
        label_line("one", flips(1.0), 14_000),
    ]
    of_models = [Figure(name, 0.02, Interval(0.01, 0.03, "made up"), "made up") for name in OF_MODELS]

    def attacked(folder, quick, console, beside):
        assert quick and len(beside) == 4
        beside = [lines["digits"], lines["loans"], labels, (dict.fromkeys(OF_AUDITS, 1.0), {})]
        return Attacked([], of_models, {}, beside, {"digits": 4.0, "loans": 12.0})

    for name in (MNIST, FILE):
        (tmp_path / name).write_bytes(b"")
    monkeypatch.setattr(attacks, "attack_models", attacked)
    monkeypatch.setattr(sys, "argv", ["attacks", "--quick", "--data", str(tmp_path), "--out", str(tmp_path / "out")])
    attacks.main()
    printed = capsys.readouterr().out.strip().splitlines()
    assert "Of these loans 12, digits 4." in printed
    last = json.loads(printed[-1])
    assert last["bench"] == "attacks" and set(last["figures"]) >= STATED
    assert last["figures"]["beyond_bounds"] == 0 and last["figures"]["psnr_excess_eps_8"] == 0.5
    assert TITLE in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


def test_stages_give_each_its_own_results_and_say_what_was_said_in_their_processes():
    said = []

    def attack(number, progress):
        progress(f"attack {number}")
        return [number]

    stage = attacks.told_stage("made up", (attack, attack), (7,), said.append)
    ticks = []
    found = [job.function(*job.arguments, lambda: ticks.append(1)) for job in stage.jobs]
    assert not said and stage.finish(found) == [7, 7] and said == ["attack 7"] * 2 and len(ticks) == 2
