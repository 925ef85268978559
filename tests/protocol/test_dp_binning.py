"""dp_binning between parties: bins and counts that are right, what each party receives, what is charged before, refusals."""

import functools
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from fate_dp.components.common.federation import own_party
from fate_dp.components.common.preflight import UNTOLD
from fate_dp.components.dp_binning.component import MESSAGES
from fate_dp.components.dp_binning.settings import Settings
from fate_dp.crypto.paillier import PublicKey
from fate_dp.privacy.bins import TableBins
from fate_dp.privacy.evidence import BinTable, weight_of_evidence
from fate_dp.privacy.mechanisms.bin_counts import FRACTION_BITS, BinCountNoise

from .scenarios import (
    GUEST,
    HOST,
    SECOND_HOST,
    SOURCE,
    Artifact,
    Scenario,
    assert_refused,
    declare,
    declare_public,
    flip,
    frame_at,
    play,
    role_of,
    summary,
    tables,
)

EVERYBODY = (GUEST, HOST, SECOND_HOST)
ROWS = 150
PLAIN = tables(rows=ROWS, guest=2, hosts=(3, 2))
"""Columns x0 and x1 at the guest, x2 to x4 at the host, x5 and x6 at the second one."""
GENERATOR = np.random.default_rng(5)
ODD = {
    **PLAIN,
    HOST: PLAIN[HOST].assign(
        x2=7.0, x3=np.nan, x4=np.where(GENERATOR.random(ROWS) < 0.2, np.nan, GENERATOR.integers(1, 5, ROWS))
    ),
}
"""At the host a constant column of a special value, one of missing values alone, and categories 1 to 4 of which rules list 1 and 2."""
RULES = {"x0": {"cuts": [0.0]}, "x4": {"categories": [1, 2]}}
OTHERS = {"range": [-3, 3], "bins": 4, "special": [7]}
NEW_ROWS = {
    party: table.head(6).assign(x4=[1, 2, 3, 9, np.nan, 2]) if party == HOST else table.head(6)
    for party, table in PLAIN.items()
}


class Model:
    content = None

    def write(self, content, metadata):
        self.content = content


def binned(ctx, earlier, tables, own=None, labels_of=None, public=False, **given):
    """The stage train as FATE calls it, and what this party drew; ``own`` are parameters of single parties."""
    from fate_dp.components.dp_binning.component import train

    if public:
        declare_public(ctx, tables)
    if labels_of and role_of(ctx) == "guest":
        tables = {**tables, GUEST: earlier[labels_of].value["table"]}
    if given.get("privacy") == "label" and role_of(ctx) == "guest":
        declare(ctx, SOURCE)
        given.setdefault("label_source", SOURCE)
    given = {"columns": RULES, "other_columns": OTHERS, **given, **(own or {}).get(own_party(ctx), {})}
    checked = {name: checked_parameter(name, value) for name, value in given.items()}
    output, model, drawn, draw = Artifact(), Model(), [], BinCountNoise.draw

    def recorded(noise, size, rng=None):
        drawn.append(draw(noise, size, rng))
        return drawn[-1]

    BinCountNoise.draw = recorded
    try:
        frame = Artifact(frame_at(ctx, tables))
        train.execute(ctx, role_word(ctx), train_data=frame, train_output_data=output, output_model=model, **checked)
    finally:
        BinCountNoise.draw = draw
    return {
        "table": output.frame.as_pd_df(),
        "types": set(map(str, output.frame.as_pd_df()[feature_names(tables[own_party(ctx)])].dtypes)),
        "model": model.content,
        "drawn": drawn,
        "summary": summary(ctx),
    }


def checked_parameter(name, value):
    from fate_dp.components.common.parameters import parameters_of

    return None if value is None else parameters_of(Settings)[name].check(value)


@functools.cache
def words():
    from fate.components.core import GUEST as guest
    from fate.components.core import HOST as host

    return {"guest": guest, "host": host}


def role_word(ctx):
    return words()[role_of(ctx)]


