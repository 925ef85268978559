"""What `fate-dp clean` takes out of a home, and all that it leaves; FATE-Flow's layout as FATE-Flow 2.2.0 makes it."""

import json
import os
import shutil
import sqlite3
import time
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from fate_dp.deploy.flow import cleaning
from fate_dp.deploy.flow.cleaning import clean_home, leftovers
from fate_dp.deploy.flow.home import open_home
from fate_dp.pipelines.cli.main import main

TABLES = """
CREATE TABLE t_job (f_job_id, f_status);
CREATE TABLE t_schedule_job (f_job_id, f_status);
CREATE TABLE t_storage_table_meta (f_namespace, f_name, f_address);
CREATE TABLE t_tracking_data_output (f_namespace, f_name, f_job_id);
"""


def number(days):
    """The number of a job that was submitted so many days ago."""
    return f"{datetime.now() - timedelta(days=days):%Y%m%d%H%M%S%f}0"


class Home:
    """A home in which jobs ran, and what of it must stay."""

    def __init__(self, folder):
        self.home = open_home(folder)
        self.root = self.home.root
        self.root.mkdir()
        self.tell(TABLES)
        for kept in ("parties/party-9999/ledger.sqlite", "parties/party-9999/flip.key", "conf/administrator.key"):
            self.write(kept)

    def tell(self, script):
        with closing(sqlite3.connect(self.root / "fate_flow_sqlite.db")) as database:
            database.executescript(script)

    def write(self, path):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * 5000)

    def job(self, job, status="success", scheduled="success"):
        self.tell(
            f"INSERT INTO t_job VALUES ('{job}', '{status}'); INSERT INTO t_schedule_job VALUES ('{job}', '{scheduled}')"
        )
        for path in (f"logs/{job}/guest/log", f"jobs/{job}/dag.yaml", f"model/{job}/0/guest/psi_0/model"):
            self.write(path)
        self.table(f"{job}_psi_0", "a", job)
        return job

    def table(self, folder, name, job, named=None):
        """A table on the disk, in FATE-Flow's records under its own or another name, and as the output of a job."""
        self.write(f"data/{folder}/{name}/0/data.mdb")
        space, name_there = named or (folder, name)
        address = json.dumps({"home": str(self.root / "data"), "namespace": folder, "name": name})
        self.tell(
            f"INSERT INTO t_storage_table_meta VALUES ('{space}', '{name_there}', '{address}')"
            + (f"; INSERT INTO t_tracking_data_output VALUES ('{space}', '{name_there}', '{job}')" if job else "")
        )

    def found(self, days=30.0):
        return {str(each.relative_to(self.root)) for paths in leftovers(self.home, days).values() for each in paths}

    def files(self):
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()}

    def records(self, table):
        with closing(sqlite3.connect(self.root / "fate_flow_sqlite.db")) as database:
            return set(database.execute(f"SELECT f_namespace, f_name FROM {table}"))


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path / "home")


def of(job):
    return {f"logs/{job}", f"jobs/{job}", f"data/{job}_psi_0"}


def test_what_an_old_job_left_goes_and_all_else_stays(home, capsys):
    old, young = home.job(number(40)), home.job(number(20))
    home.write(f"data/{old}_lr_0_0_guest_9999/b/0/data.mdb")
    before = home.files()
    assert main(["clean", "--home", str(home.root)]) == 0
    assert home.files() == before and "Nothing was deleted; --delete does it." in capsys.readouterr().out
    assert main(["clean", "--home", str(home.root), "--delete"]) == 0
    said = capsys.readouterr().out
    assert "tables of tasks" in said and "Nothing" not in said
    gone = {path for path in before if old in path and not path.startswith("model/")}
    assert len(gone) == 4 and home.files() == before - gone | {"server.lock"}
    for table in ("t_storage_table_meta", "t_tracking_data_output"):
        assert home.records(table) == {(f"{young}_psi_0", "a")}
    assert main(["clean", "--home", str(home.root), "--delete"]) == 0
    assert "ended more than 30 days ago" in capsys.readouterr().out


