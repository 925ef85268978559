"""smote at several parties: the rows it adds, what stays as it was, what is refused, and what later steps are charged."""

import math

import numpy as np
import pandas as pd
import pytest

from fate_dp.components.common.charges import home_of
from fate_dp.components.common.preflight import UNTOLD, plugin_version
from fate_dp.data_prep.over_sampling import over_sample_arrays

from .scenarios import GUEST, HOST, SECOND_HOST, SOURCE, Artifact, Scenario, assert_refused, declare, play, role_of

GROUP, DATASET = ("own", "rent", "other"), "bank/loans"
NUMERIC = ("income", "rate")
EVERYBODY = (GUEST, HOST, SECOND_HOST)
SIZES = {GUEST: (300, 40), HOST: (90, 20), SECOND_HOST: (26, 16)}


def loans(rows, minority, seed) -> pd.DataFrame:
    """Rows of one party: two numeric columns that float32 holds, one large, and one one-hot group."""
    draws = np.random.default_rng(seed)
    table = pd.DataFrame({"sample_id": [f"sid {row}" for row in range(rows)]})
    table["id"] = [f"loan {seed}-{row}" for row in range(rows)]
    table["y"] = (np.arange(rows) >= minority).astype(int)
    table["income"] = draws.integers(0, 4096, rows) * 2048.0
    table[list(GROUP)] = np.eye(3)[draws.integers(0, 3, rows)]
    table["rate"] = draws.integers(-4096, 4096, rows) / 1024
    return table


TABLES = {party: loans(*size, seed) for seed, (party, size) in enumerate(SIZES.items())}


def changed(party=GUEST, **columns) -> dict:
    """The tables with some columns of one party replaced; a callable gets the old column, None drops it."""
    table = TABLES[party].copy()
    for name, value in columns.items():
        table = (
            table.drop(columns=name)
            if value is None
            else table.assign(**{name: value(table[name]) if callable(value) else value})
        )
    return {**TABLES, party: table}


def one_row(value):
    return lambda column: column.where(column.index != 3, value)


def frame_of(ctx, tables, partitions, dtype, label_type, weight=None):
    from fate.arch.dataframe import PandasReader

    table = tables[tuple(ctx.federation.local_party)]
    reader = PandasReader(
        sample_id_name="sample_id",
        match_id_name="id",
        label_name="y" if "y" in table else None,
        label_type=label_type,
        weight_name=weight if weight in table else None,
        dtype=dtype,
        partition=partitions,
    )
    return reader.to_frame(ctx, table)


def smote(
    ctx,
    earlier,
    tables=TABLES,
    partitions=2,
    dtype="float64",
    label_type="int32",
    weight=None,
    method="smotenc",
    neighbours=5,
    groups=(GROUP,),
    seed=7,
    stored=False,
    charged=False,
):
    """The component's train stage as FATE calls it; returns the written table, its types and the metrics."""
    from fate.arch.dataframe import deserialize, serialize

    from fate_dp.components.smote.component import train

    written = Artifact()
    frame = frame_of(ctx, tables, partitions, dtype, label_type, weight)
    if stored:
        frame = deserialize(ctx, serialize(ctx, frame))
    train.execute(
        ctx,
        None,
        train_data=Artifact(frame),
        train_output_data=written,
        dataset=DATASET,
        method=method,
        neighbours=neighbours,
        groups=groups,
        seed=seed,
    )
    result = deserialize(ctx, serialize(ctx, written.frame)) if stored else written.frame
    return {
        "table": result.as_pd_df(),
        "shape": result.shape,
        "types": result.dtypes.astype(str).to_dict(),
        "in order": ids_in_order(result),
        "metrics": {record["name"]: record["data"] for record in ctx.metrics.handler.get_metrics()},
        "totals": totals_after(ctx, frame, result) if charged else None,
    }


def ids_in_order(frame) -> list:
    from fate_dp.components.common.frames import match_id_blocks

    return [match_id for _, ids in sorted(match_id_blocks(frame).collect()) for match_id in ids]


def record_event(frame, event):
    """What a step on the table that claims an event is charged as, as `Charges` does it."""
    from fate_dp.components.common.charges import has_synthetic_rows
    from fate_dp.privacy.events import event_after_over_sampling

    return event_after_over_sampling(event) if has_synthetic_rows(frame) else event


