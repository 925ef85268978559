"""The facts of a job's report: what one party may know, what several know together, and sentences where there is none."""

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from json_schema import described_properties, violations
from ledger_disk import as_stranger
from recorded_job import (
    ARBITER,
    GUEST,
    HOST,
    HOST_DATA,
    HOST_PURPOSE,
    JOB,
    OTHER_JOB,
    ROWS,
    SOURCE,
    STEP,
    Recorded,
    asked_of,
    homes,
    read,
)

from fate_dp.components.disclosure import tracing
from fate_dp.components.disclosure.declaration import ComponentDisclosure, Output, Shown
from fate_dp.components.disclosure.tracing import NONE, Labels
from fate_dp.pipelines.cli.main import main
from fate_dp.pipelines.jobs.job import TRACEBACK
from fate_dp.pipelines.report import job_documents, job_facts
from fate_dp.pipelines.report.job_documents import document_text, merged, read_report
from fate_dp.pipelines.report.job_facts import figures_of, gather, losses_of
from fate_dp.privacy import Ledger
from fate_dp.privacy.ledger.entries import BudgetCap

SCHEMA = json.loads(Path(job_facts.__file__).with_name("job_report_schema.json").read_text(encoding="utf-8"))
EVIDENCE = ("ml/x.py:1",)


def shows(what, of, to, learns, form="clear", **more):
    return Shown(what, of, to, form, learns, "a message", "something that can be computed", EVIDENCE, **more)


DECLARED = [
    ComponentDisclosure("reader", ("default",), {}, (), (), ()),
    ComponentDisclosure("psi", ("default",), {}, (), (), (shows("ids", ("guest", "host"), ("guest", "host"), "some"),)),
    ComponentDisclosure("label_flip", ("default",), {"epsilon": 2.0}, (Output(("output_data",), "flipped"),), (), ()),
    ComponentDisclosure(
        "dp_hetero_lr",
        ("train",),
        {"train_scores": False},
        (),
        (),
        (
            shows("labels", ("guest",), ("host",), "every", instead="put label_flip before it"),
            shows("features", ("host",), ("guest",), "some", when={"train_scores": [True]}),
            shows("scores", ("host",), ("arbiter",), "sums"),
        ),
    ),
]


@pytest.fixture(autouse=True)
def known(monkeypatch):
    monkeypatch.setattr(tracing, "disclosure_of", {each.component: each for each in DECLARED}.get)


@pytest.fixture
def recorded():
    return Recorded()


@pytest.fixture
def folder(tmp_path):
    return homes(tmp_path / "parties")


@pytest.fixture
def report(recorded, folder):
    def of(party_id=None, **more):
        with asked_of(recorded, folder, party_id, **more) as asked:
            return gather(asked)

    return of


def refused(report, *arguments, **more):
    with pytest.raises(ValueError) as refusal:
        report(*arguments, **more)
    sentence = str(refusal.value)
    assert "\n" not in sentence and sentence.endswith(".")
    return sentence


def test_the_guests_report_is_the_default_and_follows_the_schema(report):
    found = report()
    assert found.parts[0].parties == ("guest 9999",) and found.others == ("host 10000", "arbiter 10001")
    assert list(violations(json.loads(document_text(found)), SCHEMA)) == []


def test_every_property_of_the_schema_is_described():
    assert [name for name, item in described_properties(SCHEMA) if len(item.get("description", "")) < 5] == []


def test_the_dag_comes_in_the_order_of_its_data_with_its_parties(report):
    tasks = report().tasks
    assert [task.name for task in tasks] == ["reader_0", "psi_0", "label_flip_0", "dp_hetero_lr_0"]
    assert tasks[-1].reads == ("label_flip_0",)
    assert tasks[-1].parties == ("guest 9999", "host 10000", "arbiter 10001")
    assert tasks[1].parties == ("guest 9999", "host 10000")


def test_each_party_sees_what_it_saw_or_showed(report):
    def of(party_id):
        return {(each.observer, each.owner, each.what) for each in report(party_id).learned}

    ids = {("guest 9999", "host 10000", "ids"), ("host 10000", "guest 9999", "ids")}
    guest = ids | {("host 10000", "guest 9999", "labels"), ("guest 9999", "host 10000", "features")}
    assert of("9999") == guest
    assert of("10000") == guest | {("arbiter 10001", "host 10000", "scores")}
    assert of("10001") == {("arbiter 10001", "host 10000", "scores")}


