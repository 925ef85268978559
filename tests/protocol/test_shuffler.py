"""shuffler at several parties: right statistics, who sees what, what is charged when, and what is refused."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fate_dp.components.common.charges import home_of
from fate_dp.components.common.preflight import UNTOLD
from fate_dp.components.shuffler.run import ANSWER_BYTES, MESSAGE_BYTES
from fate_dp.privacy.events import REPLACE_ONE
from fate_dp.privacy.labels.flipback import marked

from .scenarios import ARBITER, GUEST, HOST, SECOND_HOST, Artifact, Scenario, assert_refused, play

CLIENTS, SHUFFLER, EVERYBODY = (GUEST, HOST), SECOND_HOST, (GUEST, HOST, SECOND_HOST, ARBITER)
SIZES = {GUEST: 700, HOST: 500}
REQUESTS = [
    {"column": "income", "kind": "mean", "low": 0, "high": 100},
    {"column": "age", "kind": "histogram", "low": 20, "high": 80, "bins": 3},
    {"column": "own", "kind": "frequency", "values": [1, 0]},
]
EXACT = {"epsilon0": 40.0, "min_messages": 400}
"""So few flips that the statistics are those of the tables, with no claim of amplification."""
PRIVATE = {"epsilon": 2.0, "min_messages": 400}
NAMES = [f"messages_{number}" for number in range(len(REQUESTS))]


def table_of(rows, seed) -> pd.DataFrame:
    draws = np.random.default_rng(seed)
    table = pd.DataFrame({"sample_id": [f"sid {row}" for row in range(rows)]})
    table["id"] = [f"person {seed}-{row}" for row in range(rows)]
    table["y"] = draws.integers(0, 2, rows)
    table["income"] = draws.choice([0.0, 100.0, 250.0, -10.0], rows)
    table["age"] = draws.uniform(20, 80, rows)
    table["own"] = draws.choice([0.0, 1.0, 7.0], rows)
    return table


TABLES = {party: table_of(rows, seed) for seed, (party, rows) in enumerate(SIZES.items())}


def changed(party=HOST, **columns) -> dict:
    table = TABLES[party].copy()
    for name, value in columns.items():
        table = table.drop(columns=name) if value is None else table.assign(**{name: value})
    return {**TABLES, party: table}


def statistics(
    ctx,
    earlier,
    tables=TABLES,
    requests=REQUESTS,
    shuffler=SHUFFLER[1],
    delta=1e-6,
    epsilon=None,
    epsilon0=None,
    min_messages=400,
    at=None,
    before=None,
):
    """The component at this party, parameters as FATE parses them; ``at`` holds other parameters of some parties."""
    from fate_dp.components.shuffler.component import shuffler as component

    me = tuple(ctx.federation.local_party)
    if before is not None:
        before(ctx)
    frame = frame_of(ctx, tables[me]) if me in tables else None
    given = {
        "requests": requests,
        "shuffler": shuffler,
        "min_messages": min_messages,
        "epsilon": epsilon,
        "epsilon0": epsilon0,
        "delta": delta,
        **(at or {}).get(me, {}),
    }
    types = component.parameters.mapping
    parsed = {name: value if value is None else types[name].type.parse(value) for name, value in given.items()}
    model = Model()
    component.execute(ctx, None, input_data=None if frame is None else Artifact(frame), output_model=model, **parsed)
    return {
        "model": model.content,
        "totals": totals_of(ctx, frame),
        "metrics": {record["name"]: record["data"] for record in ctx.metrics.handler.get_metrics()},
    }


class Model:
    content = None

    def write(self, content, metadata):
        self.content = content


def frame_of(ctx, table):
    from fate.arch.dataframe import PandasReader

    columns = [name for name in table if name not in ("sample_id", "id", "y")]
    reader = PandasReader(
        sample_id_name="sample_id",
        match_id_name="id",
        label_name="y",
        label_type="float64",
        partition=2,
        dtype={name: "str" if name == "text" else "float64" for name in columns},
    )
    return reader.to_frame(ctx, table)


def totals_of(ctx, frame):
    """What this party's ledger says the server, another client and whoever gets the statistics learned in all."""
    from fate_dp.components.common.charges import columns_name

    if frame is None:
        return None
    dataset = columns_name(frame.schema.columns.to_list())
    return {
        name: home_of(ctx).ledger.total(dataset, "record", REPLACE_ONE, name, delta=1e-6)
        for name in ("server", "client", "model", "shuffler")
    }


