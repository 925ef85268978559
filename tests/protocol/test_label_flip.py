"""label_flip between parties: what it writes, what it spends, and what it refuses before anything is spent."""

import math
import os
from functools import partial

import numpy as np
import pandas as pd
import pytest

from fate_dp.components.common.charges import home_of
from fate_dp.components.common.preflight import UNTOLD
from fate_dp.privacy.ledger.policy import declare_source
from tests.support.local_parties import set_job_check

from .scenarios import (
    GUEST,
    HOST,
    SOURCE,
    Artifact,
    KnownJob,
    Scenario,
    assert_refused,
    declare,
    flip,
    frame_at,
    play,
    role_of,
    tables,
)

TABLES = tables(rows=240, hosts=(2,))
PAIR = (GUEST, HOST)


def changed(party=GUEST, **columns):
    """The tables with some columns of one party replaced; a callable gets the old column, None drops it."""
    table = TABLES[party].copy()
    for name, value in columns.items():
        if value is None:
            table = table.drop(columns=name)
        else:
            table[name] = value(table[name]) if callable(value) else value
    return {**TABLES, party: table}


def reuploaded() -> dict:
    """Half of the records in another order with new sample ids and features, and ten new ones."""
    base = TABLES[GUEST]
    half = base.sample(frac=0.5, random_state=1)
    added = base.head(10).assign(id=[f"new {row}" for row in range(10)])
    table = pd.concat([half, added], ignore_index=True)
    table["sample_id"] = [f"again {row}" for row in range(len(table))]
    table["x0"] = table["x0"] * 2 + 1
    host = (
        TABLES[HOST].set_index("id").reindex(table["id"]).fillna(0.5).reset_index().assign(sample_id=table["sample_id"])
    )
    return {GUEST: table, HOST: host[list(TABLES[HOST])]}


def first_corrected() -> dict:
    return changed(y=lambda labels: labels.where(labels.index != 7, 1 - labels))


def with_duplicate(party) -> dict:
    return changed(party, id=lambda ids: ids.where(ids.index != 5, ids[4]))


def over_sampled() -> dict:
    """One row of each party bears the mark of a synthetic row."""
    return {
        party: table.assign(id=table["id"].where(table.index != 5, "synthetic-9999-1"))
        for party, table in TABLES.items()
    }


def open_key(ctx):
    if role_of(ctx) == "guest":
        home_of(ctx).key
        os.chmod(home_of(ctx).path / "flip.key", 0o644)


def lose_key(ctx):
    if role_of(ctx) == "guest":
        (home_of(ctx).path / "flip.key").unlink()


def flip_with_full_disk(ctx, earlier, tables):
    """The guest cannot write its table: the release was recorded before and stays pending."""
    from fate_dp.components.common.frames import pass_through
    from fate_dp.components.label_flip import guest
    from fate_dp.components.label_flip.settings import Settings

    class FullDisk(Artifact):
        def write(self, frame):
            raise ValueError("no space left on device")

    if role_of(ctx) == "guest":
        declare(ctx, SOURCE)
        guest.flip(ctx, Settings(1.0, SOURCE), Artifact(frame_at(ctx, tables)), FullDisk())
    else:
        pass_through(ctx, Artifact(frame_at(ctx, tables)), Artifact())


def on(tables, home=None, parties=PAIR, **arguments):
    return Scenario(flip, {"tables": tables, **arguments}, parties, home)


OTHER = "experiment/other/y"


def tie_source(ctx, **tie):
    """The operator ties the source to a table."""
    if role_of(ctx) == "guest":
        declare_source(home_of(ctx).path / "policy.yaml", SOURCE, **tie)


