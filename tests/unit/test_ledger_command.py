"""``fate-dp ledger``: entries and totals of every party on this machine, as tables and as JSON."""

import errno
import json
import re
import tempfile
from pathlib import Path

import pytest
from ledger_disk import as_stranger
from ledger_scenarios import DATASET, SOURCE, release, score

from fate_dp.pipelines.cli.main import main
from fate_dp.pipelines.jobs.party_ledgers import all_ledgers, party_ledger
from fate_dp.pipelines.jobs.text_tables import epsilon_text
from fate_dp.privacy import Ledger, gaussian_epsilon
from fate_dp.privacy.events import ADD_OR_REMOVE, Event, Gaussian, PureDP
from fate_dp.privacy.ledger.entries import BudgetCap

TOTAL_KEYS = ["dataset", "unit", "relation", "observer", "epsilon", "delta", "note"]


@pytest.fixture
def home(tmp_path):
    parties = tmp_path / "parties"
    for party_id in ("9999", "10000", "10001"):
        (parties / f"party-{party_id}").mkdir(parents=True)
    guest, host = (Ledger(parties / f"party-{party_id}" / "ledger.sqlite") for party_id in ("9999", "10000"))
    release(guest, range(50), 2)
    release(guest, range(50), 0.5)
    score(host, "w1")
    job = {"cap": BudgetCap(9, 1e-6), "job_id": "job", "task_id": "task", "fingerprint": "f"}
    noise = Event(Gaussian(2.0), "record", ADD_OR_REMOVE, ("server", "model"))
    host.record(dataset="bank/loans", event=noise, release_key="noise", **job)
    host.record(
        dataset="bank/loans", event=Event(PureDP(0.5), "record", ADD_OR_REMOVE, "server"), release_key="mean", **job
    )
    return tmp_path


def shown(capsys, home, *arguments, status=0):
    assert main(["ledger", "--home", str(home), *arguments]) == status
    return capsys.readouterr().out


def test_tables_show_entries_and_totals(home, capsys):
    text = shown(capsys, home)
    *table, where = text.splitlines()
    assert max(map(len, table)) <= 100 and where == f"These ledgers are in {home / 'parties'}."
    assert "Ledger of party 10001: nothing was released." in text and "Totals of party 10001" not in text
    for observer in ("arbiter", "host", "model"):
        assert re.search(rf"{SOURCE} +label +replace_one +{observer} +2\.[0-9]+ +1e-06", text)
    assert re.search(rf"{DATASET} +record +replace_one +guest +infinity +1e-06", text)
    assert re.search(r"bank/loans +record +add_or_remove +server +[0-9.]+ +1e-06", text)
    assert re.search(r"2 bank/loans +Gaussian +[0-9.]+ 1e-06 record model, server", text)


def test_delta_is_chosen_by_the_reader(home, capsys):
    text = shown(capsys, home, "--delta", "0")
    assert re.search(rf"{SOURCE} +label +replace_one +everybody +2\.5 +0", text)
    assert re.search(r"bank/loans +record +add_or_remove +model +infinity +0", text)


def test_json_has_entries_and_totals_of_every_party(home, capsys):
    ledgers = json.loads(shown(capsys, home, "--json", "--delta", "1e-6"))
    assert list(ledgers) == ["party 10000", "party 10001", "party 9999"]
    assert ledgers["party 10001"] == {"entries": [], "totals": [], "budgets": [], "tables": {}}
    totals = ledgers["party 10000"]["totals"]
    assert [list(line) for line in totals] == [TOTAL_KEYS] * 8
    epsilons = {(line["dataset"], line["observer"]): line["epsilon"] for line in totals}
    assert epsilons[DATASET, "guest"] == "infinity"
    assert 0 < epsilons["bank/loans", "model"] < epsilons["bank/loans", "server"]
    assert {line["delta"] for line in totals} == {1e-6}
    assert ledgers["party 9999"]["entries"] == party_ledger(home / "parties", "9999")