def small_cap(ctx):
    from fate_dp.privacy.private_files import replace_file

    if ctx.is_on_host:
        replace_file(home_of(ctx).path / "policy.yaml", b"default_dataset_cap: {epsilon: 0.5, delta: 1.0e-6}\n")


def large_cap(ctx):
    from fate_dp.privacy.private_files import replace_file

    replace_file(home_of(ctx).path / "policy.yaml", b"default_dataset_cap: {epsilon: 1000, delta: 1.0e-6}\n")


def tampered(ctx, earlier, how, **arguments):
    """The host's messages about the last request are not what they should be."""
    from fate_dp.components.shuffler import run

    honest = run.sealed_answers

    def sealed(frame, request, number, sealing):
        given = dict(frame=frame, request=request, number=number, sealing=sealing)
        return how(honest, given) if number == len(REQUESTS) - 1 else honest(**given)

    if ctx.is_on_host:
        run.sealed_answers = sealed
    try:
        return statistics(ctx, earlier, **arguments)
    finally:
        run.sealed_answers = honest


def one_lost(honest, given):
    return honest(**given)[1:]


def one_repeated(honest, given):
    messages = honest(**given)
    return [*messages[1:], messages[-1]]


def of_an_earlier_round(honest, given):
    return honest(**{**given, "number": 0})


def of_another_task(honest, given):
    return honest(**{**given, "sealing": replace(given["sealing"], session="yesterday")})


def to_another_key(honest, given):
    from fate_dp.crypto.sealed_box import BoxKey

    return honest(**{**given, "sealing": replace(given["sealing"], server_key=BoxKey().public_bytes)})


def on(parties=EVERYBODY, home=None, **arguments):
    return Scenario(statistics, arguments, parties, home)