ALLOWED = {
    "first": on(TABLES, "flips"),
    "same again": on(TABLES, "flips", partitions=3),
    "uploaded anew": on(reuploaded(), "flips"),
    "epsilon 2": on(TABLES, "flips", epsilon=2.0),
    "three classes": on(changed(y=lambda labels: labels + np.arange(240) % 2), classes=(0.0, 1.0, 2.0)),
    "all labels alike": on(changed(y=1)),
    "full disk": Scenario(flip_with_full_disk, dict(tables=TABLES), PAIR, "pending"),
    "after the full disk": on(TABLES, "pending"),
    "before the key is lost": on(TABLES, "lost"),
    "seven of eight": on(TABLES, "two names", epsilon=7.0),
    "other labels of these ids": on(changed(y=lambda labels: 1 - labels), "two names", epsilon=1.0, source=OTHER),
    "some of the declared columns": on(
        changed(x1=None), before=partial(tie_source, columns=["x0", "x1", "x2"], records=240)
    ),
    "after the key is lost": on(TABLES, "lost", before=lose_key),
}

REFUSED = {
    "beyond the cap": (on(TABLES, "flips", epsilon=6.0), "cap"),
    "seven under another name": (on(TABLES, "two names", epsilon=7.0, source="experiment/third/y"), ""),
    "half of them under another name": (on(reuploaded(), "two names", source="experiment/third/y"), ""),
    "columns of another table": (
        on(TABLES, before=partial(tie_source, columns=["x0", "x1"])),
        "has the column 'x2', which experiment/train/y was not declared with",
    ),
    "more records than declared": (
        on(TABLES, before=partial(tie_source, records=239)),
        "was declared with 239 records",
    ),
    "corrected label": (on(first_corrected(), "flips"), ""),
    "corrected label, other epsilon": (on(first_corrected(), "flips", epsilon=0.5), ""),
    "epsilon above the cap at once": (on(TABLES, epsilon=8.5), "cap"),
    "key open to others": (on(TABLES, before=open_key), "must be 0600, got 0644"),
    "duplicate ids": (on(with_duplicate(GUEST)), "more than once"),
    "over-sampled": (on(over_sampled()), "put label_flip before smote"),
    "host with label": (on(changed(HOST, y=1)), "only the guest has labels"),
    "guest without label": (on(changed(y=None)), "no label column"),
    "continuous labels": (
        on(changed(y=lambda labels: labels + TABLES[GUEST]["x0"]), label_type="float64"),
        "list all label values",
    ),
    "undeclared source": (on(TABLES, declared=False), "is not declared at the guest"),
    "source of another column": (on(TABLES, source="experiment/train/income"), "must end with the label column 'y'"),
    "constant feature at the host": (on(changed(HOST, **{TABLES[HOST].columns[2]: 1.0})), "is constant"),
    "NaN feature at the guest": (
        on(changed(x0=lambda column: column.where(column.index != 3, np.nan))),
        "missing or infinite",
    ),
    "missing label": (
        on(changed(y=lambda labels: labels.where(labels.index != 3, np.nan)), label_type="float64"),
        "A label is missing",
    ),
    "label outside the classes": (on(changed(y=lambda labels: 2 * labels)), "none of the classes [0.0, 1.0]"),
    "text labels": (on(changed(y=lambda labels: labels.map({0: "no", 1: "yes"})), label_type="str"), "must be numeric"),
    "no rows": (on({party: table.head(0) for party, table in TABLES.items()}), "no ids in common"),
    "two guests": (on(TABLES, parties=(GUEST, ("guest", "9998"), HOST)), "2 guests"),
    "no guest": (on(TABLES, parties=(HOST,)), "0 guests"),
    "no host": (on(TABLES, parties=(GUEST,)), "no host"),
}

