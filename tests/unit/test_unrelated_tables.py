"""Tables of row numbers, one after the other at the same parties: those that are declared unrelated pay nothing for each other."""

import sys
from itertools import count
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml

from fate_dp.components.common import provenance
from fate_dp.components.common.charges import Charges, home_of, record_spaces, remembered_dataset
from fate_dp.components.common.preflight import Refused
from fate_dp.components.dp_binning import settings as binning
from fate_dp.components.dp_binning.agreement import HostAgreement
from fate_dp.components.label_flip import guest as label_flip
from fate_dp.components.label_flip.component import MESSAGES
from fate_dp.components.label_flip.settings import Settings
from fate_dp.pipelines.jobs.csv_files import TableMeta
from fate_dp.pipelines.jobs.populations import Owner
from fate_dp.privacy.events import REPLACE_ONE, Event, PureDP
from fate_dp.privacy.ledger.policy import declare_facts
from fate_dp.privacy.table_facts import TableFacts
from fate_dp.testing import Artifact, frame_at, play

GUEST, HOST = PAIR = ("guest", "9999"), ("host", "10000")
NAMES = [f"experiment/{name}" for name in ("breast", "vehicle", "credit", "motor", "student")]
# Of the default cap of 8: a second one does not fit.
SPENT = 5.0
STEP = (Event(PureDP(SPENT), "record", REPLACE_ONE, ("guest",)), 1)
NO_SERVER = SimpleNamespace()
TASKS = (f"task {number}" for number in count())


def tables_of(seed, rows=60):
    """Of guest and host: ids 0, 1, 2, ..., and the same columns for every seed, as FATE's examples have them."""
    draws, ids = np.random.default_rng(seed), [str(row) for row in range(rows)]
    features = [{f"x{column}": draws.normal(size=rows) for column in range(2)} for _ in PAIR]
    made = {party: pd.DataFrame({"sample_id": ids, "id": ids, **own}) for party, own in zip(PAIR, features)}
    return {**made, GUEST: made[GUEST].assign(y=draws.integers(0, 2, rows))}


@pytest.fixture
def site(tmp_path, monkeypatch):
    """The parties' folder, and functions that upload tables at both, and let a job's task read them from one reader, or two."""
    home, jobs = tmp_path / "parties", tmp_path / "jobs"
    monkeypatch.setenv("FATE_DP_HOME", str(home))

    def upload(table, tables):
        for party in PAIR:
            meta = TableMeta(label_name="y" if party == GUEST else None, facts=TableFacts(table))
            ids = tables[party]["id"]
            Owner(party[1]).declare(
                NO_SERVER, None, table, SimpleNamespace(meta=meta, ids=ids, written_ids=ids, features=[])
            )

    def reads(*tables, **channel):
        party = jobs / str(len(list(jobs.glob("*")))) / "guest" / "9999"

        def write(name, content):
            folder = party / name / "0" / "input"
            folder.mkdir(parents=True)
            (folder / "preprocess_parameters.yaml").write_text(yaml.safe_dump(content))
            (folder / "task_parameters.yaml").write_text("{}")
            return str(folder / "task_parameters.yaml")

        readers = [
            {"producer_task": f"reader_{number}", "output_artifact_key": "output_data"} for number in range(len(tables))
        ]
        for reader, table in zip(readers, tables):
            namespace, _, name = table.partition("/")
            parameters = {"namespace": namespace, "name": name}
            write(reader["producer_task"], {"component": "reader", "parameters": parameters})
        channels = [*readers, *([channel] if channel else [])]
        task = write("task", {"component": "union", "input_artifacts": {"data": {"input_data": channels}}})
        monkeypatch.setattr(sys, "argv", ["fate", "--config", task])

    return SimpleNamespace(
        home=home, upload=upload, reads=reads, elsewhere=lambda: monkeypatch.setattr(sys, "argv", [])
    )


def played(site, step, tables, parties=PAIR):
    """What ``step`` returns at each party, given its frame."""
    return (
        play(
            lambda ctx: step(ctx, frame_at(ctx, tables[tuple(ctx.federation.local_party)], label_type="int32")),
            parties,
            site.home,
            messages=MESSAGES,
            task=next(TASKS),
        )
        .check()
        .values
    )


def spend(source):
    """Label_flip at the guest, and a step on records at the host."""

    def step(ctx, frame):
        if ctx.is_on_guest:
            label_flip.flip(ctx, Settings(SPENT, source), Artifact(frame), Artifact())
        else:
            label_flip.pass_on(ctx, Artifact(frame), Artifact())
            charges = Charges(ctx, frame, "No.")
            charges.check([STEP])
            charges.record([STEP], "a step")

    return step


