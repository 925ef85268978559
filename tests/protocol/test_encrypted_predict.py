"""Encrypted scoring of rows that the guest alone holds: right scores, blind hosts, a guest that gets no more, a cap."""

from functools import partial

import numpy as np
import pandas as pd
import pytest

from fate_dp.components.common.preflight import UNTOLD
from fate_dp.components.dp_hetero_lr.predict import columns_by_host, header_digest
from fate_dp.crypto.encrypted_scoring import encrypt_queries
from fate_dp.crypto.paillier import PrivateKey, PublicKey, column_from_bytes, generate_keypair
from tests.support.paillier import signed

from .messages import names
from .scenarios import ARBITER, GUEST, HOST, SECOND_HOST, Scenario, assert_refused, frame_at, play, role_of

HEADER_BYTES = 40
ONE_HOST, TWO_HOSTS = (GUEST, HOST, ARBITER), (GUEST, HOST, SECOND_HOST, ARBITER)
OWN, FIRST, SECOND = ["own_a", "own_b"], list("abcdefgh"), ["y1", "y2"]
MODEL = {
    GUEST: (OWN, [0.5, -1.25], 0.375),
    HOST: (FIRST, [0.75, -2.0, 0.3, 1e-7, 1.1, -0.6, 0.0, 3.25], None),
    SECOND_HOST: (SECOND, [-0.9, 0.2], None),
}
# Of scores of rows whose column h is 0, this training changes nothing.
RETRAINED = {**MODEL, HOST: (FIRST, [*MODEL[HOST][1][:7], -1.5], None)}
# Its columns are some of those of the models above.
NARROWER = {**MODEL, HOST: (FIRST[:6], MODEL[HOST][1][:6], None)}
# A host's columns of a unit of their own, off centre, the first of them called like one of the guest's.
UNIT = 2.0**24
ALIKE = {GUEST: (["a", "own_b"], *MODEL[GUEST][1:]), HOST: (FIRST, [each / UNIT for each in MODEL[HOST][1]], None)}
DIVERGED = {**MODEL, HOST: (FIRST, [2.0**20, *MODEL[HOST][1][1:]], None)}


def table(rows, columns=(*OWN, *FIRST), seed=0, person="person", **fixed):
    """Rows of standard normal features under ids that begin with ``person``."""
    features = np.random.default_rng(seed).normal(size=(rows, len(columns)))
    ids = [f"{person} {at}" for at in range(rows)]
    return pd.DataFrame({"sample_id": ids, "id": ids, **dict(zip(columns, features.T)), **fixed})


def expected(asked, parties, model=MODEL):
    """Joint scores z by match id."""
    z = sum(asked[columns].to_numpy() @ weights + (bias or 0.0) for columns, weights, bias in map(model.get, parties))
    return pd.Series(z, asked["id"])


# To which a host rounds the scores that the guest may see.
STEP = 2.0**-7


def probabilities(z):
    return 1 / (1 + np.exp(-z))


def document(party, model, family):
    columns, weights, intercept = model[party]
    param = {"coef_": [[weight] for weight in weights], "intercept_": None if intercept is None else [intercept]}
    estimator = {"param": param, "fit_intercept": intercept is not None, "header": columns}
    if model == ALIKE and party == HOST:
        estimator["units"] = {"centre": [3 * UNIT] * len(columns), "scale": [UNIT] * len(columns)}
    return {"data": {"estimator": estimator}, "meta": {"family": family, "labels": [0, 1], "threshold": 0.5}}