def totals_after(ctx, before, after) -> dict:
    """What a record-private step on the table before and after smote adds to the party's ledger, and to a capped one."""
    from fate_dp.privacy.events import ADD_OR_REMOVE, Event, PoissonSampledGaussian
    from fate_dp.privacy.ledger.entries import BudgetCap, BudgetExceeded

    event = Event(PoissonSampledGaussian(0.1, 2.0), "record", ADD_OR_REMOVE, ("arbiter",))
    ledger, found = home_of(ctx).ledger, {}
    for name, frame in (("before", before), ("after", after)):
        step = dict(dataset=name, event=record_event(frame, event), job_id="j", task_id="t", fingerprint="")
        try:
            ledger.record(**step, release_key=f"{name} capped", cap=BudgetCap(8.0, 1e-6))
        except BudgetExceeded:
            found["refused"] = name
        ledger.record(**step, release_key=name, cap=None)
        found[name] = ledger.total(name, "record", ADD_OR_REMOVE, "arbiter", delta=1e-6)
    return found


def narrow(ctx, earlier, **arguments):
    """The same with whole-number group columns in a block of their own."""
    types = {**dict.fromkeys(NUMERIC, "float32"), **dict.fromkeys(GROUP, "int32")}
    return smote(ctx, earlier, dtype=types, **arguments)


def without_rows(ctx, earlier, tables):
    from fate_dp.components.common.charges import has_synthetic_rows
    from fate_dp.privacy.events import REPLACE_ONE, Event, Gaussian

    frame = frame_of(ctx, tables, 2, "float64", "int32").empty_frame()
    event = Event(Gaussian(1.0), "record", REPLACE_ONE, "model")
    return has_synthetic_rows(frame), record_event(frame, event) is event


def flipped_before(ctx, earlier, tables):
    """label_flip at guest and host, then synthetic rows under the guest's flipped ones: what its ledger knows of each."""
    from fate_dp.components.common.frames import pass_through
    from fate_dp.components.common.provenance import find_label_privacy
    from fate_dp.components.label_flip import guest
    from fate_dp.components.label_flip.settings import Settings
    from fate_dp.components.smote.party import with_synthetic_rows

    given, flipped = Artifact(frame_of(ctx, tables, 2, "float64", "int32")), Artifact()
    if role_of(ctx) == "host":
        return pass_through(ctx, given, flipped)
    declare(ctx, SOURCE)
    guest.flip(ctx, Settings(1.0, SOURCE), given, flipped)
    frame, home = flipped.frame, home_of(ctx)
    enlarged = with_synthetic_rows(frame, np.zeros((9, len(frame.schema.columns))), np.ones(9), "9999")
    with pytest.raises(ValueError) as refused:
        find_label_privacy(home, enlarged, SOURCE)
    return {
        "flipped": find_label_privacy(home, frame, SOURCE).epsilon,
        "over-sampled": str(refused.value),
        "spent": home.ledger.spent(SOURCE),
    }


def on(tables=TABLES, parties=EVERYBODY, function=smote, **arguments):
    return Scenario(function, {"tables": tables, **arguments}, parties)


def already_over_sampled() -> dict:
    return changed(HOST, id=one_row("synthetic-10000-4"))