def test_the_settings_that_ran_decide(report, recorded):
    recorded.dag["tasks"]["dp_hetero_lr_0"]["parameters"]["train_scores"] = False
    assert "features" not in {each.what for each in report().learned}


def test_flips_are_no_leak_and_true_labels_are(report, recorded):
    labels = next(each for each in report().learned if each.what == "labels")
    assert (labels.labels, labels.epsilon, labels.leaks) == ("flipped", 1.0, False)
    recorded.dag["tasks"]["dp_hetero_lr_0"]["inputs"]["data"]["train_data"] = read("psi_0")
    (leak,) = report().leaks
    assert leak.sentence == "host 10000 can read every true label of guest 9999 in dp_hetero_lr_0"
    assert leak.instead == "put label_flip before it, directly behind psi_0"


def test_a_task_that_never_began_showed_nothing(report, recorded):
    recorded.fail("label_flip_0", f"{TRACEBACK}\nValueError: The label source loans/guest/y has spent epsilon 3.")
    found = report()
    assert found.never_ran == ("dp_hetero_lr_0",)
    assert {each.task for each in found.learned} == {"psi_0"}
    refusals = {run.task: run.refusal for run in found.parts[0].tasks}
    assert refusals["label_flip_0"] == "The label source loans/guest/y has spent epsilon 3."
    assert found.parts[0].status == "failed"
    assert [run.refusal for run in report("10000").parts[0].tasks if run.task == "label_flip_0"] == [""]


def test_no_party_prints_what_only_another_one_knows(report, folder):
    """Values of every other party's ledger, summaries, settings and caps, looked for in the text."""
    guest, host, arbiter = (document_text(report(party_id)) for _, party_id in (GUEST, HOST, ARBITER))
    assert HOST_PURPOSE in host and '"input_count": 140' in host and '"records": 77' in host
    for text in (guest, arbiter):
        assert HOST_PURPOSE not in text and "140" not in text and '"records": 77' not in text
        assert "models whose scores were shown" not in text and "cap on them" not in text
    own = ("0.6259541984732825", "0.8486398572388734", "keep_probability", f'"records": {ROWS}', '"cap": 3.0')
    assert all(value in guest for value in own)
    for value in own:
        assert value not in host and value not in arbiter
    assert '"name": "guest"' in guest and '"name": "guest"' not in host
    for text in (guest, host, arbiter):
        assert "key_id" not in text and "fingerprint" not in text


def test_epsilon_is_of_this_job_and_of_all_jobs(report):
    ledger = report().parts[0].ledger
    told = {(line.dataset, line.observer): (line.epsilon, line.delta) for line in ledger.by_this_job}
    assert told == {(SOURCE, observer): (1.0, 0.0) for observer in ("arbiter", "host", "model")}
    (cap,) = (cap for cap in ledger.caps if cap.kind == "labels y, epsilon")
    assert (cap.spent, cap.cap, cap.left) == (1.0, 3.0, 2.0)
    host = report("10000").parts[0].ledger
    assert [(line.mechanism, line.records) for line in host.lines] == [("joint scores", 77)]
    assert {line.observer for line in host.by_this_job} == {"guest"}
    assert {"server", "model", "guest"} == {line.observer for line in host.by_all_jobs}


def test_a_step_of_several_jobs_is_told_for_one_of_them(folder):
    """Rounds, uses and epsilon are those of the job; the total of all jobs is larger."""
    ledger = Ledger(folder / "party-10000" / "ledger.sqlite")
    (step,) = ledger.entries(job_id=OTHER_JOB)
    more = {"cap": BudgetCap(9, 1e-6), "fingerprint": "f", "task_id": "t", "job_id": JOB}
    for key in ("a", "b", "c"):
        ledger.record(dataset=step["source"], event=STEP, release_key=key, **more)
    entries = {entry["mechanism"]: entry for entry in ledger.entries(job_id=JOB)}
    assert set(entries) == {"joint scores", "PoissonSampledGaussian"}
    assert (entries["PoissonSampledGaussian"]["rounds"], step["rounds"]) == (3, 1)
    assert entries["PoissonSampledGaussian"]["jobs"] == [JOB]

    def server(lines):
        return {line["relation"]: line["epsilon"] for line in lines if line["observer"] == "server"}

    one, other, both = (
        server(ledger.totals(job_id=JOB)),
        server(ledger.totals(job_id=OTHER_JOB)),
        server(ledger.totals()),
    )
    assert other["replace_one"] < one["replace_one"] < both["replace_one"]
    assert ledger.entries(job_id="none") == [] and ledger.totals(job_id="none") == []