def ask(ctx, earlier, asked, model=MODEL, cap=None, family="binomial", partitions=2, key=None, joint=False):
    """dp_hetero_lr's predict stage; only the guest has a table, and ``key`` is used in place of a new one."""
    from fate_dp.components.dp_hetero_lr import predict as stage
    from fate_dp.components.dp_hetero_lr.settings import PredictSettings

    settings = PredictSettings(score_step=STEP)
    if role_of(ctx) == "arbiter":
        return stage.predict_arbiter(ctx)
    own, frame = document(tuple(ctx.federation.local_party), model, family), frame_at(ctx, {GUEST: asked}, partitions)
    if role_of(ctx) == "host":
        allow(ctx, own["data"]["estimator"]["header"], cap)
        return (stage.predict_host if joint else stage.predict_host_encrypted)(ctx, settings, own, frame)
    made = []
    stage.generate_keypair = partial(make_key, made=made, key=key)
    scored = (stage.predict_guest if joint else stage.predict_guest_encrypted)(ctx, settings, own, frame)
    return {"scored": scored.as_pd_df().set_index("id"), "moduli": [public.n for public, _ in made]}


def make_key(length, made, key):
    made.append(generate_keypair(length) if key is None else key_pair(*key))
    return made[-1]


def key_pair(n, blinding_base, p, q):
    public = PublicKey(n, blinding_base)
    return public, PrivateKey(public, p, q)


def allow(ctx, header, cap):
    """The host's operator sets the cap of rows asked with the weights of these columns."""
    from fate_dp.components.common.charges import columns_name, home_of
    from fate_dp.privacy.private_files import replace_file

    if cap is not None:
        name = f"weights of {columns_name(header)}"
        replace_file(home_of(ctx).path / "policy.yaml", f"score_caps:\n  {name!r}: {cap}\n".encode())


def send_more_rows_than_announced(ctx, earlier, asked, key):
    from fate_dp.components.common.preflight import agree
    from fate_dp.components.dp_hetero_lr import predict as stage

    if role_of(ctx) != "guest":
        return ask(ctx, earlier, asked, cap=100)
    agree(ctx, dict, lambda hosts: {"rows": len(asked) - 1})
    (_, private), to_hosts = key_pair(*key), ctx.sub_ctx("predict").hosts
    to_hosts.put("public_key", private.to_wire())
    features = stage._in_messages(frame_at(ctx, {GUEST: asked})[FIRST])
    to_hosts.put("queries", features.mapValues(partial(encrypt_queries, encryption=private.encryption())))


FIVE, FIVE_OTHERS = table(5, h=0.0), table(5, seed=1, person="somebody else")
ZEROS = table(5).assign(**dict.fromkeys([*OWN, *FIRST], 0.0))
OF_A_UNIT = table(5, columns=["a", "own_b"]).assign(
    **{
        name: UNIT * (3 + column)
        for name, column in table(5, ["10000.a", *FIRST[1:]], seed=4)[["10000.a", *FIRST[1:]]].items()
    }
)
LABELLED = table(7, seed=2, columns=[*SECOND, "own_b", *FIRST, "own_a"]).assign(y=[0, 1, 1, 0, 1, 0, 0])
MANY = table(80, seed=3, columns=[*OWN, *SECOND])
GAUSSIAN = {**MODEL, GUEST: (OWN, MODEL[GUEST][1], None)}
ONLY_SECOND = (GUEST, SECOND_HOST)


def scenarios(key) -> dict:
    def asks(asked, parties=ONE_HOST, home=None, **arguments):
        return Scenario(ask, {"asked": asked, "cap": 100, **arguments}, parties, home)

    def refused(asked, parties=ONE_HOST, **arguments):
        return asks(asked, parties, "refused", **arguments)

    default_cap = {"cap": None, "home": "default cap"}
    return {
        "five": asks(FIVE, key=key, home="five"),
        "five retrained": asks(FIVE, key=key, model=RETRAINED, home="five"),
        "five others": asks(FIVE_OTHERS, key=key, partitions=3),
        "alike": asks(OF_A_UNIT, model=ALIKE),
        "zeros": asks(ZEROS, key=key, partitions=1),
        "two hosts": asks(LABELLED, TWO_HOSTS),
        "many": asks(MANY, ONLY_SECOND, partitions=4, model=GAUSSIAN, family="gaussian"),
        "quarter": asks(table(1), **default_cap),
        "beyond quarter": asks(table(2), **default_cap),
        "beyond quarter, retrained": asks(table(2), model=RETRAINED, **default_cap),
        "narrower": asks(table(1, [*OWN, *FIRST[:6]]), model=NARROWER, **default_cap),
        "consent": asks(table(3), home="default cap", cap=5),
        "second host beyond": asks(LABELLED, TWO_HOSTS, cap=None),
        "no table": refused(None),
        "empty table": refused(FIVE.head(0)),
        "own column missing": refused(FIVE.drop(columns="own_b")),
        "host column missing": refused(FIVE.drop(columns="c")),
        "hosts interleaved": refused(LABELLED[["sample_id", "id", *OWN, "y1", *FIRST, "y2"]], TWO_HOSTS),
        "value missing": refused(FIVE.assign(d=np.nan)),
        "weight too large": refused(FIVE, model=DIVERGED),
        "joint without a host's table": refused(FIVE[["sample_id", "id", *OWN]], joint=True),
        "joint without the guest's table": refused(None, joint=True),
        "more than announced": Scenario(send_more_rows_than_announced, {"asked": FIVE, "key": key}, ONE_HOST),
    }