def predicted(ctx, earlier, of, tables, spoil=None):
    from fate_dp.components.dp_binning.component import predict

    model, output = Artifact(earlier[of].value["model"] if spoil is None else spoil), Artifact()
    predict.execute(
        ctx, role_word(ctx), test_data=Artifact(frame_at(ctx, tables)), input_model=model, test_output_data=output
    )
    return output.frame.as_pd_df()


def feature_names(table):
    return [name for name in table if name not in ("sample_id", "id", "y")]


def changed(party, drop=(), **values):
    return {**PLAIN, party: PLAIN[party].assign(**values).drop(columns=list(drop))}


NOISY = {"privacy": "label", "epsilon": 2.0}
FULL = {"privacy": "record", "epsilon": 2.0}
PUBLIC = {"privacy": "none", "label_source": SOURCE, "public": True}
RAN = {
    "label": {**NOISY, "tables": ODD},
    "record": {**FULL, "tables": PLAIN},
    "none": {**PUBLIC, "tables": ODD},
    "flips": {"labels_of": "flipped", "tables": PLAIN},
    "guest without features": {**FULL, "tables": changed(GUEST, drop=("x0", "x1"))},
}
UNCOUNTED = {"without woe": {"tables": PLAIN}, "without woe and label": {"tables": changed(GUEST, drop=("y",))}}
"""Without WOE, whose tables need no label."""
SYNTHETIC = ["synthetic-10000-4", *PLAIN[HOST]["id"][1:]]
REFUSED = {
    "no rule": ({"other_columns": None}, "Column 'x1' has no rule", UNTOLD),
    "more bins than rows": (
        {"own": {HOST: {"other_columns": {"range": [0, 1], "bins": 150}}}},
        "has up to 151 bins, more than the table has rows, 150",
        UNTOLD,
    ),
    "host without columns": (
        {"tables": changed(HOST, drop=("x2", "x3", "x4"))},
        "The host's table has no feature columns",
    ),
    "host with a label": ({"tables": changed(HOST, y=1)}, "The host's table has the label column 'y'", UNTOLD),
    "guest without a label": ({"tables": changed(GUEST, drop=("y",))}, "The guest's table has no label column"),
    "other ids": ({"tables": changed(HOST, id=[f"x{row}" for row in range(ROWS)])}, "are not the same ids"),
    "repeated id": ({"tables": changed(HOST, id="a")}, "An id occurs more than once"),
    "synthetic rows": ({"tables": changed(HOST, id=SYNTHETIC), **FULL}, "put dp_binning before smote"),
    "no rows": ({"tables": {party: table.head(0) for party, table in PLAIN.items()}}, "The table has no rows"),
    "one public class": ({**PUBLIC, "epsilon": None, "tables": changed(GUEST, y=0)}, "All labels are of one class"),
    "labels that are no flips": (
        {"privacy": "none", "epsilon": None},
        "The training labels are not flips",
        "does not know these training labels",
    ),
    "other levels": (
        {"own": {HOST: {"privacy": "record"}}},
        "privacy at host 10000 must be label, as at the guest, got 'record'.",
    ),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    scenarios = {"flipped": Scenario(flip, {"tables": PLAIN, "epsilon": 3.0}, EVERYBODY, home="flips")}
    for name, given in RAN.items():
        scenarios[name] = Scenario(binned, given, EVERYBODY, home="flips" if name == "flips" else None)
    for name, given in UNCOUNTED.items():
        scenarios[name] = Scenario(binned, {"woe": False, "bins_epsilon": 3.0, **given}, EVERYBODY)
    scenarios["predict"] = Scenario(predicted, {"of": "none", "tables": NEW_ROWS}, EVERYBODY)
    for name, (given, *_) in REFUSED.items():
        scenarios[name] = Scenario(binned, {"tables": PLAIN, **NOISY, **given}, EVERYBODY)
    other = {**NEW_ROWS, HOST: NEW_ROWS[HOST].rename(columns={"x2": "z"})}
    scenarios["other columns"] = Scenario(predicted, {"of": "none", "tables": other}, EVERYBODY)
    scenarios["no model"] = Scenario(predicted, {"of": "none", "tables": NEW_ROWS, "spoil": {}}, EVERYBODY)
    return play(scenarios, tmp_path_factory.mktemp("homes"), EVERYBODY)


def bins_of(outcome) -> TableBins:
    return TableBins.from_wire(outcome.value["model"]["bins"])


def true_counts(runs, name, party, labels):
    """float64 (2, bins of all columns): events and others, by pandas' cross tables of the bins of the model."""
    table, found = RAN[name]["tables"][party], []
    for column in bins_of(runs[name][party]).columns:
        codes = column.codes(table[column.name].to_numpy(dtype=float))
        found.append(pd.crosstab(codes, labels).reindex(index=range(column.count), columns=[1, 0], fill_value=0))
    return pd.concat(found).to_numpy(dtype=float).T


def told_counts(outcome):
    """The same as the party's model tells it."""
    found = outcome.value["model"]["columns"]
    return np.array([[number for column in found for number in column[kind]] for kind in ("events", "others")])


def labels_of(name):
    return RAN[name]["tables"][GUEST]["y"].to_numpy()


def noise_of(runs, name, party):
    """What a party drew, in counts, draw by draw."""
    return [np.asarray(each) / 2.0**FRACTION_BITS for each in runs[name][party].value["drawn"]]


@pytest.mark.parametrize("name", RAN)
def test_every_value_became_the_number_of_its_bin_and_nothing_else_changed(runs, name):
    assert not any(outcome.error for outcome in runs[name].values()), runs[name]
    for party, outcome in runs[name].items():
        before, bins = RAN[name]["tables"][party], bins_of(outcome)
        after = outcome.value["table"].set_index("id").loc[before["id"]]
        names = feature_names(before)
        assert list(bins.names) == names and outcome.value["types"] <= {"float64"}
        if names:
            assert (after[names].to_numpy() == bins.codes(before[names].to_numpy(dtype=float))).all()
        if party == GUEST and name != "flips":
            assert (after["y"].to_numpy() == before["y"].to_numpy()).all()


def test_without_noise_every_party_has_the_counts_woe_and_iv_of_its_columns(runs):
    for party, outcome in runs["none"].items():
        expected, told = true_counts(runs, "none", party, labels_of("none")), told_counts(outcome)
        assert (told == expected).all()
        for column, span in zip(outcome.value["model"]["columns"], np.cumsum(bins_of(outcome).counts)):
            part = slice(span - len(column["labels"]), span)
            found = weight_of_evidence(BinTable(*expected[:, part]), 1.0)
            np.testing.assert_allclose(column["woe"], found.woe, atol=1e-9)
            assert column["iv"] == pytest.approx(found.iv, abs=1e-9)


def test_a_constant_column_and_one_of_missing_values_alone_tell_nothing(runs):
    constant, missing, categories = runs["none"][HOST].value["model"]["columns"]
    assert constant["iv"] == missing["iv"] == 0
    assert [sum(kind) > 0 for kind in zip(missing["events"], missing["others"])] == [False] * 5 + [True]
    assert categories["labels"] == ["1", "2", "rare", "missing"]


def test_flipped_labels_are_counted_and_the_flips_reverted(runs):
    flipped = runs["flipped"][GUEST].value["table"].set_index("id")
    labels = flipped.loc[PLAIN[GUEST]["id"], "y"].to_numpy().astype(int)
    assert (labels != PLAIN[GUEST]["y"]).any()
    for party, outcome in runs["flips"].items():
        events, others = true_counts(runs, "flips", party, labels)
        rate = 1 / (1 + np.exp(3.0))
        reverted = (events - rate * (events + others)) / (1 - 2 * rate)
        np.testing.assert_allclose(told_counts(outcome), [reverted, events + others - reverted], atol=1e-5)
        # label_flip paid, and counting flips again costs nothing.
        assert [entry["unit"] for entry in outcome.ledger["entries"]] == ["label"] * (party == GUEST)


def test_the_guest_s_noise_is_in_every_sum_that_a_host_learns(runs):
    for party, added in zip((HOST, SECOND_HOST), noise_of(runs, "label", GUEST)):
        events, others = true_counts(runs, "label", party, labels_of("label"))
        noise = added[: len(events)]
        np.testing.assert_allclose(told_counts(runs["label"][party]), [events + noise, others - noise], atol=1e-5)
        assert (noise != 0).all() and not runs["label"][party].value["drawn"]
    assert (told_counts(runs["label"][GUEST]) == true_counts(runs, "label", GUEST, labels_of("label"))).all()


def test_with_privacy_record_every_count_has_noise_of_its_own_party_and_of_the_guest(runs):
    name = "record"
    *to_hosts, own = noise_of(runs, name, GUEST)
    exact = true_counts(runs, name, GUEST, labels_of(name))
    np.testing.assert_allclose(told_counts(runs[name][GUEST]), exact + own, atol=1e-5)
    for party, added in zip((HOST, SECOND_HOST), to_hosts):
        (own,) = noise_of(runs, name, party)
        exact = true_counts(runs, name, party, labels_of(name))
        np.testing.assert_allclose(told_counts(runs[name][party]), exact + [added, -added] + own, atol=1e-5)


@pytest.mark.parametrize("name", UNCOUNTED)
def test_without_woe_nothing_is_counted_charged_or_sent_but_verdicts(runs, name):
    for party, outcome in runs[name].items():
        assert outcome.error is None and not outcome.ledger["entries"]
        assert {called for called, _ in received(outcome)} == {"preflight" if party == GUEST else "verdict"}
        before, bins = UNCOUNTED[name]["tables"][party], bins_of(outcome)
        after = outcome.value["table"].set_index("id").loc[before["id"]]
        names = list(bins.names)
        assert (after[names].to_numpy() == bins.codes(before[names].to_numpy(dtype=float))).all()
        assert outcome.value["model"]["columns"] == [] and outcome.value["model"]["privacy"]["level"] is None
        # bins_epsilon was given, but no column is cut at quantiles.
        assert not any("quantiles" in fact or fact.startswith("IV") for fact in outcome.value["summary"])


def test_the_ledger_charges_the_sensitivity_of_all_columns(runs):
    sigmas = {"label": {GUEST: 5}, "record": {GUEST: 2 * 2 + 5, HOST: 2 * 3, SECOND_HOST: 2 * 2}}
    for name, squares in sigmas.items():
        for party, outcome in runs[name].items():
            entries = outcome.ledger["entries"]
            assert len(entries) == (party in squares)
            assert len(outcome.ledger["labels"]) == (name == "record" and party == GUEST)
            for entry in entries:
                assert (entry["unit"], entry["relation"], entry["mechanism"]) == (name, "replace_one", "Gaussian")
                assert entry["source"] == SOURCE if name == "label" else entry["source"].startswith("columns:")
                assert entry["uses"] and 1.6 < entry["epsilon"] <= 2
            if party in squares:
                told = runs[name][party].value["model"]["privacy"]["guest_sigma" if party == GUEST else "own_sigma"]
                expected = BinCountNoise.of(2.0, 1e-6, 0, squares[party], 1000)
                assert told == pytest.approx(expected.sigma, rel=1e-9)


# What a party receives


def received(outcome):
    return [(name, value) for _, name, value in outcome.received]


SENT_BY_GUEST = {"verdict": 1, "public_key": 1, "encrypted_rows": 1, "label_sums": 1}


@pytest.mark.parametrize("name", RAN)
@pytest.mark.parametrize("party", [HOST, SECOND_HOST])
def test_a_host_gets_a_key_blinded_ciphertexts_and_one_number_for_each_bin(runs, name, party):
    messages = received(runs[name][party])
    assert Counter(called for called, _ in messages) == SENT_BY_GUEST
    told = dict(messages)
    key = PublicKey.from_wire(told["public_key"])
    assert set(told["verdict"]["terms"]) == {"flips", "sigma"}
    blocks = [block for _, block in told["encrypted_rows"]] if told["encrypted_rows"] else []
    sizes = {len(block) % key.ciphertext_bytes for block in blocks}
    values = [
        int.from_bytes(block[at : at + key.ciphertext_bytes], "big")
        for block in blocks
        for at in range(0, len(block), key.ciphertext_bytes)
    ]
    # As many as rows, all different, and none of them a ciphertext without blinding.
    assert sizes == {0} and len(set(values)) == len(values) == ROWS
    assert all(value % key.n != 1 for value in values)
    # Masked: uniform in slots of 49 bits, so that what is told before the mask is off is no small number.
    assert (
        min(told["label_sums"]) > 2**FRACTION_BITS * ROWS
        and len(told["label_sums"]) >= bins_of(runs[name][party]).total
    )


@pytest.mark.parametrize("name", RAN)
def test_the_guest_gets_facts_and_masked_sums(runs, name):
    messages = received(runs[name][GUEST])
    assert Counter(called for called, _ in messages) == {"preflight": 2, "masked": 2}
    for called, value in messages:
        if called == "preflight":
            assert set(value["facts"]) == {"digest", "woe", "privacy", "key_length", "columns", "bins"}
        else:
            assert all(isinstance(item, bytes) for item in value)
    assert "label_sums" in MESSAGES


# Prediction and refusals


def test_new_rows_are_cut_by_the_bins_of_training_and_unseen_categories_are_rare(runs):
    for party, outcome in runs["predict"].items():
        assert outcome.error is None and [name for name, _ in received(outcome)] == ["verdict"] * (party != GUEST) + [
            "preflight"
        ] * 2 * (party == GUEST)
        bins, table = bins_of(runs["none"][party]), NEW_ROWS[party]
        after = outcome.value.set_index("id").loc[table["id"]]
        assert (after[list(bins.names)].to_numpy() == bins.codes(table[list(bins.names)].to_numpy(dtype=float))).all()
    assert runs["predict"][HOST].value.set_index("id").loc[NEW_ROWS[HOST]["id"], "x4"].tolist() == [0, 1, 2, 2, 3, 1]


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_is_everybodys_before_anything_is_charged_or_sent(runs, name):
    sentence, *told = REFUSED[name][1:]
    said = {party: outcome.error for party, outcome in runs[name].items()}
    assert all(said.values()) and any(sentence in error for error in said.values()), said
    if not told:
        assert_refused(runs[name], sentence)
    else:
        assert sum(told[0] in error for error in said.values()) >= 2, said
    for outcome in runs[name].values():
        assert not outcome.ledger["entries"] and {called for called, _ in received(outcome)} <= {"preflight", "verdict"}


@pytest.mark.parametrize(
    "name, own, told",
    [
        ("other columns", "must be in both input_model and the table, got one of them", UNTOLD),
        ("no model", "input_model is no", "input_model is no"),
    ],
)
def test_a_model_that_does_not_fit_is_refused_at_all_parties(runs, name, own, told):
    said = [outcome.error for outcome in runs[name].values()]
    assert all(own in error or told in error for error in said) and any(own in error for error in said), said


def test_the_summary_says_what_protects_and_each_iv(runs):
    for party, outcome in runs["record"].items():
        shown = outcome.value["summary"]
        assert shown["epsilon (nats, unit record, replace-one)"] == 2.0 and shown["rows of this party"] == ROWS
        assert all(f"IV of {name}" in shown for name in bins_of(outcome).names) and "labels" not in shown
    for name, labels in (("flips", "flips of label_flip, at their own epsilon"), ("none", "declared public")):
        for outcome in runs[name].values():
            assert (outcome.value["summary"]["privacy"], outcome.value["summary"]["labels"]) == ("none", labels)