def test_totals_stand_at_the_delta_that_the_job_asked_for_with_names_of_tables(report, recorded, folder):
    """Noise on labels has no epsilon at delta 0, and is told at that delta as well."""
    ledger = Ledger(folder / "party-10000" / "ledger.sqlite")
    ledger.remember_dataset(HOST_DATA, ["x"], records=[b"a" * 16], key_id="k", tables=["bank/payments"])
    more = {"cap": BudgetCap(9, 1e-6), "fingerprint": "f", "task_id": "t", "job_id": JOB}
    ledger.record(dataset=HOST_DATA, event=STEP, release_key="s", **more)
    noise = replace(STEP, unit="label", relation="replace_one")
    ledger.record(dataset=f"labels of {HOST_DATA}", event=noise, release_key="l", **more)
    recorded.dag["tasks"]["dp_hetero_lr_0"]["parameters"]["privacy"] = {"delta": "1e-09"}
    found = report("10000").parts[0].ledger
    told = {line.dataset: (line.epsilon, line.delta) for line in found.by_this_job if line.observer == "server"}
    assert set(told) == {"bank/payments", "labels of bank/payments"}
    assert all(epsilon != "infinity" and delta == 1e-9 for epsilon, delta in told.values())
    assert {line.delta for line in found.lines if line.mechanism == STEP.mechanism} == {1e-9}
    assert "columns:" not in document_text(report("10000"))


def test_noise_stands_beside_its_signal(report):
    (flips,) = report().parts[0].noise
    assert flips.acts == "yes" and flips.ratio == pytest.approx(2.71828, rel=1e-4)
    assert f"35.2 flips expected in {ROWS} labels" in flips.noise and "by chance 0.5" in flips.signal
    (scores,) = report("10000").parts[0].noise
    assert (scores.acts, scores.ratio) == ("no noise", None)


def test_measures_stand_on_flips_and_corrected(report):
    part = report().parts[0]
    (figure,) = part.figures
    assert (figure.on, round(figure.value, 3), round(figure.estimate, 3)) == ("flips", 0.626, 0.773)
    assert [run.losses for run in part.tasks if run.losses] == [(0.8486398572388734, 0.7517837994315709)]
    assert report("10000").parts[0].figures == ()


def test_measures_of_fates_evaluation_are_found_at_any_depth():
    """Its lists are within lists; tables of thresholds and what is no finite number are left out."""
    scores = [
        {"metric": "auc", "val": 0.6},
        [{"metric": "ks", "val": 0.2}, {"metric": "ks_table", "val": {"tpr": [0]}}],
    ]
    record = {
        "name": "evaluation",
        "type": "evaluation",
        "data": {"lr_0": {"train_set": [*scores, {"metric": "f", "val": 1e999}]}},
    }
    found = figures_of("evaluation_0", [record], Labels("flipped", 1.0, "flip"))
    assert [(each.rows, each.measure, each.value, each.on) for each in found] == [
        ("lr_0, train_set", "auc", 0.6, "flips"),
        ("lr_0, train_set", "ks", 0.2, "flips"),
    ]
    assert figures_of("x", [{"name": "evaluation", "data": "gone"}, {"name": "summary", "data": None}], NONE) == []


def test_losses_are_read_in_every_form_that_fate_logs_them():
    records = [
        {"type": "loss", "data": [{"metric": 0.5}]},
        {"type": "lr_loss", "data": [0.4]},
        {"type": None, "data": 1},
    ]
    assert losses_of([*records, {"type": "loss", "data": [{"metric": "nan"}, None]}]) == (0.5, 0.4)