RAN = {
    "float64": on(partitions=1, charged=True),
    "stored": on(parties=(GUEST, HOST), function=narrow, partitions=4, stored=True, label_type="float64"),
    "smote": on(parties=(GUEST,), method="smote", neighbours=20),
    "no groups": on({GUEST: TABLES[GUEST].drop(columns=list(GROUP))}, parties=(GUEST,), groups=()),
    "no seed": on(parties=(GUEST,), seed=None),
}
VERTICAL = {GUEST: TABLES[GUEST].drop(columns="income"), HOST: TABLES[HOST][["sample_id", "id", "rate"]]}
OTHERS = {
    "no rows": Scenario(without_rows, {"tables": TABLES}, (GUEST,)),
    "flipped before": Scenario(flipped_before, {"tables": VERTICAL}, (GUEST, HOST)),
}
REFUSED = {
    "no label": (on(changed(HOST, y=None)), HOST, "The training table has no label column", None),
    "one class": (on(changed(y=1)), GUEST, "The labels take 1 values; over-sampling needs two.", UNTOLD),
    "three classes": (on(changed(y=one_row(2))), GUEST, "The labels take 3 values; over-sampling needs two.", UNTOLD),
    "as many of both": (
        on(changed(SECOND_HOST, y=np.arange(26) % 2)),
        SECOND_HOST,
        "Both classes have the same",
        UNTOLD,
    ),
    "too few rows": (on(neighbours=15), SECOND_HOST, "has 10 rows; with neighbours 15 it needs at least 16.", UNTOLD),
    "missing label": (on(changed(y=one_row(np.nan)), label_type="float64"), GUEST, "A label is missing", UNTOLD),
    "missing value": (on(changed(HOST, rate=one_row(np.nan))), HOST, "Feature 'rate' must be finite", UNTOLD),
    "unknown column": (
        on(changed(HOST, rent=None)),
        HOST,
        "groups has the column 'rent', which the table does not have.",
        UNTOLD,
    ),
    "not one-hot": (on(changed(own=one_row(0.5))), GUEST, "The group of 'own' must be one-hot", UNTOLD),
    "two categories": (on(changed(own=1.0)), GUEST, "The group of 'own' must be one-hot", UNTOLD),
    "whole numbers": (on(function=narrow, method="smote"), GUEST, "Feature 'own' has a whole-number type", UNTOLD),
    "only groups": (on(changed(income=None, rate=None)), GUEST, "All columns are in groups", None),
    "synthetic rows": (on(already_over_sampled()), HOST, "The table was over-sampled before", None),
    "weights": (on(changed(HOST, w=1.0), weight="w"), HOST, "weight column", UNTOLD),
    "repeated id": (on(changed(id=one_row("loan 0-4"))), GUEST, "An id occurs more than once", UNTOLD),
    "no guest": (on(parties=(HOST, SECOND_HOST)), None, "The job names 0 guests; smote needs exactly one", None),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    scenarios = {**RAN, **OTHERS, **{name: case[0] for name, case in REFUSED.items()}}
    return play(scenarios, tmp_path_factory.mktemp("homes"), EVERYBODY)


def parts(runs, name, party):
    """The written table as (real rows, synthetic rows), by match id."""
    assert runs[name][party].error is None, runs[name][party].error
    table = runs[name][party].value["table"].set_index("id")
    synthetic = table.index.str.startswith(f"synthetic-{party[1]}-")
    return table[~synthetic], table[synthetic]


@pytest.mark.parametrize("name, party", [(name, party) for name in RAN for party in RAN[name].parties])
def test_real_rows_stay_as_they_were_and_come_first(runs, name, party):
    real, synthetic = parts(runs, name, party)
    given = RAN[name].arguments["tables"][party].set_index("id")
    pd.testing.assert_frame_equal(real.loc[given.index, given.columns], given, check_dtype=False, check_exact=True)
    in_order = runs[name][party].value["in order"]
    assert set(in_order[: len(given)]) == set(given.index) and set(in_order[len(given) :]) == set(synthetic.index)
    assert runs[name][party].value["shape"] == (len(in_order), len(given.columns) - 2)


@pytest.mark.parametrize("name, party", [(name, party) for name in RAN for party in RAN[name].parties])
def test_the_smaller_class_is_brought_to_the_size_of_the_larger(runs, name, party):
    real, synthetic = parts(runs, name, party)
    assert set(synthetic["y"]) == {real["y"].value_counts().idxmin()}
    assert (
        len(set((real["y"].value_counts() + synthetic["y"].value_counts().reindex([0, 1], fill_value=0)).values)) == 1
    )
    assert synthetic["sample_id"].is_unique and not set(synthetic["sample_id"]) & set(real["sample_id"])


def test_types_are_kept_also_through_storage(runs):
    for name, expected in (
        ("float64", {"income": "torch.float64", "own": "torch.float64", "y": "torch.int32"}),
        ("stored", {"income": "torch.float32", "own": "torch.int32", "y": "torch.float64"}),
    ):
        types = runs[name][GUEST].value["types"]
        assert {column: types[column] for column in expected} == expected


def test_synthetic_rows_are_one_hot_and_lie_between_real_rows_of_their_class(runs):
    for name in ("float64", "stored"):
        real, synthetic = parts(runs, name, GUEST)
        assert synthetic[list(GROUP)].isin([0, 1]).all(axis=None) and (synthetic[list(GROUP)].sum(axis=1) == 1).all()
        same = real[real["y"] == synthetic["y"].iloc[0]]
        for column in NUMERIC:
            assert synthetic[column].between(same[column].min(), same[column].max()).all()
        assert (synthetic["rate"] % (1 / 1024) != 0).any()


def test_plain_smote_gives_fractions_where_smotenc_gives_categories(runs):
    _, synthetic = parts(runs, "smote", GUEST)
    assert not synthetic[list(GROUP)].isin([0, 1]).all(axis=None)
    assert runs["no groups"][GUEST].value["metrics"]["summary"]["method"] == "smote"


def test_the_rows_are_those_of_the_preparation_whatever_the_partitions(runs):
    """The wiring to the core: sorted rows, positions of the group, the seed, and the party as the tag."""
    from fate_dp.components.smote.party import rule_of

    table = TABLES[HOST].astype(dict.fromkeys(NUMERIC, "float32")).astype(dict.fromkeys(NUMERIC, "float64"))
    columns = [name for name in table if name not in ("sample_id", "id", "y")]
    table = table.sort_values([*reversed(columns), "y"])
    expected = over_sample_arrays(
        table[columns].to_numpy(),
        table["y"].to_numpy(),
        rule_of("smotenc", 5, (GROUP,)),
        groups=((1, 2, 3),),
        seed=7,
        tag="10000",
    )
    _, made = parts(runs, "stored", HOST)
    made = made.loc[[f"synthetic-10000-{number}" for number in range(1, len(made) + 1)], columns]
    np.testing.assert_allclose(made.to_numpy(float), expected.features, rtol=1e-6)


def test_without_a_seed_the_draws_differ(runs):
    (_, seeded), (_, free) = (parts(runs, name, GUEST) for name in ("float64", "no seed"))
    assert not seeded["rate"].equals(free["rate"])


def test_nothing_is_sent_but_the_verdict(runs):
    for party, outcome in runs["float64"].items():
        names = {"preflight"} if party == GUEST else {"verdict"}
        assert {name for _, name, _ in outcome.received} == names
        facts = [value for _, _, value in outcome.received]
        assert all(
            value in ({"facts": {}, "problem": None, "plugin": plugin_version()}, {"problem": None, "terms": {}})
            for value in facts
        )


def test_the_summary_says_what_was_done(runs):
    summary = runs["float64"][HOST].value["metrics"]["summary"]
    influence = summary.pop("most synthetic rows that one record influenced (a diagnostic, no bound)")
    assert 1 <= influence <= 50 and isinstance(influence, int)
    assert summary == {
        "mechanism": "over-sampling of this party's own rows",
        "method": "smotenc",
        "neighbours": 5,
        "dataset": DATASET,
        "draws": "draws NOT SECRET, from a seed that all parties know",
        "rows before, label 0": 20,
        "rows before, label 1": 70,
        "rows after, label 0": 70,
        "rows after, label 1": 70,
        "record-level epsilon from here on": "infinity",
    }


def test_each_ledger_has_a_line_that_says_infinity(runs):
    for party, rows in ((GUEST, 520), (HOST, 140), (SECOND_HOST, 32)):
        line = runs["float64"][party].ledger["entries"][0]
        assert (line["source"], line["mechanism"], line["unit"], line["epsilon"], line["records"], line["counted"]) == (
            DATASET,
            "over-sampling",
            "record",
            "infinity",
            rows,
            False,
        )


def test_a_public_seed_is_labelled_in_the_ledger_and_secret_draws_are_another_line(runs):
    purposes = {
        name: runs[name][GUEST].ledger["entries"][0]["parameters"]["purpose"] for name in ("float64", "no seed")
    }
    assert purposes["float64"] == "smotenc, 5 neighbours, draws NOT SECRET, from a seed that all parties know"
    assert purposes["no seed"] == "smotenc, 5 neighbours, secret draws"
    assert runs["no seed"][GUEST].value["metrics"]["summary"]["draws"] == "secret draws"


def test_a_table_without_rows_holds_no_synthetic_ones_and_keeps_its_event(runs):
    assert runs["no rows"][GUEST].value == (False, True)


def test_labels_of_synthetic_rows_are_no_released_flips(runs):
    """So dp_hetero_lr and flipback, which ask the ledger for all rows, refuse what smote makes of flipped labels."""
    at_guest = runs["flipped before"][GUEST].value
    assert at_guest["flipped"] == 1.0 and at_guest["spent"] == 1.0
    assert at_guest["over-sampled"].startswith("The training labels are not flips that label_flip released")


def test_a_record_private_step_on_the_output_is_refused_under_any_cap_and_costs_infinity_without(runs):
    for party in EVERYBODY:
        totals = runs["float64"][party].value["totals"]
        assert totals["refused"] == "after" and totals["after"] == math.inf and 0 < totals["before"] < 8


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused_alike_at_every_party_and_leaves_no_line(runs, name):
    _, at_fault, own, public = REFUSED[name]
    if at_fault is None:
        assert_refused(runs[name], own)
    else:
        assert own in runs[name][at_fault].error
        others = [outcome for party, outcome in runs[name].items() if party != at_fault]
        assert {(public or own) in outcome.error for outcome in others} == {True}
        assert all(outcome.error.startswith(f"{at_fault[0]} {at_fault[1]}: ") for outcome in runs[name].values())
    assert all("\n" not in outcome.error and outcome.error.endswith(".") for outcome in runs[name].values())
    assert all(outcome.ledger["entries"] == [] for outcome in runs[name].values())


@pytest.mark.parametrize("name", [name for name, case in REFUSED.items() if case[3] == UNTOLD])
def test_others_do_not_learn_what_the_labels_are_like(runs, name):
    at_fault = REFUSED[name][1]
    assert {outcome.error for party, outcome in runs[name].items() if party != at_fault} == {
        f"{at_fault[0]} {at_fault[1]}: {UNTOLD}"
    }
