"""align at two parties: shares that add up, what each party sees, a hidden size and its charge, and what is refused."""

import struct
from contextlib import ExitStack
from unittest import mock

import numpy as np
import pandas as pd
import pytest

from fate_dp.components.align.preflight import record_name
from fate_dp.components.protocols.joined_tables import Alignment
from fate_dp.crypto.joined_records import SHARE_BITS, VALUE_BITS, points_of

from .attacks import uniformity
from .messages import byte_strings, names, values_of
from .scenarios import GUEST, HOST, SECOND_HOST, SOURCE, Artifact, Scenario, assert_refused, flip, frame_at, play

BOTH = (GUEST, HOST)
UNIT = 2.0**-20
NEVER = 1e-7


def table_of(party, numbers, columns, seed=0, value=None) -> pd.DataFrame:
    """Rows for these persons, in this order; multiples of 1/8, so that they are fixed-point numbers exactly."""
    draws = np.random.default_rng(seed)
    made = pd.DataFrame({"sample_id": [f"{party[0]} row {at}" for at in range(len(numbers))]})
    made["id"] = [f"person {number:04d}" for number in numbers]
    for column in range(columns):
        drawn = draws.integers(-120, 120, len(numbers)) / 8
        made[f"{party[0]} secret {column}"] = drawn if value is None else np.full(len(numbers), value)
    if party == GUEST:
        made["y"] = [number % 2 for number in numbers]
    return made


def tables_of(guest, host, value=None) -> dict:
    return {GUEST: table_of(GUEST, guest, 2, 1, value), HOST: table_of(HOST, host, 3, 2, value)}


# 150 records lie in two blocks, and the host has them in another order.
PLAIN = tables_of(range(170), [*range(189, 19, -1)])
ALL_COMMON = tables_of(range(5), range(4, -1, -1))


def changed(tables, party, **columns) -> dict:
    table = tables[party]
    for name, value in columns.items():
        table = table.drop(columns=name) if value is None else table.assign(**{name: value})
    return {**tables, party: table}


def align(
    ctx,
    earlier,
    tables=ALL_COMMON,
    partitions=None,
    hide_size=None,
    label_source=None,
    labels_of=None,
    worker_memory=16,
    patches=(),
    at=None,
    before=None,
):
    """The component at this party, parameters as FATE parses them; ``patches`` are (target, replacement)."""
    from fate_dp.components.align.component import align as component
    from fate_dp.components.protocols.joined_tables import share_blocks

    me, written, model = tuple(ctx.federation.local_party), Artifact(), Model()
    if labels_of is not None and me == GUEST:
        tables = {**tables, GUEST: earlier[labels_of].value["table"]}
    if before is not None:
        before(ctx)
    given = {"hide_size": hide_size, "label_source": label_source, "worker_memory": worker_memory}
    given |= (at or {}).get(me, {})
    types = component.parameters.mapping
    parsed = {name: value if value is None else types[name].type.parse(value) for name, value in given.items()}
    made = text_frame if "text" in tables.get(me, {}) else frame_at
    frame = made(ctx, tables, (partitions or {}).get(me, 2))
    with ExitStack() as stack:
        for target, replacement in patches:
            stack.enter_context(mock.patch(f"fate_dp.components.align.{target}", replacement))
        component.execute(ctx, None, input_data=Artifact(frame), output_data=written, alignment=model, **parsed)
    facts = Alignment.from_json(model.content)
    blocks = dict(share_blocks(written.frame, facts.names).collect())
    backwards = share_blocks(written.frame, facts.names[:0:-1])
    return {
        "facts": facts,
        "blocks": blocks,
        "table": written.frame.as_pd_df(),
        "shape": written.frame.shape,
        "reversed": dict(backwards.collect()),
        "metrics": {record["name"]: record["data"] for record in ctx.metrics.handler.get_metrics()},
    }


class Model:
    content = None

    def write(self, content, metadata):
        self.content = content


def text_frame(ctx, tables, partitions):
    from fate.arch.dataframe import PandasReader

    table = tables[tuple(ctx.federation.local_party)]
    reader = PandasReader(sample_id_name="sample_id", match_id_name="id", dtype="str", partition=partitions)
    return reader.to_frame(ctx, table)


NO_POINTS = (bytes(32), b"\xff" * 32)
"""One for each partition, so that none overwrites the other."""