def test_reports_of_all_parties_join_to_what_they_know_together(report, tmp_path):
    paths = []
    for party_id in ("10001", "10000", "9999"):
        paths.append(tmp_path / f"{party_id}.json")
        paths[-1].write_text(document_text(report(party_id)))
    found = merged([read_report(path) for path in paths])
    assert [part.party_id for part in found.parts] == ["9999", "10000", "10001"]
    assert found.others == () and len(found.learned) == len(set(found.learned)) == 5
    assert HOST_PURPOSE in document_text(found) and "0.6259541984732825" in document_text(found)
    assert list(violations(json.loads(document_text(found)), SCHEMA)) == []


def test_reports_that_do_not_fit_are_not_joined(report, tmp_path):
    guest, host = report(), report("10000")
    for reports, said in (
        ([guest], "One report"),
        ([guest, guest], "has two reports"),
        ([guest, replace(host, job_id=JOB[:-1] + "1")], "several jobs"),
        ([guest, replace(host, tasks=host.tasks[1:])], "different DAGs"),
    ):
        with pytest.raises(ValueError, match=said):
            merged(reports)


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda document: document.update(schema="fate-dp/job-report/9"), "schema of .* must be"),
        (lambda document: document.pop("parts"), "fields of .* must be"),
        (lambda document: document.update(more=1), "fields of .* must be"),
        (lambda document: document.update(parts=[]), "must be of parties of the job"),
        (lambda document: document["parts"][0].update(parties=["guest 1"]), "must be of parties of the job"),
        (
            lambda document: document["parts"][0].update(seconds="1"),
            "type of seconds in parts in .* must be float, got 'str'",
        ),
        (lambda document: document["parts"][0]["ledger"]["lines"][0].update(epsilon="x"), "was altered"),
        (lambda document: document["learned"][0].update(learns="all"), "was altered"),
        (lambda document: document["parts"][0]["noise"][0].update(entry_id=99), "was altered"),
        (lambda document: document["tasks"][0].update(reads=["psi_0"]), "must come after"),
        (lambda document: document.update(created="yesterday"), "created"),
    ],
)
def test_a_file_that_is_no_report_is_refused(report, tmp_path, change, said):
    document = json.loads(document_text(report()))
    change(document)
    path = tmp_path / "report.json"
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=said) as refusal:
        read_report(path)
    assert str(path) in str(refusal.value)


@pytest.mark.parametrize("text", [None, "{", "[" * 100_000, "[]", '"text"', "\udcff"])
def test_what_is_no_json_is_refused_in_one_sentence(tmp_path, text):
    path = tmp_path / "report.json"
    if text is not None:
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ValueError, match="report.json"):
        read_report(path)


def test_values_that_json_has_no_number_for_are_written_as_text(report, recorded):
    recorded.metrics["psi_0", "guest"] = [("summary", None, {"a": 1.0, "b": [1e999, -1e999]})]
    found = report()
    assert json.loads(document_text(found))["parts"][0]["tasks"][1]["summary"] == {"a": 1.0, "b": ["infinity", "-inf"]}


# What there is no report of.


def test_an_unknown_job_and_one_of_another_site(report):
    assert "knows no job 202611231539387421799" in refused(report, job_id="202611231539387421799")


def test_a_party_that_takes_no_part(report):
    sentence = refused(report, "7777")
    assert "7777 takes no part" in sentence and "guest 9999, host 10000, arbiter 10001" in sentence
    assert "takes no part" in refused(report, "../party-9999")


def test_a_party_of_another_server(report, recorded):
    recorded.jobs = [row for row in recorded.jobs if row["role"] != "host"]
    assert "ask that party's own server" in refused(report, "10000")


def test_a_job_that_still_runs(report, recorded):
    recorded.jobs[0]["status"] = "running"
    assert "has not ended, it is running" in refused(report)


def test_a_dag_with_a_circle(report, recorded):
    recorded.dag["tasks"]["psi_0"]["inputs"]["data"]["input_data"] = read("dp_hetero_lr_0")
    assert "circle" in refused(report)


@pytest.mark.parametrize("parties", [[], [{"party_id": ["9999"]}], None])
def test_parties_without_roles(report, recorded, parties):
    recorded.dag["parties"] = parties
    assert "parties" in refused(report)