REFUSED = {
    "beyond quarter": "asks host 10000 to score 2 rows with its weights, but it allows only 1 more",
    "beyond quarter, retrained": "but it allows only 1 more",
    "narrower": "but it allows only 0 more",
    "second host beyond": "asks host 10000 to score 7 rows with its weights, but it allows only 2 more",
    "no table": "The guest has no test_data",
    "empty table": "The guest's table has no rows to score",
    "own column missing": "",
    "host column missing": "",
    "hosts interleaved": "",
    "value missing": "",
    "weight too large": "",
    "joint without a host's table": "host 10000: The task has no test_data at this party",
    "joint without the guest's table": "guest 9999: The task has no test_data at this party",
}
AFTER_A_ROW = ("beyond quarter", "beyond quarter, retrained", "narrower")
DETAILS = {
    "own column missing": "lacks the column 'own_b'",
    "host column missing": "has 7 columns beside the guest's own, but the models of the hosts have 8",
    "hosts interleaved": "From 'y1' on, the table has other columns than host 10000 and host 10001",
    "value missing": "Feature 'd' must be finite numbers",
}


def test_columns_of_guest_and_host_may_be_called_alike_and_have_any_unit(runs):
    of_host = (OF_A_UNIT[["10000.a", *FIRST[1:]]].to_numpy() / UNIT - 3) @ MODEL[HOST][1]
    scored = runs["alike"][GUEST].value["scored"]["predict_score"]
    expected_scores = probabilities(expected(OF_A_UNIT, [GUEST], ALIKE) + of_host)
    np.testing.assert_allclose(scored, expected_scores.reindex(scored.index), atol=1e-6)


@pytest.fixture(scope="module")
def key():
    public, private = generate_keypair()
    return public.n, public.blinding_base, *map(int, private._primes)


@pytest.fixture(scope="module")
def runs(tmp_path_factory, key):
    return play(scenarios(key), tmp_path_factory.mktemp("homes"))


def received(runs, name, party, message):
    """What the party got under this name: builtins, tables as sorted lists of (key, value)."""
    return [value for _, kind, value in runs[name][party].received if kind == message]


def ciphertexts(messages, n) -> list:
    return [item.value for _, data in messages for item in column_from_bytes(data[HEADER_BYTES:], PublicKey(n))]


def queries(runs, name, party=HOST):
    (messages,) = received(runs, name, party, "queries")
    return messages


def answers(runs, name):
    (messages,) = received(runs, name, GUEST, "answers")
    return messages


def counted(runs, name, party=HOST) -> int:
    entries = runs[name][party].ledger["entries"]
    assert {entry["parameters"]["purpose"] for entry in entries} <= {"encrypted scoring"}
    return sum(entry["rounds"] for entry in entries if entry["counted"])


def scored(runs, name) -> pd.DataFrame:
    return runs[name][GUEST].value["scored"]