# The others learn that the labels were the reason, not how: jobs that ask again with other classes would find them.
OF_THE_LABELS = ("continuous labels", "label outside the classes")
SWAPS = {"mode": "swap", "every": 2, "fraction": 0.05, "max_rounds": 2}
# Tables and what follows label_flip: each of them would be refused by that task, after the flips were charged.
LARGE = changed(HOST, **{TABLES[HOST].columns[2]: lambda column: 1000 * column})
IMPOSSIBLE = {
    "other ids": (
        TABLES | {HOST: TABLES[HOST].assign(id=[f"other {row}" for row in range(240)])},
        KnownJob({}),
        "not the same ids in the same order; run psi before",
    ),
    "no release of scores is left": (
        TABLES,
        KnownJob({"flipback": SWAPS, "epochs": 9}),
        "joint scores of 2 models, but host 10000 allows only 0 more; use fewer flipback or "
        "sigmoid rounds, or ask its operator, who changes that with `fate-dp cap`",
    ),
    "folds without a release": (TABLES, KnownJob({}, stage="cross_validation"), "joint scores of 5 models"),
    "few values": (
        changed(HOST, **{TABLES[HOST].columns[2]: lambda column: 1.0 * (column > 0)}),
        KnownJob({"train_scores": True}),
        "has columns of few values",
    ),
    "small batches": (TABLES, KnownJob({"batch_size": 20}), "batch_size"),
    "no such optimiser parameter": (
        TABLES,
        KnownJob({"optimizer": {"optimizer_params": {"lerning_rate": 1.0}}}),
        "lerning_rate",
    ),
    "weak key": (TABLES, KnownJob({"he_param": {"key_length": 1024}}), "key_length"),
}
POSSIBLE = {
    "a training can follow": (TABLES, KnownJob({})),
    "flipback is left to the training": (TABLES, KnownJob({"flipback": {"mode": "auto"}})),
    "scores can be left out": (TABLES, KnownJob({"train_scores": True})),
    "columns of another unit": (LARGE, KnownJob({})),
    "columns are scaled in between": (LARGE, KnownJob({}, through="feature_scale")),
}


MISSING = {
    GUEST: TABLES[GUEST].assign(x0=TABLES[GUEST]["x0"].where(TABLES[GUEST].index != 3, np.nan), x1=1.0),
    HOST: TABLES[HOST].assign(**dict(zip(TABLES[HOST].columns[2:], (np.nan, 1.0)))),
}
BINNED = {
    "binned": KnownJob({}, through="dp_binning"),
    "split, then binned": KnownJob({}, through="keyed_split", then="dp_binning"),
}
NOT_BINNED = {
    "trained on": KnownJob({}),
    "scaled": KnownJob({}, through="feature_scale"),
    "binned, and trained on beside": KnownJob({}, through="dp_binning", besides="dp_hetero_lr"),
    "split, and trained on": KnownJob({}, through="keyed_split"),
}
LEAKING = KnownJob({}, beside="hetero_feature_binning")


def only_warned(ctx):
    set_job_check(home_of(ctx).path / "policy.yaml", "warn")


POSSIBLE_THOUGH_IT_LEAKS = on(TABLES, job=LEAKING, before=only_warned)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    scenarios = {
        "leaks": on(TABLES, job=LEAKING),
        "leaks, warned": POSSIBLE_THOUGH_IT_LEAKS,
        **ALLOWED,
        **{name: scenario for name, (scenario, _) in REFUSED.items()},
    }
    scenarios |= {f"impossible: {name}": on(tables, job=job) for name, (tables, job, _) in IMPOSSIBLE.items()}
    scenarios |= {name: on(tables, job=job) for name, (tables, job) in POSSIBLE.items()}
    scenarios |= {f"missing: {name}": on(MISSING, job=job) for name, job in {**BINNED, **NOT_BINNED}.items()}
    return play(scenarios, tmp_path_factory.mktemp("homes"), PAIR)


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_nothing_is_charged_for_flips_that_no_training_could_use(runs, name):
    outcomes = runs[f"impossible: {name}"]
    assert_refused(outcomes, IMPOSSIBLE[name][2])
    assert outcomes[HOST].error.endswith(" So model could not train on these flips, and nothing was charged.")
    assert outcomes[GUEST].ledger["entries"] == []


def test_a_job_that_shows_the_labels_before_is_refused_to_every_party_and_nothing_is_charged(runs):
    assert_refused(runs["leaks"], "Host 10000 can read every true label of guest 9999 in hetero_feature_binning")
    assert "put label_flip before it" in runs["leaks"][HOST].error
    assert runs["leaks"][GUEST].ledger["entries"] == []


def test_the_operator_can_let_such_a_job_run(runs):
    assert {outcome.error for outcome in runs["leaks, warned"].values()} == {None}
    assert runs["leaks, warned"][GUEST].ledger["spent"] == 1.0