@pytest.mark.parametrize("status, scheduled", [("running", "running"), ("waiting", "failed"), ("success", "running")])
def test_nothing_of_an_unfinished_job_goes(home, status, scheduled):
    home.job(number(50), status, scheduled)
    assert home.found() == set()


def test_an_uploaded_table_stays_among_those_of_its_job_and_the_one_it_replaced_goes(home):
    job = home.job(number(40))
    home.table(f"{job}_transformer_0", "loans", job, named=("bank", "loans"))
    home.write(f"data/{job}_transformer_0/replaced/0/data.mdb")
    assert home.found() == of(job) | {f"data/{job}_transformer_0/replaced"}
    clean_home(home.home, 30, delete=True)
    assert ("bank", "loans") in home.records("t_storage_table_meta")
    assert f"data/{job}_transformer_0/loans/0/data.mdb" in home.files()


def test_a_table_that_a_younger_job_inherited_stays(home):
    old, young = home.job(number(40)), home.job(number(1))
    home.tell(f"INSERT INTO t_tracking_data_output VALUES ('{old}_psi_0', 'a', '{young}')")
    assert home.found() == of(old) - {f"data/{old}_psi_0"}


def test_after_a_clock_was_set_back_a_younger_job_is_not_taken_for_an_old_one(home):
    """The numbers of the jobs that follow begin with earlier times."""
    first, before, after = home.job(number(50)), home.job(number(10)), home.job(number(40))
    assert after < before
    assert home.found() == of(first)
    assert home.found(days=5) == of(first) | of(before) | of(after)


def test_drafts_of_killed_commands_go_when_no_job_runs(home):
    """The owner's new ones stay: their command may still write."""
    home.job(number(60))
    old = ["data/upload/killed", "parties/party-1/.policy.yaml.0f.tmp", "temps/tmpkilled"]
    for path in (
        f"{old[0]}/0/data.mdb",
        *old[1:],
        "data/upload/new/0/data.mdb",
        "temps/tmpnew",
        "parties/party-1/.a.1.tmp",
    ):
        home.write(path)
    home.table("upload", "left", home.job(number(40)))
    for path in old:
        os.utime(home.root / path, (time.time() - 40 * 86400,) * 2)

    def drafts():
        return {path for path in home.found() if path.startswith(("data/upload", "temps", "parties"))}

    assert drafts() == {*old, "data/upload/left"}
    home.job(number(0), "running", "running")
    assert drafts() == {"data/upload/left"}


@pytest.mark.parametrize("killed_in", ["rename", "rmtree"])
def test_a_run_that_is_killed_leaves_nothing_half_and_the_next_one_ends_its_work(home, monkeypatch, killed_in):
    job = home.job(number(40))
    before = home.files()
    with monkeypatch.context() as patched:
        if killed_in == "rename":
            patched.setattr(
                Path, "rename", lambda path, target: os._exit(9) if path.name == job else os.rename(path, target)
            )
        else:
            patched.setattr(shutil, "rmtree", lambda path, **how: how or os._exit(9))
        child = os.fork()
        if child == 0:
            clean_home(home.home, 30, delete=True)
        assert os.waitpid(child, 0)[1] == 9 << 8
    for table in ("t_storage_table_meta", "t_tracking_data_output"):
        assert home.records(table) == set(), "no record tells of a table that is to go"
    clean_home(home.home, 30, delete=True)
    assert {path for path in home.files() if job in path} == {path for path in before if path.startswith("model/")}
    assert not (home.root / cleaning.REMOVED).exists()


def test_what_is_no_number_of_days_and_a_home_without_jobs(tmp_path, capsys):
    for days in ("-1", "nan", "1e9"):
        assert main(["clean", "--home", str(tmp_path / "none"), "--older-than", days]) == 1
        assert "--older-than must be a number of days from 0 to 36500" in capsys.readouterr().err
    assert main(["clean", "--home", str(tmp_path / "none"), "--delete"]) == 0
    assert not (tmp_path / "none").exists()
