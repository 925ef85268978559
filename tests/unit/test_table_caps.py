"""``fate-dp cap`` and ``fate-dp ledger``: tables by the names that they were uploaded under."""

import json

import pytest
from ledger_scenarios import release
from yaml import safe_load

from fate_dp.components.common.charges import columns_name
from fate_dp.pipelines.cli.main import main
from fate_dp.privacy import Ledger
from fate_dp.privacy.events import ADD_OR_REMOVE, REPLACE_ONE, Event, PureDP
from fate_dp.privacy.ledger.entries import BudgetCap
from fate_dp.privacy.ledger.policy import declare_facts, declare_source
from fate_dp.privacy.table_facts import TableFacts

COLUMNS = [f"x{number}" for number in range(8)]
DATASET = columns_name(COLUMNS)


@pytest.fixture
def home(tmp_path):
    """A host with two tables of the same columns and other records, of which two models and one noisy step were told."""
    for party_id in ("9999", "10000"):
        (tmp_path / "parties" / f"party-{party_id}").mkdir(parents=True)
    host, guest = ledger_of(tmp_path, "10000"), ledger_of(tmp_path, "9999")
    for table, tags in (("bank/payments", "abc"), ("bank/others", "xyz")):
        host.remember_dataset(DATASET, COLUMNS, records=[tag.encode() for tag in tags], key_id="k", tables=[table])
    for number in range(2):
        host.record_scores(
            dataset=DATASET, weights_digest=f"w{number}", purpose="p", rows=3, cap=2, job_id="j", task_id="t"
        )
    host.record_losses(dataset=DATASET, trainings=1, rows=3, cap=40, job_id="j", task_id="t")
    step = Event(PureDP(1.5), "record", REPLACE_ONE, ("guest", "model"))
    host.record(
        dataset=DATASET, event=step, cap=BudgetCap(8, 0), release_key="k", job_id="j", task_id="t", fingerprint="f"
    )
    declare_source(policy_of(tmp_path, "9999"), "bank/loans/y")
    release(guest, range(50), 2, source="bank/loans/y")
    return tmp_path


def ledger_of(home, party):
    return Ledger(home / "parties" / f"party-{party}" / "ledger.sqlite")


def policy_of(home, party):
    return home / "parties" / f"party-{party}" / "policy.yaml"


def run(capsys, home, *arguments):
    status = main(["cap", "--home", str(home), *arguments])
    told = capsys.readouterr()
    return status, told.out, told.err


def lines(capsys, home, *arguments):
    status, out, _ = run(capsys, home, *arguments, "--json")
    assert status == 0
    return {(line["table"], line["kind"]): line for line in json.loads(out[out.index("[") :])}


def test_caps_are_shown_by_table(home, capsys):
    shown = lines(capsys, home)
    assert {key: (line["spent"], line["cap"], line["left"], line["origin"]) for key, line in shown.items()} == {
        ("bank/loans", "labels y, epsilon"): (2.0, 8.0, 6.0, "default"),
        ("bank/payments", "private steps, epsilon"): (
            pytest.approx(1.5, rel=1e-5),
            8.0,
            pytest.approx(6.5, rel=1e-5),
            "default",
        ),
        ("bank/payments", "models whose scores were shown"): (2, 2, 0, "default"),
        ("bank/payments", "trainings whose losses were shown"): (1, 40, 39, "default"),
        ("bank/others", "private steps, epsilon"): (0.0, 8.0, 8.0, "default"),
        ("bank/others", "models whose scores were shown"): (0, 2, 2, "default"),
        ("bank/others", "trainings whose losses were shown"): (0, 40, 40, "default"),
    }
    status, out, _ = run(capsys, home, "bank/payments")
    assert status == 0 and "bank/payments" in out and "bank/others" not in out


def test_a_cap_is_set_for_the_table_and_shown(home, capsys):
    assert run(capsys, home, "bank/payments", "--scores", "3", "--epsilon", "2", "--losses", "5")[0] == 0
    shown = lines(capsys, home, "bank/payments")
    assert shown["bank/payments", "models whose scores were shown"]["cap"] == 3
    assert shown["bank/payments", "trainings whose losses were shown"]["cap"] == 5
    assert shown["bank/payments", "private steps, epsilon"]["cap"] == 2.0
    assert {line["origin"] for line in shown.values()} == {"declared"}
    assert run(capsys, home, "bank/others", "--scores", "1")[0] == 0
    assert lines(capsys, home)["bank/others", "models whose scores were shown"]["cap"] == 1
    assert lines(capsys, home)["bank/payments", "models whose scores were shown"]["cap"] == 3
    assert run(capsys, home, "bank/loans", "--labels", "4")[0] == 0
    assert safe_load(policy_of(home, "9999").read_text())["label_sources"] == {"bank/loans/y": {"cap": 4.0}}