RAN = {
    "exact": on(**EXACT, before=large_cap, home="large"),
    "private": on(**PRIVATE),
    "again": on(**PRIVATE, home="private"),
}
WITH_TEXT = {party: table.assign(text="a") for party, table in TABLES.items()}
BEFORE_WORK = {
    "unknown column": (
        on(tables=changed(own=None), **PRIVATE),
        HOST,
        "requests has the column 'own', which is not among the table's feature columns.",
        UNTOLD,
    ),
    "label": (
        on(requests=[{"column": "y", "kind": "mean", "low": 0, "high": 1}], **PRIVATE),
        GUEST,
        "requests has the column 'y', which is not among",
        UNTOLD,
    ),
    "text": (
        on(tables=WITH_TEXT, requests=[{"column": "text", "kind": "frequency", "values": [1]}], **PRIVATE),
        GUEST,
        "requests has the column 'text', which is not numeric.",
        UNTOLD,
    ),
    "repeated id": (on(tables=changed(id="person"), **PRIVATE), HOST, "An id occurs more than once", UNTOLD),
    "derived labels": (
        on(tables=changed(GUEST, y=marked(np.full(SIZES[GUEST], 0.5))), **PRIVATE),
        GUEST,
        "The labels went through flipback",
        UNTOLD,
    ),
    "shuffler with data": (
        on(tables={**TABLES, SHUFFLER: TABLES[HOST]}, **PRIVATE),
        SHUFFLER,
        "The shuffler was given a table",
        None,
    ),
    "host without data": (on(tables={GUEST: TABLES[GUEST]}, **PRIVATE), HOST, "The party has no rows", None),
    "no such host": (
        on(shuffler="4711", **PRIVATE),
        GUEST,
        "shuffler must be the party id of a host, one of 10000, 10001, got '4711'.",
        None,
    ),
    "the guest shuffles": (on(shuffler=GUEST[1], **PRIVATE), GUEST, "shuffler must be the party id of a host", None),
    "no host beside": (
        on(parties=(GUEST, SHUFFLER, ARBITER), **PRIVATE),
        GUEST,
        "names no host beside the shuffler",
        None,
    ),
    "other requests": (
        on(at={HOST: {"requests": REQUESTS[:2]}}, **PRIVATE),
        GUEST,
        "requests at host 10000 must be [",
        None,
    ),
    "other delta": (
        on(at={HOST: {"delta": 1e-5}}, **PRIVATE),
        GUEST,
        "delta at host 10000 must be 1e-06, as at the guest, got 1e-05.",
        None,
    ),
    "too few records": (
        on(epsilon0=1.0, min_messages=501),
        SHUFFLER,
        "Beside the largest party the others bring 500 records, fewer than min_messages, 501",
        None,
    ),
    "over-sampled": (
        on(tables=changed(id=[f"synthetic-10000-{row}" for row in range(500)]), epsilon0=1.0),
        HOST,
        "has spent epsilon 0, this step asks for",
        "The cap that this party's operator",
    ),
    "small cap": (
        on(before=small_cap, **PRIVATE),
        HOST,
        "has spent epsilon 0, this step asks for",
        "The cap that this party's operator",
    ),
}
ON_THE_WAY = {
    "one lost": (one_lost, SHUFFLER, "host 10000 announced 500 records and sent"),
    "one repeated": (one_repeated, SHUFFLER, "1 messages of this round arrived twice"),
    "earlier round": (of_an_earlier_round, ARBITER, "500 of 1200 messages belong to another round than 2"),
    "other task": (of_another_task, ARBITER, "500 of 1200 messages belong to another session"),
    "other key": (to_another_key, ARBITER, "500 of 1200 messages cannot be opened"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    late = {
        name: Scenario(tampered, {"how": how, "epsilon0": 1.0}, EVERYBODY) for name, (how, _, _) in ON_THE_WAY.items()
    }
    scenarios = {**RAN, **{name: case[0] for name, case in BEFORE_WORK.items()}, **late}
    return play(scenarios, tmp_path_factory.mktemp("homes"), EVERYBODY)


def found(runs, name, party=GUEST):
    assert runs[name][party].error is None, runs[name][party].error
    return runs[name][party].value["model"]["data"]["statistics"]


def received(runs, name, party):
    return [
        (sender, message, value)
        for sender, message, value in runs[name][party].received
        if message not in ("preflight", "verdict")
    ]


def test_with_hardly_any_flips_the_statistics_are_those_of_all_records(runs):
    """Clamped to the declared range, the mean rounded at random to its ends, on which all values lie."""
    records = pd.concat(TABLES.values())
    mean, histogram, frequency = found(runs, "exact")
    assert mean["estimate"] == pytest.approx(records["income"].clip(0, 100).mean(), rel=1e-9)
    counts, _ = np.histogram(records["age"], bins=[20, 40, 60, 80])
    assert [share["estimate"] for share in histogram["shares"]] == pytest.approx(list(counts / len(records)), rel=1e-9)
    assert [(share["from"], share["to"]) for share in histogram["shares"]] == [(20, 40), (40, 60), (60, 80)]
    assert [(share["value"], pytest.approx(share["estimate"], rel=1e-9)) for share in frequency["shares"]] == [
        (1, (records["own"] == 1).mean()),
        (0, (records["own"] == 0).mean()),
        ("other", (records["own"] == 7).mean()),
    ]
    assert {item["messages"] for item in (mean, histogram, frequency)} == {1200}


def test_at_a_small_epsilon_the_statistics_lie_near_those_of_the_records(runs):
    records = pd.concat(TABLES.values())
    mean, _, frequency = found(runs, "private")
    # Six standard errors: one test in two hundred million fails by chance.
    assert abs(mean["estimate"] - records["income"].clip(0, 100).mean()) < 6 * mean["standard_error"] < 72
    shares = {share["value"]: share for share in frequency["shares"]}
    assert abs(shares[1]["estimate"] - (records["own"] == 1).mean()) < 6 * shares[1]["standard_error"] < 0.72


def test_another_run_draws_other_answers(runs):
    assert found(runs, "private") != found(runs, "again")


def test_clients_and_server_get_the_same_document_and_the_shuffler_no_statistics(runs):
    models = {party: runs["private"][party].value["model"] for party in EVERYBODY}
    assert models[GUEST] == models[HOST] == models[ARBITER]
    assert models[SHUFFLER]["data"] == {"statistics": None} and models[SHUFFLER]["meta"] == models[GUEST]["meta"]


def test_the_shuffler_sees_numbers_of_records_and_sealed_messages_of_one_size(runs):
    seen = received(runs, "private", SHUFFLER)
    assert {name for _, name, _ in seen} == {"records", *NAMES}
    for party in CLIENTS:
        own = {name: value for sender, name, value in seen if sender == "-".join(party)}
        assert own.pop("records") == SIZES[party]
        sealed = [
            content[at : at + MESSAGE_BYTES] for content in own.values() for at in range(0, len(content), MESSAGE_BYTES)
        ]
        # Two answers of 2 bytes repeat all the time; what is sealed never does.
        assert len(set(sealed)) == len(sealed) == len(REQUESTS) * SIZES[party]
        assert {len(message) for message in sealed} == {MESSAGE_BYTES} and ANSWER_BYTES == 2


def test_the_server_sees_the_same_messages_in_an_order_that_shows_no_sender(runs):
    at_shuffler, at_server = received(runs, "private", SHUFFLER), received(runs, "private", ARBITER)
    assert {(sender, name) for sender, name, _ in at_server} == {("-".join(SHUFFLER), name) for name in NAMES}
    for _, name, content in at_server:
        senders = {}
        for sender, sent, value in at_shuffler:
            if sent == name:
                senders.update({value[at : at + MESSAGE_BYTES]: sender for at in range(0, len(value), MESSAGE_BYTES)})
        order = [senders[content[at : at + MESSAGE_BYTES]] for at in range(0, len(content), MESSAGE_BYTES)]
        assert len(order) == 1200
        # 700 of 1200 are the guest's: in a random order the first half holds 350, give or take 8.5; unshuffled, 600.
        assert abs(order[:600].count("-".join(GUEST)) - 350) < 55


def test_a_client_receives_the_servers_key_and_the_statistics_alone(runs):
    for party in CLIENTS:
        seen = received(runs, "private", party)
        assert [(sender, name) for sender, name, _ in seen] == [
            ("-".join(ARBITER), "server_key"),
            ("-".join(ARBITER), "statistics"),
        ]


def test_each_client_is_charged_what_the_document_says_and_nobody_else_is(runs):
    meta = runs["private"][GUEST].value["model"]["meta"]
    assert 0 < meta["privacy"]["epsilon"] <= 2.0 and meta["privacy"]["epsilon0"] > 2.0 / 3
    for party in CLIENTS:
        totals = runs["private"][party].value["totals"]
        assert totals == {
            **dict.fromkeys(("server", "client", "model"), pytest.approx(meta["privacy"]["epsilon"])),
            "shuffler": 0.0,
        }
        lines = runs["private"][party].ledger["entries"]
        assert [line["parameters"]["purpose"] for line in lines] == [
            "shuffler: mean of income",
            "shuffler: histogram of age",
            "shuffler: frequency of own",
        ]
        assert {(line["mechanism"], line["unit"], line["pending"]) for line in lines} == {("Shuffled", "record", 0)}
    assert runs["private"][SHUFFLER].ledger["entries"] == runs["private"][ARBITER].ledger["entries"] == []


def test_the_same_job_again_is_charged_again(runs):
    once, twice = (runs[name][GUEST].value["totals"]["server"] for name in ("private", "again"))
    assert once * 1.2 < twice <= 2 * once


def test_the_summary_is_flat(runs):
    summary = runs["private"][HOST].value["metrics"]["summary"]
    assert all(isinstance(value, (int, float, str)) for value in summary.values())
    assert summary["records of this party"] == 500 and summary["records of all parties"] == 1200
    assert {"mean of income", "share of age from 20 to 40", "share of own = other, standard error"} < set(summary)


@pytest.mark.parametrize("name", BEFORE_WORK)
def test_bad_input_is_refused_alike_at_every_party_and_costs_nothing(runs, name):
    _, at_fault, own, public = BEFORE_WORK[name]
    assert own in runs[name][at_fault].error
    for party, outcome in runs[name].items():
        assert (own if party == at_fault else public or own) in outcome.error
        assert "\n" not in outcome.error and outcome.error.startswith(f"{at_fault[0]} {at_fault[1]}: ")
        assert outcome.ledger["entries"] == []
        assert not {message for _, message, _ in received(runs, name, party)} - {"records"}


@pytest.mark.parametrize("name", ON_THE_WAY)
def test_messages_that_are_not_as_announced_end_the_task_at_every_party_and_stay_charged(runs, name):
    _, at_fault, sentence = ON_THE_WAY[name]
    assert_refused(runs[name], f"{at_fault[0]} {at_fault[1]}: {sentence}")
    for party in CLIENTS:
        assert [line["pending"] for line in runs[name][party].ledger["entries"]] == [1, 1, 1]
        assert [message for _, message, _ in received(runs, name, party)] == ["server_key"]
    if at_fault == SHUFFLER:
        assert received(runs, name, ARBITER) == []