class Spoil:
    """Replaces the tag or the record of the first row of each of two partitions."""

    def __init__(self, keys, value):
        self.keys, self.value = keys, value

    def __call__(self, partition, items):
        items = sorted(items)
        for key, value in items[:1]:
            yield (self.keys[partition] if self.keys else key), (self.value(value) if self.value else value)
        yield from items[1:]


def spoiled(ctx, earlier, name, keys=None, value=None, by="host", **arguments):
    """`align` where one party sends malformed rows in place of what ``name`` makes."""
    from fate_dp.components.align import tagged_tables

    honest = getattr(tagged_tables, name)

    def table(*given, **named):
        return honest(*given, **named).mapPartitionsWithIndex(Spoil(keys, value))

    patches = [(f"tagged_tables.{name}", table)] if ctx.federation.local_party[0] == by else []
    return align(ctx, earlier, patches=patches, **arguments)


def little_memory():
    return 5000


def shorter(record):
    return record[:-1]


def zeros(record):
    return bytes(len(record))


def hidden(ctx, earlier, guest, host, **arguments):
    """`align` with a hidden size and a known number of dummies of each party."""
    number = guest if ctx.federation.local_party[0] == "guest" else host
    patches = [("run.draw_dummy_count", lambda *_: number)]
    return align(ctx, earlier, hide_size={"epsilon": 2.0}, patches=patches, **arguments)


def no_budget(ctx):
    from fate_dp.components.common.charges import home_of
    from fate_dp.privacy.private_files import replace_file

    replace_file(home_of(ctx).path / "policy.yaml", b"default_dataset_cap: {epsilon: 0.5, delta: 1.0e-5}\n")


SCENARIOS = {
    "plain": Scenario(
        align, dict(tables=PLAIN, partitions={GUEST: 3, HOST: 2}, patches=[("tagged_tables.BUCKET_ROWS", 40)]), BOTH
    ),
    "all": Scenario(align, dict(), BOTH),
    "all again": Scenario(align, dict(), BOTH),
    "spread": Scenario(
        align, dict(tables=PLAIN, patches=[("preflight.ROW_BYTES", 2**19)], at={HOST: {"worker_memory": 48}}), BOTH
    ),
    "one": Scenario(align, dict(tables=changed(tables_of([7, 1, 2], [8, 7, 9]), GUEST, y=None)), BOTH),
    "none": Scenario(align, dict(tables=tables_of(range(3), range(3, 6))), BOTH),
    "low": Scenario(align, dict(tables=tables_of(range(60), range(60), value=-15.5)), BOTH),
    "high": Scenario(align, dict(tables=tables_of(range(60), range(60), value=15.5)), BOTH),
    "hidden": Scenario(hidden, dict(guest=2, host=5), BOTH),
    "hidden, other numbers": Scenario(hidden, dict(guest=6, host=0), BOTH),
    "no budget": Scenario(align, dict(hide_size=True, before=no_budget), BOTH),
    "flip": Scenario(flip, dict(tables=PLAIN, epsilon=0.8), BOTH, home="flips"),
    "after flips": Scenario(align, dict(tables=PLAIN, labels_of="flip"), BOTH, home="flips"),
    "unknown labels": Scenario(align, dict(label_source=SOURCE), BOTH),
    "id twice": Scenario(align, dict(tables=changed(ALL_COMMON, HOST, id=["a", "b", "c", "a", "d"])), BOTH),
    "label at the host": Scenario(align, dict(tables=changed(ALL_COMMON, HOST, y=1)), BOTH),
    "outside the range": Scenario(
        align, dict(tables=changed(ALL_COMMON, HOST, **{"host secret 1": [0, 0, -16.0, 0, 0]})), BOTH
    ),
    "missing": Scenario(
        align, dict(tables=changed(ALL_COMMON, GUEST, **{"guest secret 1": [0, 0, np.nan, 0, 0]})), BOTH
    ),
    "text": Scenario(align, dict(tables=changed(ALL_COMMON, HOST, text="a")), BOTH),
    "other parameters": Scenario(align, dict(at={HOST: {"hide_size": True}}), BOTH),
    "three parties": Scenario(align, dict(tables={**ALL_COMMON, SECOND_HOST: ALL_COMMON[HOST]}), (*BOTH, SECOND_HOST)),
    "no point": Scenario(spoiled, dict(name="encrypted_table", keys=NO_POINTS), BOTH),
    "a short record": Scenario(spoiled, dict(name="encrypted_table", value=shorter), BOTH),
    "a short record of the guest": Scenario(spoiled, dict(name="encrypted_table", value=shorter, by="guest"), BOTH),
    "an id is missing": Scenario(align, dict(tables=changed(ALL_COMMON, HOST, id=["a", "b", None, "c", "d"])), BOTH),
    "larger than memory": Scenario(align, dict(patches=[("preflight.free_memory", little_memory)]), BOTH),
    "no ciphertext": Scenario(spoiled, dict(name="encrypted_table", value=zeros), BOTH),
    "a masked record wiped": Scenario(spoiled, dict(name="outgoing", value=zeros), BOTH),
    "a masked record under another tag": Scenario(spoiled, dict(name="outgoing", keys=NO_POINTS), BOTH),
}
REFUSALS = {
    "none": "guest 9999: The parties have no ids in common; there is nothing to align.",
    "id twice": "host 10000: An id occurs more than once in the table; every record needs its own match id.",
    "label at the host": "only the guest has labels.",
    "outside the range": "has a value that is not below 16 in magnitude; standardise it.",
    "missing": "must be finite numbers, got a missing or infinite value.",
    "text": "is not numeric; all features must be numbers.",
    "other parameters": "set the same at both",
    "no point": "guest 9999: The other party sent a tag that is no point of prime order",
    "a short record": "guest 9999: An encrypted record must have 512 bytes with its columns under this key, got 511.",
    "a short record of the guest": "host 10000: An encrypted record must have 512 bytes with its columns",
    "an id is missing": "host 10000: A match id is missing, empty or no valid text; every record needs its own",
    "larger than memory": "The ciphertexts of 5 records",
    "no ciphertext": "guest 9999: An encrypted column holds a value outside (0, n^2); it was not made under this key.",
    "a masked record wiped": "An encrypted column holds a value outside (0, n^2); it was not made under this key.",
    "a masked record under another tag": "The other party sent shares of records that are not among the 5 matches.",
}
PRIVATE = {
    "outside the range": (HOST, "Feature 'host secret 1' has"),
    "missing": (GUEST, "Feature 'guest secret 1' must be"),
    "text": (HOST, "Feature 'host secret 0' is not"),
    "no budget": (GUEST, "and the cap is 0.5"),
    "unknown labels": (GUEST, "put label_flip before this task"),
}
"""{scenario: (the party at fault, what it alone is told)}."""
ROWS = ("records", "double_tags", "masked")


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    return play(SCENARIOS, tmp_path_factory.mktemp("align"), (*BOTH, SECOND_HOST))


