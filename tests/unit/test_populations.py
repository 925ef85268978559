"""Whom the ids of a table name, as uploads and declarations settle it before the first job."""

import shlex
from types import SimpleNamespace

import pytest

from fate_dp.pipelines.cli.main import main
from fate_dp.pipelines.jobs.csv_files import TableMeta
from fate_dp.pipelines.jobs.party_ledgers import home_at
from fate_dp.pipelines.jobs.populations import Owner, declare_table, number_rows
from fate_dp.privacy import InvalidPolicy
from fate_dp.privacy.ledger.policy import load_policy
from fate_dp.privacy.table_facts import TableFacts

LABELLED = TableMeta(label_name="y")
NAMES, NUMBERS = ["anna", "bela", "carl"], [str(number) for number in range(40)]


@pytest.fixture
def parties(tmp_path, monkeypatch):
    monkeypatch.setenv("FATE_DP_HOME", str(tmp_path))
    return tmp_path


def upload(table, ids, party="9999", population=None, label=None, server=""):
    """The sentences for the operator."""
    told = []
    client = SimpleNamespace(site=SimpleNamespace(info=lambda: {"code": 0, "data": {"party_id": server}}))
    meta = TableMeta(label_name=label, facts=TableFacts(population))
    Owner(party, told.append, "fate-dp upload wares.csv").declare(client, None, table, file_of(ids, meta))
    return told


def file_of(ids, meta=LABELLED):
    return SimpleNamespace(meta=meta, ids=ids, written_ids=ids, features=[])


def policy_of(folder, party="9999"):
    return load_policy(folder / f"party-{party}" / "policy.yaml")


def populations(folder, party="9999"):
    return {table: facts.population for table, facts in policy_of(folder, party).tables.items()}


def read(folder, table, tags=(b"a" * 16,), party="9999"):
    """A job reads the table."""
    home_at(folder, party).ledger.remember_dataset("columns:1", ["x"], records=tags, key_id="k", tables=[table])


@pytest.mark.parametrize(
    "ids, numbers",
    [
        (NUMBERS, True),
        (NUMBERS[1:], True),
        (NUMBERS[::-1], True),
        (["1"], True),
        ([str(number) for number in range(1, 41) if number % 10], True),
        ([str(number) for number in range(1, 41) if number % 8], False),
        ([str(number) for number in range(1001, 1041)], False),
        (["01", "02", "03"], False),
        (["1", "2", "x"], False),
        (["-1", "0", "1"], False),
        (["1.0", "2.0"], False),
        (["²", "1"], False),
        ([], False),
    ],
)
def test_ids_number_rows_where_nine_in_ten_of_the_numbers_from_1_occur(ids, numbers):
    assert number_rows(ids) == numbers


def test_row_numbers_are_the_same_records_in_every_table_until_the_operator_says_otherwise(parties):
    assert upload("bank/loans", NAMES) == []
    for table in ("bank/wares", "bank/their goods"):
        (told,) = upload(table, NUMBERS)
        assert "merely number its rows" in told
        assert told.endswith(f"`fate-dp upload wares.csv --population {shlex.quote(table)}`.")
    assert upload("bank/named", NUMBERS, population="wares") == []
    assert populations(parties) == dict.fromkeys(("bank/loans", "bank/wares", "bank/their goods"), "records") | {
        "bank/named": "wares"
    }


def test_a_table_that_is_uploaded_again_keeps_its_population(parties):
    upload("bank/loans", NAMES, population="people")
    read(parties, "bank/loans")
    for ids in (NAMES, NUMBERS):
        assert upload("bank/loans", ids) == [] and upload("bank/loans", ids, population="people") == []
        assert populations(parties) == {"bank/loans": "people"}


def test_until_its_first_job_a_table_may_get_another_population(parties):
    upload("bank/wares", NUMBERS)
    upload("bank/wares", NUMBERS, population="bank/wares")
    assert populations(parties) == {"bank/wares": "bank/wares"}
    upload("bank/wares", NAMES)
    assert populations(parties) == {"bank/wares": "records"}