@pytest.mark.parametrize("delta", ["0", "1e-5"])
def test_budgets_are_at_the_delta_of_their_cap_whatever_the_reader_asks(home, capsys, delta):
    policy = f"label_sources: {{{SOURCE}: {{cap: 4}}}}\ndataset_caps: {{bank/loans: {{epsilon: 9, delta: 1.0e-9}}}}\n"
    for party_id in ("9999", "10000"):
        (home / "parties" / f"party-{party_id}" / "policy.yaml").write_text(policy)
    ledgers = json.loads(shown(capsys, home, "--json", "--delta", delta))
    flips = {"dataset": SOURCE, "unit": "label", "relation": "replace_one", "epsilon": 2.5, "delta": 0.0, "cap": 4.0}
    assert ledgers["party 9999"]["budgets"] == [{**flips, "observer": "everybody", "left": 1.5}]
    (seen,) = (line for line in ledgers["party 10000"]["budgets"] if line["dataset"] == "bank/loans")
    assert seen["epsilon"] > gaussian_epsilon(1.0, 1e-9)
    assert seen["left"] == 9 - seen["epsilon"] and (seen["observer"], seen["delta"]) == ("everybody", 1e-9)
    assert re.search(rf"{SOURCE} +label +replace_one +everybody +2\.5 +4 +1\.5 +0 *\n", shown(capsys, home))


def test_no_home_is_said(tmp_path, capsys):
    folder = tmp_path.absolute() / "typo" / "parties"
    assert shown(capsys, tmp_path / "typo", status=1).startswith(f"No party has a home in {folder}; name")
    assert json.loads(shown(capsys, tmp_path / "typo", "--json", status=1)) == {}


def test_the_home_is_the_one_given_else_that_of_the_environment_else_the_usual_one(home, tmp_path, capsys, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FATE_DP_HOME", str(elsewhere))
    assert main(["declare", "bank/loans/z", "--cap", "2"]) == 0
    assert (elsewhere / "party-9999" / "policy.yaml").exists()
    capsys.readouterr()
    assert main(["ledger", "--json", "--home", str(home)]) == 0
    assert "party 10000" in json.loads(capsys.readouterr().out)
    monkeypatch.delenv("FATE_DP_HOME")
    assert main(["declare", "bank/loans/z", "--cap", "2"]) == 0
    assert (tmp_path / ".fate-dp" / "parties" / "party-9999" / "policy.yaml").exists()


@pytest.mark.parametrize("number, said", [("ENOSPC", "No space left on device"), ("EISDIR", "Is a directory")])
def test_an_error_of_the_system_is_one_sentence_in_every_command(home, capsys, monkeypatch, number, said):
    def fails(*_):
        raise OSError(getattr(errno, number), "", "/disk/ledger")

    monkeypatch.setattr("fate_dp.pipelines.cli.tables.all_ledgers", fails)
    assert main(["ledger", "--home", str(home)]) == 1
    assert capsys.readouterr().err == f"/disk/ledger cannot be used: {said}.\n"


@pytest.mark.parametrize("closed", ["parties", "parties/party-9999"])
def test_what_cannot_be_read_is_refused_and_not_shown_as_empty(closed):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        release(Ledger(folder / "parties" / "party-9999" / "ledger.sqlite"), range(5), 2)
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o777)
        (folder / closed).chmod(0o600)
        outcome = as_stranger(lambda: all_ledgers(folder / "parties", 1e-5))
        (folder / closed).chmod(0o700)
    assert outcome.startswith("LedgerUnavailable: The path ")
    assert outcome.endswith(" cannot be read: Permission denied.") and "\n" not in outcome


@pytest.mark.parametrize("delta", ["1", "-1e-9", "nan"])
def test_a_delta_that_is_none_is_refused_in_one_sentence(home, capsys, delta):
    assert main(["ledger", "--home", str(home), f"--delta={delta}"]) == 1
    assert "must be a number of at least 0 and less than 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    "epsilon, text",
    [
        (2, "2"),
        (2.0, "2"),
        (0.1, "0.1"),
        (0.125, "0.125"),
        (0.1 + 0.2, "0.3"),
        (0.430784, "0.44"),
        (0.499717, "0.5"),
        (2.3456781, "2.35"),
        (3.0000001, "3.01"),
        (0.0012345, "0.0013"),
        ("infinity", "infinity"),
        (0.0, "0"),
        (123456.204, "123456.21"),
        (1e5, "100000"),
    ],
)
def test_a_computed_epsilon_has_two_digits_and_is_never_below_the_true_one(epsilon, text):
    assert epsilon_text(epsilon) == text
