"""The demo's result: its schema and the tables for the terminal."""

import copy
import io
import json
import math
import re
from dataclasses import asdict
from pathlib import Path

import pytest
from json_schema import described_properties, violations
from rich.console import Console

from fate_dp.components.dp_hetero_lr.settings import SOLVERS
from fate_dp.pipelines.demo import run as demo
from fate_dp.pipelines.jobs import text_tables as tables
from fate_dp.pipelines.report.guarantees import component_guarantee
from fate_dp.privacy import Ledger
from fate_dp.privacy.labels.flips import flip_labels, label_tags, record_tags
from fate_dp.privacy.private_files import key_id

SCHEMA = json.loads(Path(demo.__file__).with_name("result_schema.json").read_text(encoding="utf-8"))
SOURCE, PUBLIC_SOURCE, DATASET = "experiment/breast_guest/y", "public/breast_guest/y", "columns:0f1e2d3c4b5a6978"
KEY, JOB = b"k" * 32, {"job_id": "202501010900000000010", "task_id": "task"}
TASKS = (
    ("train", "reader_0", 7.4),
    ("train", "psi_0", 11.9),
    ("train", "label_flip_0", 8.2),
    ("train", "dp_hetero_lr_0", 41.7),
    ("train", "evaluation_0", 7.7),
    ("predict", "reader_1", 7.1),
    ("predict", "psi_1", 11.2),
    ("predict", "dp_hetero_lr_0", 9.6),
    ("baseline", "dp_hetero_lr_0", 40.2),
    ("guest alone", "local fit", 0.4),
)


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return example_result(tmp_path_factory.mktemp("homes"))


def example_result(folder, solver="cross_product"):
    """A result such as the demo makes, with entries of real ledgers."""
    protocol = component_guarantee(demo.COMPONENT).protocol(solver)
    jobs = ("train", "predict", "baseline")
    return {
        "schema": "fate-dp/demo-result/5",
        "created": "2025-01-01T09:04:11+00:00",
        "fate_dp_version": "0.2.0",
        "fate_version": "2.2.0",
        "data": {
            "name": "breast cancer (scikit-learn)",
            "seed": 2024,
            "parties": [
                {"party": "guest 9999", "features": 10, "rows": {"train": 405, "test": 136}},
                {"party": "host 10000", "features": 20, "rows": {"train": 405, "test": 136}},
            ],
            "common_rows": {"train": 386, "test": 129},
        },
        "models": {
            "private": example_model("federated, labels flipped", 2, 0.9612, 0.55),
            "guest_only": example_model("guest alone, labels flipped", 2, 0.9225, None),
            "not_private": example_model("federated, no privacy", "infinity", 0.9767, 0.31),
        },
        "training_figures": [
            {
                "measure": "accuracy",
                "on_flips": 0.8541,
                "estimate": 0.9649,
                "standard_error": 0.0231,
                "most_bias": 0.0312,
            },
            {"measure": "AUC", "on_flips": 0.8702, "estimate": 1.0021, "standard_error": 0.0196, "most_bias": None},
            {"measure": "KS", "on_flips": 0.7213, "estimate": 0.9711, "standard_error": 0.0402, "most_bias": 0.0214},
        ],
        "privacy": {
            "protocol": json.loads(json.dumps({"component": demo.COMPONENT, **asdict(protocol)})),
            "epsilon_per_observer": demo.guarantees(protocol, 2),
            "score_releases": [{"party": "host 10000", "table": "table demo/host", "released": 2, "cap": 5}],
        },
        "ledgers": example_ledgers(folder),
        "seconds": {
            "total": 171.3,
            "tasks": [{"job": job, "task": task, "seconds": seconds} for job, task, seconds in TASKS],
        },
        "jobs": [{"name": name, "job_id": f"20250101090000000{place}000"} for place, name in enumerate(jobs)],
    }


def example_model(title, epsilon, accuracy, last_loss):
    losses = [] if last_loss is None else [last_loss + 0.4 * math.exp(-epoch / 6) for epoch in range(30)]
    return {
        "title": title,
        "epsilon": epsilon,
        "flipback": "none",
        "metrics": {
            "accuracy": accuracy,
            "auc": accuracy + 0.02,
            "precision": accuracy - 0.01,
            "recall": accuracy + 0.005,
            "f1": accuracy - 0.002,
            "rows": 129,
        },
        "loss_per_epoch": losses,
        "epochs_run": len(losses) or None,
    }


def example_ledgers(folder):
    ids, labels = [str(number) for number in range(386)], [number % 2 for number in range(386)]
    flipped = [str(label) for label in flip_labels(ids, labels, 2, 2, KEY, SOURCE).tolist()]
    rows = zip(record_tags(ids, KEY, SOURCE), label_tags(ids, labels, KEY, SOURCE), flipped)
    guest, host = Ledger(folder / "guest.sqlite"), Ledger(folder / "host.sqlite")
    release = guest.record_flips(
        source=SOURCE, epsilon=2, classes=2, key_id=key_id(KEY), rows=rows, cap=8, fingerprint="f" * 16, **JOB
    )
    guest.mark_released(release.release_id)
    guest.record_not_private(source=PUBLIC_SOURCE, reason="trained on labels declared public", rows=386, **JOB)
    for digest in ("a", "b"):
        host.record_scores(dataset=DATASET, weights_digest=digest, purpose="flipback", rows=386, cap=5, **JOB)
    host.record_prediction(dataset=DATASET, weights_digest="a", rows=129, **JOB)
    return {"guest 9999": guest.entries(), "host 10000": host.entries()}