def value(played, name, party) -> dict:
    outcome = played[name][party]
    assert outcome.error is None, outcome.error
    return outcome.value


def joined(played, name) -> np.ndarray:
    """Both parties' shares added up, float (rows, columns)."""
    blocks = [value(played, name, party)["blocks"] for party in BOTH]
    shapes = [{key: block.shape for key, block in of_party.items()} for of_party in blocks]
    assert shapes[0] == shapes[1]
    assert sorted(blocks[0]) == list(range(len(blocks[0])))
    return np.concatenate([(blocks[0][key] + blocks[1][key]) for key in sorted(blocks[0])]).astype(float) * UNIT


def expected(tables) -> np.ndarray:
    merged = tables[GUEST].merge(tables[HOST], on="id")
    columns = [name for name in merged if "secret" in name] + (["y"] if "y" in merged else [])
    return np.column_stack([merged[columns].to_numpy(dtype=float), np.ones(len(merged))])


def in_order(rows) -> list:
    return sorted(map(tuple, rows.tolist()))


@pytest.mark.parametrize("name", ["plain", "all", "spread", "one", "low"])
def test_shares_add_up_to_the_joined_records_and_non_members_vanish(played, name):
    tables = SCENARIOS[name].arguments.get("tables", ALL_COMMON)
    found = joined(played, name)
    assert in_order(found) == in_order(expected(tables))
    assert value(played, name, GUEST)["facts"].labelled is (name != "one")