def family(site, tables, party=HOST):
    """Names of the tables that count together with the one that the task reads."""

    def step(ctx, frame):
        related, names = remembered_dataset(home_of(ctx), frame).related, home_of(ctx).ledger.tables()
        return {table for name in related for table in names.get(name, [])}

    return played(site, step, tables, (party,))[party]


def shown(site, tables):
    """Scores of a table with its true labels would be shown, or not."""
    played(
        site,
        lambda ctx, frame: provenance.refuse_true_labels_of_released_records(home_of(ctx), frame),
        tables,
        (GUEST,),
    )


def test_five_unrelated_pairs_spend_their_own_budgets_and_no_other(site):
    pairs = {table: tables_of(seed) for seed, table in enumerate(NAMES)}
    for table, tables in pairs.items():
        site.upload(table, tables)
        site.reads(table)
        shown(site, tables)
        played(site, spend(f"{table}/y"), tables)
        assert family(site, tables) == {table}
        with pytest.raises(ValueError, match="they are not those flips"):
            shown(site, {**tables, GUEST: tables[GUEST].assign(y=1 - tables[GUEST]["y"])})


def test_a_table_that_is_uploaded_again_pays_for_what_it_spent(site):
    first, again = tables_of(1), tables_of(2, rows=90)
    for tables in (first, again):
        site.upload(NAMES[0], tables)
        site.reads(NAMES[0])
        if tables is first:
            played(site, spend(f"{NAMES[0]}/y"), tables)
    with pytest.raises(ValueError, match="was changed after its release"):
        played(site, spend(f"{NAMES[0]}/y"), again)
    with pytest.raises(ValueError, match="epsilon|must each depend on one uploaded row alone"):
        played(site, lambda ctx, frame: Charges(ctx, frame, "No.").check([STEP]), again, (HOST,))
    with pytest.raises(ValueError, match="they are not those flips"):
        shown(site, again)


@pytest.mark.parametrize(
    "origin",
    [
        lambda site: site.elsewhere(),
        lambda site: site.reads("output/of_a_job"),
        lambda site: site.reads(NAMES[0], "output/of_a_job"),
        lambda site: site.reads(NAMES[0], namespace="output", name="of_a_job"),
        lambda site: site.reads(NAMES[0], job_id="1", producer_task="reader_0", output_artifact_key="output_data"),
        lambda site: site.reads(NAMES[0], producer_task="of_another_party", output_artifact_key="output_data"),
    ],
)
def test_rows_that_may_be_anybody_s_pay_for_all(site, origin):
    for seed, table in enumerate(NAMES[:2]):
        site.upload(table, tables_of(seed))
        site.reads(table)
        played(site, spend(f"{table}/y"), tables_of(seed))
    origin(site)
    with pytest.raises(ValueError, match="they are not those flips"):
        shown(site, tables_of(3))
    assert family(site, tables_of(3)) >= set(NAMES[:2])
    with pytest.raises(ValueError, match="epsilon|must each depend on one uploaded row alone"):
        played(site, lambda ctx, frame: Charges(ctx, frame, "No.").check([STEP]), tables_of(3), (HOST,))


def test_united_tables_are_of_the_populations_of_both(site):
    for seed, table in enumerate(NAMES[:3]):
        site.upload(table, tables_of(seed))
    site.reads(*NAMES[:2])
    spaces = played(site, lambda ctx, frame: record_spaces(home_of(ctx)), tables_of(1), (HOST,))[HOST]
    assert spaces == (f"records of {NAMES[0]}", f"records of {NAMES[1]}")


def test_no_flips_are_counted_for_the_records_of_another_population(site):
    for seed, table in enumerate(NAMES[:2]):
        site.upload(table, tables_of(seed))
    site.reads(NAMES[1])
    with pytest.raises((ValueError, Refused), match="is of other records than the task's table"):
        played(site, spend(f"{NAMES[0]}/y"), tables_of(1))


def test_special_values_that_were_declared_with_a_table_have_bins_in_its_jobs_alone(site):
    def step(ctx, frame):
        own = HostAgreement(ctx, binning.Settings(other_columns=binning.other_columns({"cuts": [0]})), frame)
        own.check_table()
        return {name: rule.column.special for name, rule in own.rules.items()}

    for seed, table in enumerate(NAMES[:2]):
        site.upload(table, tables_of(seed))
    declare_facts(site.home / "party-10000" / "policy.yaml", NAMES[0], TableFacts(special={"x0": (-999, -1)}))
    found = []
    for table in NAMES[:2]:
        site.reads(table)
        found.append(played(site, step, tables_of(1), (HOST,))[HOST])
    assert found == [{"x0": (-999.0, -1.0), "x1": ()}, {"x0": (), "x1": ()}]