@pytest.mark.parametrize("name", POSSIBLE)
def test_flips_that_a_training_can_use_are_released(runs, name):
    assert {outcome.error for outcome in runs[name].values()} == {None}
    assert runs[name][GUEST].ledger["spent"] == 1.0


@pytest.mark.parametrize("name", BINNED)
def test_missing_and_constant_columns_come_through_where_all_that_reads_the_flips_bins_them(runs, name):
    outcomes = runs[f"missing: {name}"]
    assert {outcome.error for outcome in outcomes.values()} == {None}
    assert outcomes[HOST].received[0][1:] == ("asks", (False, True))
    for party, table in MISSING.items():
        written = outcomes[party].value["table"].set_index("id")
        given = table.set_index("id").loc[written.index][list(written)].drop(columns="y", errors="ignore")
        pd.testing.assert_frame_equal(written[list(given)], given, check_dtype=False)
    assert outcomes[GUEST].ledger["spent"] == 1.0


@pytest.mark.parametrize("name", NOT_BINNED)
def test_they_are_refused_before_any_charge_where_something_else_reads_the_flips(runs, name):
    outcomes = runs[f"missing: {name}"]
    assert_refused(outcomes, "")
    assert outcomes[GUEST].ledger["entries"] == []


def test_the_guest_is_told_facts_about_the_hosts_whole_table_alone(runs):
    ((_, message, value),) = runs["a training can follow"][GUEST].received
    facts = value["facts"]
    assert message == "preflight" and len(facts.pop("digest")) == 64
    sizes = {"rows": 240, "features": 2, "mean_square_bits": 1}
    assert facts == {**sizes, "few_valued": False, "score_releases_left": 0}


@pytest.mark.parametrize("name", ["seven under another name", "half of them under another name"])
def test_a_second_name_for_the_same_labels_opens_no_second_budget(runs, name):
    outcomes = runs[name]
    assert "has spent epsilon 8, this job asks for" in outcomes[GUEST].error
    assert "The cap that this party's operator set for these labels" in outcomes[HOST].error
    assert "total" not in outcomes[HOST].error
    assert outcomes[GUEST].ledger["entries"] == runs["other labels of these ids"][GUEST].ledger["entries"]


def labels(runs, name) -> pd.Series:
    return runs[name][GUEST].value["table"].set_index("id")["y"].sort_index()


def truth() -> pd.Series:
    return TABLES[GUEST].set_index("id")["y"].sort_index()


def assert_flips_are_memoised(first: pd.Series, second: pd.Series) -> None:
    common = first.index.intersection(second.index)
    assert len(common) >= 100 and (first[common] == second[common]).all()


def test_the_label_column_alone_changes_and_keeps_its_type(runs):
    outcome = runs["first"][GUEST]
    written = outcome.value["table"].set_index("id")
    given = TABLES[GUEST].set_index("id").loc[written.index]
    pd.testing.assert_frame_equal(
        written.drop(columns="y").astype(given.drop(columns="y").dtypes), given.drop(columns="y")
    )
    assert written["y"].isin([0, 1]).all() and not (written["y"] == given["y"]).all()
    assert outcome.value["label"] == "y" and "int32" in outcome.value["label_type"]


def test_labels_flip_at_the_rate_of_epsilon(runs):
    flipped = labels(runs, "first")
    share = (flipped != truth()[flipped.index]).mean()
    q = 1 / (1 + math.exp(1))
    # Chance exceeds six standard errors once in 10^8 keys; no flips at all and fair coins are nine and eight away.
    assert abs(share - q) < 6 * math.sqrt(q * (1 - q) / 240)


def test_the_host_passes_its_table_through(runs):
    written = runs["first"][HOST].value["table"]
    given = TABLES[HOST].set_index("id").loc[written["id"]].reset_index()[list(written)]
    pd.testing.assert_frame_equal(written, given, check_dtype=False)
    assert runs["first"][HOST].ledger["entries"] == []