def test_rows_lie_in_the_same_random_order_at_both_parties_under_their_positions(played):
    found, plain = joined(played, "plain"), expected(PLAIN)
    assert in_order(found) != found.tolist() and (found != plain).any() and len(found) == 150
    for party in BOTH:
        made = value(played, "plain", party)
        table = made["table"]
        assert sorted(map(int, table["id"])) == list(range(150))
        assert table["sample_id"].tolist() == [f"{made['facts'].session}-{position}" for position in table["id"]]
        assert made["shape"] == (150, 14) and max(len(block) for block in made["blocks"].values()) <= 128
        assert all(str(kind) == "int64" for name, kind in table.dtypes.items() if "." in name)
        halves = table.sort_values("id", key=lambda ids: ids.astype(int))
        shares = np.concatenate([made["blocks"][key] for key in sorted(made["blocks"])])
        first = [int(high) * 2**33 + int(low) for high, low in zip(halves["guest_x0.high"], halves["guest_x0.low"])]
        assert first == shares[:, 0].tolist()
        assert (made["reversed"][0] == made["blocks"][0][:, :0:-1]).all()


def test_both_parties_know_the_same_facts_and_each_its_own_names(played):
    facts = [value(played, "plain", party)["facts"] for party in BOTH]
    assert facts[0].names == ["guest_x0", "guest_x1", "host_x0", "host_x1", "host_x2", "label", "membership"]
    own = [each.own for each in facts]
    assert own == [("guest secret 0", "guest secret 1"), ("host secret 0", "host secret 1", "host secret 2")]
    public = [{**each.to_json(), "own": None} for each in facts]
    assert public[0] == public[1] and public[0]["rows"] == 150
    assert value(played, "all", GUEST)["facts"].session != value(played, "all again", GUEST)["facts"].session


def share_pool(played, name, party) -> list:
    """[(share modulo the width of a mask, that width)] of all shares of a party."""
    width = 1 << SHARE_BITS - 1
    blocks = value(played, name, party)["blocks"]
    return [(int(share) % width, width) for key in sorted(blocks) for share in blocks[key].ravel()]


@pytest.mark.parametrize("party", BOTH, ids=["guest", "host"])
def test_shares_of_one_party_are_uniform_whatever_the_table(played, party):
    for name in ("low", "high"):
        pool = share_pool(played, name, party)
        assert len(pool) == 60 * 7 and uniformity(pool) > NEVER
        # The same look finds values under no mask, and under masks that leave their bits alone.
        units = [int(number / UNIT) for number in joined(played, name).ravel()]
        for shift in (SHARE_BITS - 1, VALUE_BITS):
            bare = [(((share >> shift) << shift) + unit, width) for (share, width), unit in zip(pool, units)]
            assert uniformity([(number % width, width) for number, width in bare]) < NEVER


def test_a_party_sees_no_id_no_name_and_no_clear_value(played):
    for party, other in (BOTH, BOTH[::-1]):
        received = played["plain"][party].received
        verdicts = "preflight" if party == GUEST else "verdict"
        assert names(received) == {(other[0], name) for name in (*ROWS, verdicts)}
        seen = repr(received)
        assert "person" not in seen and "secret" not in seen
        points = set(points_of(record_name(match_id) for match_id in (*PLAIN[GUEST]["id"], *PLAIN[HOST]["id"])))
        tags = {tag for name in ROWS for rows in values_of(received, name) for tag, _ in rows}
        assert not points & tags and {len(tag) for tag in tags} == {32}
        for name in ("preflight", "verdict"):
            for message in values_of(received, name):
                assert not floats_in(message)
        sent = b"".join(text for _, _, message in received for text in byte_strings(message))
        forms = written(PLAIN[other].drop(columns=["sample_id", "id"]).to_numpy(float).ravel())
        assert len(sent) > 10**5 and not [form for form in forms if form in sent]
        assert [form for form in forms if form in sent + sorted(forms)[5]]


def written(numbers) -> set:
    """The bytes of numbers as floats and in fixed point, in both orders; a zero or one looks like any others' bytes."""
    kinds = [(number, int(number / UNIT)) for number in numbers if abs(number) > 1]
    return {struct.pack(f"{order}{kind}", value) for pair in kinds for kind, value in zip("dq", pair) for order in "<>"}


def floats_in(message) -> list:
    if isinstance(message, dict):
        return [found for item in message.values() for found in floats_in(item)]
    return [message] if isinstance(message, (float, np.ndarray)) else []


def test_tables_have_their_public_sizes_and_rows_of_one_length(played):
    for party, other in (BOTH, BOTH[::-1]):
        sizes = {name: len(values_of(played["plain"][party].received, name)[0]) for name in ROWS}
        assert sizes == {"records": len(PLAIN[other]), "double_tags": len(PLAIN[party]), "masked": 150}
        for name in ("records", "masked"):
            assert {len(record) for _, record in values_of(played["plain"][party].received, name)[0]} == {512}
        assert {content for _, content in values_of(played["plain"][party].received, "double_tags")[0]} == {0}


