"""What a first user stumbled over: messages that name the home and the option, and plans that read the ledger."""

import errno
import json
import os
import re
import shlex
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from ledger_scenarios import release, score

from fate_dp.components.shuffler.statistics import summary
from fate_dp.deploy.flow import home_command
from fate_dp.pipelines.cli.main import main
from fate_dp.pipelines.jobs.csv_files import TableMeta
from fate_dp.pipelines.jobs.flow import FlowUnavailable, resolve_flow
from fate_dp.pipelines.jobs.populations import Owner
from fate_dp.privacy import Ledger
from fate_dp.privacy.ledger.policy import declare_source, load_policy

SOURCE = "bank/loans/y"


@pytest.fixture
def home(tmp_path):
    for party_id in ("9999", "10000"):
        (tmp_path / "parties" / f"party-{party_id}").mkdir(parents=True)
    return tmp_path


def path_of(home, party, name):
    return home / "parties" / f"party-{party}" / name


def test_a_command_names_a_home_that_is_not_the_default_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert home_command("down", ".fate-dp") == home_command("down", tmp_path / ".fate-dp") == "fate-dp down"
    assert home_command("down", "other") == "fate-dp down --home other"
    with pytest.raises(FlowUnavailable, match="start one with `fate-dp up --home other` or pass"):
        resolve_flow(None, "other")


@pytest.mark.parametrize(
    "header, options, sentence",
    [
        ("person,y", [], "has no id column 'id'; name it with --id: its columns are person, y."),
        ("id,income", [], "has no label column 'y'; its columns are id, income."),
    ],
)
def test_declaring_public_labels_names_what_is_missing(home, capsys, header, options, sentence):
    (home / "labels.csv").write_text(f"{header}\n1,0\n")
    assert main(["declare", SOURCE, "--home", str(home), "--public", str(home / "labels.csv"), *options]) == 1
    told = capsys.readouterr()
    assert told.err.endswith(f"{sentence}\n") and not told.out
    assert not load_policy(path_of(home, "9999", "policy.yaml")).is_declared(SOURCE)


COMMANDS = {
    "declare": ["declare", SOURCE],
    "declare --public": ["declare", SOURCE, "--public", "table.csv"],
    "declare-table": ["declare-table", "table.csv", "bank/loans", "--epsilon", "1"],
    "canaries": ["canaries", "table.csv", SOURCE, "--out", "planted.csv", "--count", "10"],
    "ledger": ["ledger", "--html", "ledger.html"],
    "cap": ["cap", "bank/loans", "--labels", "2"],
    "backup": ["backup", "copies"],
    "up": ["up"],
    "demo": ["demo", "--out", "results"],
}


@pytest.mark.parametrize("trouble", ["full disk", "a file where the home should be"])
@pytest.mark.parametrize("command", COMMANDS)
def test_an_error_of_the_system_is_one_sentence_and_names_what_it_met(tmp_path, monkeypatch, capsys, command, trouble):
    monkeypatch.chdir(tmp_path)
    Path("table.csv").write_text("id,y,x\n" + "".join(f"c{row},{row % 2},{row}\n" for row in range(20)))
    assert main(["declare", SOURCE, "--home", ".fate-dp"]) == 0
    if trouble == "full disk":

        def full(*_, **__):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", full)
        monkeypatch.setattr(shutil, "copyfile", full)
    else:
        Path("home").write_text("")
    capsys.readouterr()
    home = ".fate-dp" if trouble == "full disk" else "home"
    assert main([*COMMANDS[command], "--home", home]) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and re.search(r"fate-dp|home|results|copies|planted.csv|ledger.html", told)


def test_printed_commands_can_be_pasted_whatever_the_names(tmp_path, capsys):
    home, source = tmp_path / "家 'h", "银行/贷 款's/y"
    assert shlex.split(home_command("down", home))[-1] == str(home)
    told = []
    meta, ids = TableMeta(label_name="y"), [str(row) for row in range(9)]
    server = SimpleNamespace(site=SimpleNamespace(info=dict))
    csv = SimpleNamespace(meta=meta, ids=ids, written_ids=ids, features=[])
    Owner("9999", told.append, shlex.join(["fate-dp", "upload", "a b.csv"])).declare(server, home, source[:-2], csv)
    pasted = [shlex.split(sentence.split("`")[1]) for sentence in told]
    assert pasted == [
        ["fate-dp", "upload", "a b.csv", "--population", source[:-2]],
        ["fate-dp", "declare", source, "--cap", "EPSILON", "--home", str(home)],
    ]


def test_a_source_at_a_party_that_is_no_guest_says_that_it_means_nothing(home, capsys):
    host, guest = (Ledger(path_of(home, party, "ledger.sqlite")) for party in ("10000", "9999"))
    assert main(["declare", SOURCE, "--home", str(home), "--party", "10000"]) == 0
    assert "an effect" not in capsys.readouterr().out
    score(host, "w1")
    assert main(["declare", SOURCE, "--home", str(home), "--party", "10000"]) == 0
    assert "Party 10000 has been a host of jobs; a label source has an effect only in" in capsys.readouterr().out
    guest.remember_dataset("columns:" + "0" * 16, ["a"], records=[b"r"], key_id="k", tables=["bank/loans"])
    assert main(["declare", SOURCE, "--home", str(home), "--party", "10000"]) == 0
    told = capsys.readouterr().out
    assert "this has no effect so far: jobs have read bank/loans at party 9999;" in told and "--party 9999" in told
    assert main(["declare", SOURCE, "--home", str(home)]) == 0
    assert "no effect" not in capsys.readouterr().out


def test_a_plan_reads_cap_and_spending_of_a_source(home, capsys):
    plan = ["plan", "labels", "--records", "50", "--epsilon", "2", "--source", SOURCE, "--home", str(home)]
    assert main(plan) == 1
    assert (
        capsys.readouterr().err
        == f"Party 9999 has not declared the label source {SOURCE}; `fate-dp declare {SOURCE}` does.\n"
    )
    declare_source(path_of(home, "9999", "policy.yaml"), SOURCE, cap=7)
    release(Ledger(path_of(home, "9999", "ledger.sqlite")), range(50), 2, source=SOURCE)
    assert main([*plan, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["request"]["cap"], told["request"]["spent"]) == (7.0, 2.0)
    assert (told["releases"], told["left_after_one"]) == (2, 3.0)
    assert main(plan) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "fit the cap 7, of which 2 is spent" in text and "under the same key costs nothing" in text


def test_the_shuffler_says_why_it_spends_less_than_asked():
    def facts(asked, reached):
        privacy = {
            "epsilon": reached,
            "delta": 1e-6,
            "observers": ["server"],
            "epsilon0": 4.2,
            "epsilon if shuffler and server pool what they see": 4.2,
        }
        meta = {"privacy": privacy, "epsilon": asked, "min_messages": 16000}
        return summary(
            {"meta": meta, "data": {"statistics": [dict(messages=1, kind="frequency", column="a", shares=[])]}}, 1
        )

    assert "ln(messages / (16 ln(4 / delta)))" in facts(1.0, 0.766)["why less than epsilon 1"]
    assert not [name for given in ((1.0, 0.999), (None, 0.5)) for name in facts(*given) if name.startswith("why")]