@pytest.mark.parametrize(
    "table, option, value, sentence",
    [
        (
            "bank/payments",
            "--scores",
            "1",
            "--scores is 1, below what the table bank/payments of party 10000 has spent, joint scores of 2 models;",
        ),
        ("bank/payments", "--losses", "0", "has spent, losses of 1 trainings;"),
        ("bank/payments", "--epsilon", "1.4", "has spent, epsilon 1.5 (at delta 1e-06) of its records;"),
        ("bank/loans", "--labels", "1.9", "has spent, epsilon 2 of its labels;"),
        (
            "bank/payments",
            "--labels",
            "3",
            "has 0 declared label sources at party 10000; set the cap of one with `fate-dp declare",
        ),
        ("bank/payments", "--scores", "-1", "must be a whole number from 0 on"),
        ("bank/payments", "--delta", "2", "delta"),
        (
            "bank/typo",
            "--scores",
            "1",
            "The table bank/typo is unknown: no job of any party with a home here has read it",
        ),
        ("payments", "--scores", "1", "table must be NAMESPACE/NAME, as it was uploaded, got 'payments'"),
    ],
)
def test_bad_input_gets_one_sentence_and_changes_nothing(home, capsys, table, option, value, sentence):
    before = {path: path.read_bytes() for path in home.rglob("policy.yaml")}
    status, out, err = run(capsys, home, table, f"{option}={value}")
    assert status == 1 and not out and sentence in err and err.count("\n") == 1
    assert {path: path.read_bytes() for path in home.rglob("policy.yaml")} == before


def test_a_table_that_no_job_has_read_is_known_by_its_upload(home, capsys):
    for party in ("9999", "10000"):
        declare_facts(policy_of(home, party), "bank/new", TableFacts(features=("a", "b")))
    status, _, err = run(capsys, home, "bank/new", "--scores", "5")
    assert status == 1 and err == "No job has read the table bank/new yet; say with --party whose it is.\n"
    assert run(capsys, home, "bank/new", "--epsilon", "5", "--party", "10000")[0] == 0
    assert safe_load(policy_of(home, "10000").read_text())["dataset_caps"] == {
        columns_name(["a", "b"]): {"epsilon": 5.0}
    }
    assert run(capsys, home, "bank/typo", "--epsilon", "5", "--party", "10000")[0] == 1


@pytest.mark.parametrize(
    "option", [["--scores", "5"], ["--rows", "5"], ["--epsilon", "9"], ["--delta", "0.1"]], ids=" ".join
)
def test_a_larger_cap_needs_the_records_of_the_table(home, capsys, option):
    """Its columns alone may be those of another table, or of a part of one."""
    declare_facts(policy_of(home, "10000"), "bank/new", TableFacts(features=("a", "b")))
    before = {path: path.read_bytes() for path in home.rglob("policy.yaml")}
    status, _, err = run(capsys, home, "bank/new", "--party", "10000", *option)
    assert status == 1 and "a cap above the default needs to know its records; use `fate-dp declare-table FILE`" in err
    assert {path: path.read_bytes() for path in home.rglob("policy.yaml")} == before


def test_of_several_caps_none_is_set_where_one_is_malformed(home, capsys):
    before = {path: path.read_bytes() for path in home.rglob("policy.yaml")}
    status, _, err = run(capsys, home, "bank/payments", "--epsilon", "20", "--scores", "-1")
    assert status == 1 and "must be" in err
    assert {path: path.read_bytes() for path in home.rglob("policy.yaml")} == before


def test_the_same_name_at_two_parties_needs_a_party(home, capsys):
    ledger_of(home, "9999").remember_dataset(
        "columns:" + "0" * 16, ["a"], records=[b"r"], key_id="k", tables=["bank/payments"]
    )
    status, _, err = run(capsys, home, "bank/payments", "--scores", "5")
    assert status == 1 and err == "Parties 10000 and 9999 have a table bank/payments; name one with --party.\n"
    assert run(capsys, home, "bank/payments", "--scores", "5", "--party", "10000")[0] == 0