@pytest.mark.parametrize(
    "name, asked, parties, model",
    [
        ("five", FIVE, (GUEST, HOST), MODEL),
        ("five others", FIVE_OTHERS, (GUEST, HOST), MODEL),
        ("two hosts", LABELLED, (GUEST, HOST, SECOND_HOST), MODEL),
        ("many", MANY, ONLY_SECOND, GAUSSIAN),
    ],
)
def test_scores_are_those_of_the_plain_model(runs, name, asked, parties, model):
    z = expected(asked, parties, model)
    wanted = z if name == "many" else probabilities(z)
    got = scored(runs, name)["predict_score"].astype(float)
    assert len(got) == len(asked)
    np.testing.assert_allclose(got[wanted.index], wanted, atol=1e-6)


def test_the_prediction_has_fates_format(runs):
    table = scored(runs, "two hosts")
    assert {"label", "predict_score", "predict_result", "predict_detail", "type"} <= set(table.columns)
    assert set(table["type"]) == {"test_set"}
    assert (table["label"].astype(int) == LABELLED.set_index("id")["y"][table.index]).all()


def test_a_host_gets_a_key_ciphertexts_and_the_number_of_rows(runs):
    for name in ("five", "many", "two hosts"):
        for party in set(runs[name]) & {HOST, SECOND_HOST}:
            assert names(runs[name][party].received) == {
                ("guest", kind) for kind in ("verdict", "public_key", "queries")
            }
            rows = len(scored(runs, name))
            assert received(runs, name, party, "verdict") == [{"problem": None, "terms": {"rows": rows}}]
            messages = queries(runs, name, party)
            assert [(at, type(data)) for at, data in messages] == [(at, bytes) for at in range(-(-rows // 72))]
    assert runs["five"][ARBITER].received == [("guest-9999", "verdict", {"problem": None, "terms": {"rows": 5}})]


def test_what_a_host_gets_has_one_size_whatever_the_ids_the_values_and_their_spread(runs):
    sizes = {name: [len(data) for _, data in queries(runs, name)] for name in ("five", "five others", "zeros")}
    assert set(map(tuple, sizes.values())) == {(HEADER_BYTES + 5 * 8 * 512,)}
    assert [len(data) for _, data in queries(runs, "many", SECOND_HOST)] == [
        HEADER_BYTES + rows * 2 * 512 for rows in (72, 8)
    ]


def test_no_ciphertext_at_a_host_is_readable_without_the_key(runs, key):
    n = key[0]
    for name in ("five", "zeros"):
        sent = ciphertexts(queries(runs, name), n)
        # Unblinded ones are 1 + m n: 1 modulo n, and equal for equal plaintexts, as all those of the zeros are.
        assert len({value % n for value in sent}) == len(sent) == 40 and all(value % n != 1 for value in sent)


def test_a_host_gets_its_own_columns_and_no_others_not_even_encrypted(runs, key):
    private = key_pair(*key)[1]
    plaintexts = [signed(private, value) for value in ciphertexts(queries(runs, "five"), key[0])]
    got, wanted = np.array(plaintexts, dtype=float).reshape(5, 8) * 2.0**-24, FIVE[FIRST].to_numpy()
    np.testing.assert_allclose(got[np.argsort(got[:, 0])], wanted[np.argsort(wanted[:, 0])], atol=2.0**-24)


def test_the_same_rows_under_the_same_key_are_other_ciphertexts(runs, key):
    for sent in (queries, answers):
        first, second = (set(ciphertexts(sent(runs, name), key[0])) for name in ("five", "five retrained"))
        assert not first & second


def test_each_task_has_a_key_of_its_own(runs):
    (first,), (second,) = (runs[name][GUEST].value["moduli"] for name in ("quarter", "consent"))
    assert first != second and first.bit_length() == second.bit_length() == 2048
    (sent,) = received(runs, "quarter", HOST, "public_key")
    assert sent["n"] == first and set(sent) == {"n", "blinding_base", "proof"}


def test_the_guest_gets_a_count_a_hash_of_names_and_packed_scores(runs, key):
    outcome = runs["five"][GUEST]
    assert names(outcome.received) == {("host", "preflight"), ("arbiter", "preflight"), ("host", "answers")}
    facts = next(report["facts"] for report in received(runs, "five", GUEST, "preflight") if report["facts"])
    assert set(facts) == {"features", "header_digest", "scales", "rows_left", "models"} and (
        facts["features"],
        facts["models"],
    ) == (8, 1)
    assert len(facts["header_digest"]) == 64
    assert [len(data) for _, data in answers(runs, "five")] == [HEADER_BYTES + 512]


def test_of_the_weights_the_guest_gets_the_scores_and_nothing_else(runs, key):
    private = key_pair(*key)[1]
    first, second = (
        [private.decrypt(value) for value in ciphertexts(answers(runs, name), key[0])]
        for name in ("five", "five retrained")
    )
    # Other weights that score these rows alike: the answers hold the same numbers, under other blinding.
    assert first == second


def test_a_host_counts_every_row_over_all_jobs_even_the_same_ones(runs):
    assert [counted(runs, name) for name in ("five", "five retrained")] == [5, 10]
    assert counted(runs, "many", SECOND_HOST) == 80
    assert [counted(runs, "two hosts", party) for party in (HOST, SECOND_HOST)] == [7, 7]


def test_without_a_policy_a_quarter_of_the_features_may_be_asked_over_all_models_on_them(runs):
    steps = ("quarter", "beyond quarter", "beyond quarter, retrained", "narrower", "consent")
    assert [counted(runs, name) for name in steps] == [1, 1, 1, 1, 4]


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_scored_is_refused_at_every_party_before_work(runs, name):
    assert_refused(runs[name], REFUSED[name])
    for party, outcome in runs[name].items():
        assert {message for _, message, _ in outcome.received} <= {"preflight", "verdict"}
        assert party == GUEST or name in AFTER_A_ROW or not outcome.ledger["entries"]


ASKED = [*OWN, *FIRST]


@pytest.mark.parametrize(
    "names",
    [
        [*ASKED, "z"],
        ASKED[:-1],
        [*OWN, *FIRST[::-1]],
        [*OWN, *FIRST[:7], "z"],
        [*OWN, *FIRST[:2], FIRST[3], FIRST[2], *FIRST[4:]],
    ],
)
def test_a_table_with_other_columns_than_the_models_is_refused(names):
    assert columns_by_host(ASKED, OWN, {"host 1": facts_of(FIRST)}) == {"host 1": FIRST}
    with pytest.raises(ValueError, match="(?i)beside the guest's own"):
        columns_by_host(names, OWN, {"host 1": facts_of(FIRST)})


def test_two_hosts_with_the_same_columns_cannot_be_asked_of_one_table():
    hosts = {"host 1": facts_of(SECOND), "host 2": facts_of(SECOND)}
    with pytest.raises(ValueError, match="From 'z1' on"):
        columns_by_host([*SECOND, "z1", "z2"], [], hosts)


def facts_of(names) -> dict:
    return {"features": len(names), "header_digest": header_digest(names)}


@pytest.mark.parametrize("name", DETAILS)
def test_only_the_guest_reads_which_of_its_columns_is_wrong(runs, name):
    assert DETAILS[name] in runs[name][GUEST].error
    for party in set(runs[name]) - {GUEST}:
        assert runs[name][party].error == f"guest 9999: {UNTOLD}"


def test_only_the_host_reads_that_its_weights_are_too_large(runs):
    assert "A weight reaches a magnitude of 2^20" in runs["weight too large"][HOST].error
    for party in (GUEST, ARBITER):
        assert UNTOLD in runs["weight too large"][party].error


def test_a_host_scores_no_row_that_it_has_not_counted(runs):
    assert "The guest sent 5 rows but had announced 4" in runs["more than announced"][HOST].error
    assert counted(runs, "more than announced") == 4
    assert received(runs, "more than announced", GUEST, "answers") == []


def test_the_other_jobs_are_not_refused(runs):
    failed = {name: outcome.error for name, parties in runs.items() for outcome in parties.values() if outcome.error}
    assert set(failed) == {*REFUSED, "more than announced"}