def rendered(print_something, *arguments, width=100):
    output = io.StringIO()
    print_something(*arguments, Console(file=output, width=width, color_system=None))
    return output.getvalue()


def test_example_follows_the_schema(result):
    assert list(violations(result, SCHEMA)) == []
    assert list(violations(json.loads(json.dumps(result)), SCHEMA)) == []


@pytest.mark.parametrize(
    "breaking",
    [
        lambda result: result.pop("ledgers"),
        lambda result: result.update(schema="fate-dp/demo-result/0"),
        lambda result: result.update(unknown=1),
        lambda result: result["models"]["private"].update(epsilon="large"),
        lambda result: result["models"]["private"]["metrics"].update(accuracy=1.2),
        lambda result: result["seconds"]["tasks"][0].update(seconds="7"),
        lambda result: result["ledgers"]["guest 9999"][0].pop("note"),
    ],
)
def test_schema_finds_what_is_wrong(result, breaking):
    broken = copy.deepcopy(result)
    breaking(broken)
    assert list(violations(broken, SCHEMA))


def test_every_property_of_the_schema_is_described():
    assert [name for name, item in described_properties(SCHEMA) if len(item.get("description", "")) < 5] == []


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_observer_has_the_guarantee_that_is_declared(solver):
    protocol = component_guarantee(demo.COMPONENT).protocol(solver)
    lines = {line["observer"]: line for line in demo.guarantees(protocol, 2.0)}
    assert {name: (line["unit"], line["epsilon"]) for name, line in lines.items()} == {
        **dict.fromkeys(("host", "arbiter", "model"), ("label", 2.0)),
        "guest": ("record", "infinity"),
    }
    assert set(lines) == {view.observer for view in protocol.views}
    assert all(lines[view.observer]["note"] == view.sees for view in protocol.views)


def test_the_solver_is_the_one_that_the_component_says_has_run(monkeypatch, tmp_path):
    """Not the one that was asked for, which may be none."""
    run = demo.Run(demo.Site(None, tmp_path), demo.Site(None, tmp_path), tmp_path, print)
    records = [{"name": "loss", "data": {}}, {"name": "summary", "data": {"solver": "per_epoch"}}]
    monkeypatch.setattr(demo, "task_metrics", lambda *where: records)
    assert run.summary(type("Ended", (), {"job_id": "1"}))["solver"] == "per_epoch"


def test_names_are_text_and_never_markup(result):
    hostile = "<script>alert('$x_1$')</script> [bold]$epsilon"
    named = copy.deepcopy(result)
    named["data"]["name"] = named["models"]["private"]["title"] = named["jobs"][0]["name"] = hostile
    named["ledgers"][hostile] = named["ledgers"].pop("guest 9999")
    for line in named["seconds"]["tasks"]:
        line["job"] = line["task"] = hostile
    assert "[bold]" in rendered(tables.print_result, named)


def test_terminal_shows_metrics_guarantees_and_times(result):
    text = rendered(tables.print_result, result)
    assert max(map(len, text.splitlines())) <= 100 and "\x1b" not in text
    assert re.search(r"federated, labels flipped +2 +none +0\.961 +0\.981 +0\.951 +0\.966 +0\.959", text)
    assert re.search(r"federated, no privacy +infinity +none +0\.977", text)
    assert re.search(r"host +label +replace_one +2 +0 +The others' rows", text)
    assert re.search(r"train +psi_0 +11\.9", text) and "2 of at most 5" in text and "171 in all" in text


def test_terminal_shows_one_line_per_ledger_entry(result):
    text = rendered(tables.print_ledger, result["ledgers"])
    assert max(map(len, text.splitlines())) < 100
    for entry in (entry for entries in result["ledgers"].values() for entry in entries):
        lines = [line for line in text.splitlines() if entry["mechanism"] in line and entry["source"] in line]
        assert lines and f"No. {entry['entry_id']}: {entry['note']}." in text
    assert len([line for line in text.splitlines() if "randomized_response" in line]) == 1


def test_narrow_terminal_keeps_every_number(result):
    text = rendered(tables.print_result, result, width=80)
    assert "0.961" in text and "infinity" in text and max(map(len, text.splitlines())) <= 80


def test_the_figures_on_flips_stand_beside_the_corrected_ones(result):
    assert tables.training_table(result).rows == (
        ("accuracy", "0.854", "0.965 (0.888 to 1.000)"),
        ("AUC", "0.870", "1.000 (0.964 to 1.000, or less)"),
        ("KS", "0.721", "0.971 (0.871 to 1.000)"),
    )
    assert "0.965 (0.888 to 1.000)" in rendered(tables.print_result, result)


def test_the_demo_takes_the_figures_from_the_summary_of_the_training():
    summary = {"solver": "cross_product"}
    for name, value in (("accuracy", 0.8), ("AUC", 0.7), ("KS", 0.5)):
        summary |= {
            f"training rows: {name} on flips": value,
            f"training rows: {name} on true labels, estimated": value + 0.1,
            f"training rows: {name}, standard error": 0.01,
        }
    found = demo.training_figures(summary | {"training rows: AUC, bias": 0.02, "training rows: KS, bias": "3e-07"})
    assert [line["most_bias"] for line in found] == [None, 0.02, 3e-7] and found[1]["estimate"] == pytest.approx(0.8)