def test_nothing_comes_again_neither_in_one_run_nor_in_two(played):
    """Tags and ciphertexts of two runs on the same data share nothing, and so do those of one run."""
    seen = []
    for name in ("all", "all again"):
        for party in BOTH:
            rows = [values_of(played[name][party].received, kind)[0] for kind in ROWS]
            seen += [{tag for tag, _ in rows[0]}, {record for _, record in rows[0]}, {record for _, record in rows[2]}]
            # A party's double tags come back to it without its records, and name the same matches at both.
            assert {tag for tag, _ in rows[2]} <= {tag for tag, _ in rows[1]}
            assert {tag for tag, _ in rows[1]}.isdisjoint(tag for tag, _ in rows[0])
            seen.append({tag for tag, _ in rows[1]} if party == GUEST else set())
    assert sum(map(len, seen)) == len(set().union(*seen))
    assert in_order(joined(played, "all")) == in_order(joined(played, "all again"))


def test_with_a_hidden_size_dummies_join_as_zero_rows(played):
    for name, dummies in (("hidden", 7), ("hidden, other numbers", 6)):
        found = joined(played, name)
        assert len(found) == 5 + dummies
        real = found[found[:, -1] == 1]
        assert in_order(real) == in_order(expected(ALL_COMMON)) and not found[found[:, -1] == 0].any()


def test_the_size_of_a_table_does_not_tell_the_number_of_dummies(played):
    for party in BOTH:
        runs = [played[name][party].received for name in ("hidden", "hidden, other numbers")]
        sizes = {len(values_of(received, "records")[0]) for received in runs}
        assert sizes == {5 + 2 * value(played, "hidden", party)["facts"].hide_size["pool"]}


def test_a_hidden_size_is_charged_against_the_other_party(played):
    for party, other in (BOTH, BOTH[::-1]):
        (entry,) = played["hidden"][party].ledger["entries"]
        assert (entry["mechanism"], entry["unit"], entry["relation"], entry["observer"]) == (
            "PureDP",
            "record",
            "replace_one",
            f"{other[0]}, model",
        )
        assert entry["event"]["slack"] > 0 and entry["parameters"]["epsilon"] == 2.0 and entry["pending"] == 0
        assert value(played, "hidden", party)["metrics"]["summary"]["number of matches"] == "hidden"
        assert played["plain"][party].ledger["entries"] == []


def test_the_guest_learns_what_its_ledger_says_of_the_labels(played):
    privacy = value(played, "after flips", GUEST)["facts"].label_privacy
    assert privacy["epsilon"] == pytest.approx(0.8) and privacy["source"] == SOURCE
    assert value(played, "after flips", HOST)["facts"].label_privacy is None
    assert value(played, "plain", GUEST)["facts"].label_privacy is None
    flipped = value(played, "flip", GUEST)["table"]
    assert in_order(joined(played, "after flips")) == in_order(expected({**PLAIN, GUEST: flipped[list(PLAIN[GUEST])]}))


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_reaches_both_parties_as_one_sentence(played, name):
    assert_refused(played[name], REFUSALS[name])


@pytest.mark.parametrize("name", PRIVATE)
def test_only_its_own_party_learns_the_details(played, name):
    party, detail = PRIVATE[name]
    errors = {each: played[name][each].error for each in BOTH}
    assert {each for each in BOTH if detail in errors[each]} == {party}
    assert all(error.startswith(f"{party[0]} {party[1]}: ") and "\n" not in error for error in errors.values())


def test_more_than_two_parties_are_refused_before_any_message(played):
    outcomes = played["three parties"].values()
    assert len({outcome.error for outcome in outcomes}) == 1 and not any(outcome.received for outcome in outcomes)
    assert "The job names 1 guests, 2 hosts and 0 arbiters" in played["three parties"][GUEST].error


def test_what_is_refused_before_the_work_sends_no_records_and_charges_nothing(played):
    for name in ("id twice", "no budget", "outside the range", "other parameters"):
        for outcome in played[name].values():
            assert not {message for _, message in names(outcome.received)} & set(ROWS)
            assert outcome.ledger["entries"] == []