def test_the_smaller_cap_of_a_related_table_is_told(home, capsys):
    host = ledger_of(home, "10000")
    host.remember_dataset("columns:" + "1" * 16, ["z"], records=[b"a"], key_id="k", tables=["bank/part"])
    assert run(capsys, home, "bank/part", "--epsilon", "3")[0] == 0
    status, out, _ = run(capsys, home, "bank/payments", "--epsilon", "5")
    assert "bank/payments counts together with bank/part: they have match ids in common." in out
    assert (
        status == 0
        and "It stays 3 for now, since that is the cap of a table with records in common: table bank/part." in out
    )


def test_a_dataset_without_a_table_is_named_as_the_ledger_shows_it(home, capsys):
    ledger_of(home, "10000").remember_dataset("columns:" + "2" * 16, ["q"], records=[b"q"], key_id="k")
    assert run(capsys, home, "columns:" + "2" * 16, "--scores", "1")[0] == 0
    assert run(capsys, home, "columns:" + "3" * 16, "--scores", "1")[0] == 1


def test_the_ledger_shows_tables_and_refusals_name_table_and_command(home, capsys):
    assert main(["ledger", "--home", str(home)]) == 0
    out = capsys.readouterr().out
    assert "bank/payments" in out and "columns:" not in out
    host = ledger_of(home, "10000")
    with pytest.raises(
        ValueError,
        match="^The table bank/payments has released joint scores of 2 models .* the cap is 2; its "
        "operator changes that with `fate-dp cap bank/payments --scores N`.$",
    ):
        host.check_scores(dataset=DATASET, planned=1, cap=2)
    step = Event(PureDP(9.0), "record", ADD_OR_REMOVE, "guest")
    with pytest.raises(
        ValueError,
        match="^The table bank/others has spent .* its operator changes that with `fate-dp cap "
        "bank/others --epsilon EPSILON`.$",
    ):
        host.check_steps(dataset=f"{DATASET}#2", events=[(step, 1)], cap=BudgetCap(8, 0))
    with pytest.raises(ValueError, match="changes that with `fate-dp cap bank/loans --labels EPSILON`.$"):
        release(ledger_of(home, "9999"), range(50), 7, source="bank/loans/y")


def test_check_tells_what_the_ledger_knows_of_a_table_and_what_parties_may_combine(home, capsys, monkeypatch):
    from fate_dp.components.common.job_files import JobPlan
    from fate_dp.pipelines.cli import check
    from fate_dp.pipelines.jobs import job_history

    parties = [{"role": "guest", "party_id": ["9999"]}, {"role": "host", "party_id": ["10000"]}]
    tables = {"guest_9999": (parties[:1], "loans"), "host_10000": (parties[1:], "payments")}

    def job(component):
        read = {
            "train_data": {
                "task_output_artifact": [{"producer_task": "reader_0", "output_artifact_key": "output_data"}]
            }
        }
        tasks = {
            "reader_0": {"component_ref": "reader", "stage": "default"},
            "a": {"component_ref": component, "inputs": {"data": read}},
        }
        party_tasks = {
            key: {"parties": named, "tasks": {"reader_0": {"parameters": {"namespace": "bank", "name": name}}}}
            for key, (named, name) in tables.items()
        }
        return {"parties": parties, "stage": "train", "tasks": tasks, "party_tasks": party_tasks}

    path = home / "job.json"
    path.write_text(json.dumps({"dag": job("hetero_secureboost")}))
    arguments = ["check", str(path), "--home", str(home)]
    assert main(arguments) == 0 and "HISTORY" not in capsys.readouterr().out
    status, told = main([*arguments, "--with-history"]), capsys.readouterr().out
    assert status == 0 and told.count("HISTORY: ") == 3
    assert "epsilon 2.0 at delta 0 (label, replace_one) of bank/loans of party 9999" in told
    assert "of bank/payments of party 10000 from job j" in told and "showed is not known" in told
    # With a FATE-Flow that knows the earlier jobs, what they showed counts.
    monkeypatch.setattr(check, "running_server", lambda options: ("here:1", None))
    monkeypatch.setattr(job_history, "plan_of_job", lambda address, job_id: JobPlan(job("sshe_lr")))
    status, told = main([*arguments, "--with-history"]), capsys.readouterr().out
    assert status == 1 and "Party 10000 has true labels of party 9999 from job" in told and "every record" in told