def test_the_host_is_told_nothing_but_the_verdict(runs):
    assert [(name, value) for _, name, value in runs["first"][HOST].received] == [
        ("asks", (False, False)),
        ("verdict", {"problem": None, "terms": {}}),
    ]


def test_the_second_run_gives_the_same_flips_and_spends_nothing(runs):
    assert_flips_are_memoised(labels(runs, "first"), labels(runs, "same again"))
    before, after = (runs[name][GUEST].ledger for name in ("first", "same again"))
    assert before["spent"] == after["spent"] == 1.0
    assert len(after["entries"]) == 1 and after["entries"][0]["uses"] == 2


def test_the_check_for_memoised_flips_catches_fresh_ones(runs):
    with pytest.raises(AssertionError):
        assert_flips_are_memoised(labels(runs, "before the key is lost"), labels(runs, "after the key is lost"))
    assert runs["after the key is lost"][GUEST].ledger["spent"] == 2.0


def test_a_new_upload_of_some_records_and_new_ones_keeps_the_old_flips(runs):
    assert_flips_are_memoised(labels(runs, "first"), labels(runs, "uploaded anew"))
    (entry,) = runs["uploaded anew"][GUEST].ledger["entries"]
    assert runs["uploaded anew"][GUEST].ledger["spent"] == 1.0 and entry["records"] == 250


def test_another_epsilon_composes_and_flips_independently(runs):
    ledger = runs["epsilon 2"][GUEST].ledger
    assert ledger["spent"] == 3.0 and [entry["epsilon"] for entry in ledger["entries"]] == [1.0, 2.0]
    first, second = (labels(runs, name) != truth() for name in ("first", "epsilon 2"))
    # Under one shared uniform every flip at epsilon 2 would be one at epsilon 1 too.
    assert (second & ~first).any()


def test_the_ledger_line_says_what_is_guaranteed(runs):
    (entry,) = runs["first"][GUEST].ledger["entries"]
    expected = {
        "source": SOURCE,
        "mechanism": "randomized_response",
        "unit": "label",
        "relation": "replace_one",
        "epsilon": 1.0,
        "delta": 0.0,
        "records": 240,
        "pending": 0,
        "counted": True,
    }
    assert {name: entry[name] for name in expected} == expected
    assert {"host", "arbiter", "model"} <= set(entry["observer"].replace(",", " ").split())


def test_three_classes_stay_within_the_classes(runs):
    assert set(labels(runs, "three classes")) == {0, 1, 2}


def test_a_release_is_on_record_before_the_table_is_written(runs):
    assert runs["full disk"][GUEST].error == "no space left on device"
    (entry,) = runs["full disk"][GUEST].ledger["entries"]
    assert entry["pending"] == 1 and runs["full disk"][GUEST].ledger["spent"] == 1.0
    (entry,) = runs["after the full disk"][GUEST].ledger["entries"]
    assert entry["uses"] == 2 and entry["pending"] == 1 and runs["after the full disk"][GUEST].ledger["spent"] == 1.0


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused_alike_at_every_party_and_spends_nothing(runs, name):
    scenario, sentence = REFUSED[name]
    present = runs[name]
    assert_refused(present, sentence, UNTOLD if name in OF_THE_LABELS else None)
    assert all(outcome.error.endswith(".") for outcome in present.values())
    if GUEST in present:
        spent = {"flips": 3.0, "two names": 8.0}.get(scenario.home, 0.0)
        assert present[GUEST].ledger["spent"] == spent
        assert len(present[GUEST].ledger["entries"]) == (2 if spent else 0)


def test_that_a_label_was_corrected_is_told_to_the_guest_alone(runs):
    for name in ("corrected label", "corrected label, other epsilon"):
        assert "was changed after its release" in runs[name][GUEST].error
        assert runs[name][HOST].error.endswith(
            "The guest's ledger refuses these labels; the guest's operator can see why."
        )


def test_the_host_cannot_tell_whether_all_labels_are_alike(runs):
    assert runs["all labels alike"][HOST].error is None


def test_no_refusal_names_a_record_or_a_label(runs):
    for name in ("corrected label", "duplicate ids", "label outside the classes"):
        assert "person" not in runs[name][HOST].error