def test_records_do_not_get_away_from_what_was_counted_of_them(parties):
    upload("bank/wares", NUMBERS, population="bank/wares")
    read(parties, "bank/wares")
    with pytest.raises(InvalidPolicy, match="jobs have read bank/wares as a table of the population bank/wares"):
        upload("bank/wares", NUMBERS, population="others")
    with pytest.raises(InvalidPolicy, match="numbered its rows when jobs read it, and these do not"):
        upload("bank/wares", NAMES)
    upload("bank/wares", NAMES, population="bank/wares")
    assert populations(parties) == {"bank/wares": "bank/wares"}


def test_a_table_that_was_read_before_anybody_declared_it_stays_with_the_others(parties):
    read(parties, "bank/old")
    with pytest.raises(InvalidPolicy, match="as a table of the population records; upload the file under another name"):
        upload("bank/old", NUMBERS, population="bank/old")
    upload("bank/old", NUMBERS)
    assert populations(parties) == {"bank/old": "records"}


def test_nothing_is_written_at_any_party_where_one_refuses(parties):
    upload("bank/wares", NUMBERS, party="10000", population="bank/wares")
    read(parties, "bank/wares", party="10000")
    with pytest.raises(InvalidPolicy):
        upload("bank/wares", NUMBERS, party=None, population="others")
    assert populations(parties) == {}


@pytest.mark.parametrize(
    "named, server, expected", [("7", "8", {"7"}), (None, "8", {"8"}), (None, "", {"9999", "10000", "5"})]
)
def test_the_parties_of_a_server_know_its_tables(parties, named, server, expected):
    (parties / "party-5").mkdir()
    upload("bank/loans", NAMES, party=named, server=server)
    assert {path.parent.name.removeprefix("party-") for path in parties.glob("*/policy.yaml")} == expected


def test_labels_are_declared_once_at_the_guest_and_a_cap_stays(parties):
    (told,) = upload("bank/loans", NAMES, party=None, label="y")
    assert told == "Declared the label source bank/loans/y; `fate-dp declare bank/loans/y --cap EPSILON` sets its cap."
    assert policy_of(parties).is_declared("bank/loans/y") and not policy_of(parties, "10000").label_sources
    main(["declare", "bank/loans/y", "--cap", "2", "--home", str(parties / "home")])
    Owner().declare(SimpleNamespace(site=SimpleNamespace(info=dict)), parties / "home", "bank/loans", file_of(NAMES))
    assert load_policy(parties / "home" / "parties" / "party-9999" / "policy.yaml").label_cap("bank/loans/y") == 2
    assert upload("bank/loans", NAMES, label="no/column") == []


def test_a_declared_table_has_the_population_that_its_upload_finds(parties, tmp_path, capsys):
    file = tmp_path / "wares.csv"
    file.write_text("id,x\n" + "".join(f"{number},1\n" for number in NUMBERS))
    home = home_at(parties, "9999")
    for name, population in ((None, None), ("bank/wares", "a"), ("bank/others", None), ("bank/same", "a")):
        declare_table(home.path, file, name, TableMeta(facts=TableFacts(population)))
    tables = home.ledger.tables()
    related = {table: name for name, of_name in tables.items() for table in of_name}
    assert populations(parties) == {"bank/wares": "a", "bank/others": "records", "bank/same": "a"}
    assert related["bank/same"] == related["bank/wares"] != related["bank/others"]
    assert main(["declare-table", str(file), "--population", "x", "--home", str(tmp_path)]) == 1
    assert "A population belongs to a table; name it" in capsys.readouterr().err
    assert main(["declare-table", str(file), "bank", "--home", str(tmp_path)]) == 1
    assert "table must be NAMESPACE/NAME, got" in capsys.readouterr().err