def test_a_ledger_that_is_missing(report, folder):
    (folder / "party-9999" / "ledger.sqlite").unlink()
    assert "is missing, but label_flip_0 was charged to it" in refused(report)
    assert not (folder / "party-9999" / "ledger.sqlite").exists()


def test_a_ledger_of_another_home(report, folder):
    with sqlite3.connect(folder / "party-9999" / "ledger.sqlite") as connection:
        connection.execute("UPDATE release SET job_id = 'another'")
    assert "holds no line of this job, but label_flip_0 was charged" in refused(report)


def test_a_ledger_of_a_later_version(report, folder):
    with sqlite3.connect(folder / "party-9999" / "ledger.sqlite") as connection:
        connection.execute("UPDATE ledger_version SET version = 99")
    assert "has version 99" in refused(report)


def test_a_ledger_that_another_user_holds(recorded, folder):
    (folder / "party-9999" / "ledger.sqlite").chmod(0)

    def ask():
        with asked_of(recorded, folder) as asked:
            with pytest.raises(ValueError, match="cannot be used|cannot be read"):
                gather(asked)

    as_stranger(ask)


def test_nothing_of_a_party_without_a_home_is_made(report, folder):
    assert report("10001").parts[0].ledger is None
    assert sorted(path.name for path in folder.iterdir()) == ["party-10000", "party-9999"]


def test_metrics_and_logs_that_were_deleted(report, recorded, tmp_path):
    recorded.metrics = {}
    recorded.fail("dp_hetero_lr_0", "")
    found = report(flow_home=tmp_path / "no-logs")
    assert found.parts[0].figures == () and [run.refusal for run in found.parts[0].tasks] == ["", "", "", ""]


def test_a_component_that_nobody_knows_is_named(report, recorded):
    recorded.dag["tasks"]["psi_0"]["component_ref"] = "their_own"
    found = report()
    assert found.unknown == ("psi_0",) and "psi_0" not in {each.task for each in found.learned}


# The command.


def command(capsys, *arguments):
    status = main(["report", *arguments])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def test_the_command_writes_page_and_json_and_names_leaks(recorded, folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FATE_DP_HOME", str(folder))
    recorded.dag["tasks"]["dp_hetero_lr_0"]["inputs"]["data"]["train_data"] = read("psi_0")
    out = tmp_path / "out"
    with asked_of(recorded, folder) as asked:
        of_server = ("--flow", str(asked.address), "--out", str(out))
        for party_id in ("9999", "10000"):
            status, said, _ = command(capsys, JOB, "--party", party_id, *of_server)
            assert status == 0 and "LEAK: host 10000 can read every true label" in said
        files = [str(out / f"party-{party_id}.json") for party_id in ("9999", "10000")]
        assert command(capsys, "--merge", *files, "--out", str(out))[0] == 0
        assert sorted(path.name for path in out.iterdir()) == sorted(
            f"{name}.{kind}" for name in ("merged", "party-10000", "party-9999") for kind in ("html", "json")
        )
        status, _, said = command(capsys, JOB, "--party", "1", *of_server[:2], "--out", str(tmp_path / "none"))
        assert status == 1 and "takes no part" in said and not (tmp_path / "none").exists()
        status, _, said = command(capsys, JOB, *of_server[:2], "--out", files[0])
        assert status == 1 and "is not a folder" in said


@pytest.mark.parametrize(
    "arguments, said",
    [
        ((), "Name either a JOB_ID"),
        ((JOB, "--merge", "a.json"), "Name either a JOB_ID"),
        (("--merge", "a.json", "--party", "9999"), "--party is for the report of one party"),
        (("--merge", "missing.json"), "missing.json cannot be read"),
        (("job",), "JOB_ID must be the id of a job, of twelve digits or more, got 'job'"),
    ],
)
def test_the_command_refuses_in_one_sentence(capsys, arguments, said):
    status, out, err = command(capsys, *arguments)
    assert (status, out) == (1, "") and said in err and err.count("\n") == 1


def test_a_report_is_read_back_as_it_was(report, tmp_path):
    found = report()
    path = tmp_path / "report.json"
    path.write_text(document_text(found))
    assert read_report(path) == job_documents.WRITTEN.checked(
        job_facts.JobReport, json.loads(document_text(found)), "here"
    )
    assert document_text(read_report(path)) == document_text(found)
