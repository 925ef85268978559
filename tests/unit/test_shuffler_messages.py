"""Messages of the shuffler: whatever is sent arrives; what is wrong is refused before anything is passed on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fate_dp.components.protocols.sealed_shuffle import (
    DIRECTION,
    Analyzer,
    Encoder,
    InvalidMessage,
    MessageFormat,
    Piece,
    Splitting,
    TooFewMessages,
    shuffle,
)
from fate_dp.crypto.sealed_box import BoxKey, Label, seal_all
from fate_dp.privacy.noise.stream import ReproducibleStream
from fate_dp.privacy.validation import InvalidArgument

KEY = BoxKey()
SIZE = 24
LABEL = Label("", DIRECTION, 3)


def sealed(payloads, round_number=3, size=SIZE, **options):
    return Encoder(KEY.public_bytes, round_number, size, **options).encode(payloads)


def analyzer(least=1, size=SIZE, **options):
    return Analyzer(KEY, size, least, **options)


@settings(max_examples=30)
@given(st.lists(st.binary(max_size=SIZE), min_size=1, max_size=8), st.integers(0, 2**63 - 1))
def test_all_payloads_arrive(payloads, round_number):
    ciphertexts = shuffle(sealed(payloads, round_number), len(payloads))
    assert sorted(analyzer(len(payloads)).open(ciphertexts, round_number)) == sorted(payloads)


@given(st.lists(st.integers(), max_size=30, unique=True), st.integers(0, 2**32))
def test_shuffling_loses_and_adds_nothing(numbers, seed):
    ciphertexts = [str(number).zfill(60).encode() for number in numbers]
    if ciphertexts and len({len(item) for item in ciphertexts}) == 1:
        assert sorted(shuffle(ciphertexts, 1, rng=ReproducibleStream(seed))) == sorted(ciphertexts)


def test_one_size_whatever_the_payload():
    payloads = [b"", b"a", bytes(SIZE)]
    assert {len(item) for item in sealed(payloads)} == {MessageFormat(SIZE).ciphertext_bytes} == {SIZE + 96}
    assert analyzer().open(sealed(payloads), 3) == payloads


def test_every_message_has_an_id_of_its_own():
    contents = MessageFormat(1).contents([Piece(0, b"a")] * 2000)
    ids = np.frombuffer(b"".join(content[:16] for content in contents), dtype=np.uint8).reshape(-1, 16)
    assert len({row.tobytes() for row in ids}) == 2000
    ones = np.unpackbits(ids, axis=1).sum(axis=0, dtype=np.int64)
    assert np.abs(ones - 1000).max() < 7 * np.sqrt(500)  # 128 bits, 7 standard deviations


def test_a_message_of_another_round_or_session_is_refused():
    with pytest.raises(ValueError, match="^2 of 3 messages belong to another round than 4"):
        analyzer().open(sealed([b"a", b"b"], 3) + sealed([b"c"], 4), 4)
    with pytest.raises(ValueError, match="^1 of 1 messages belong to another session"):
        analyzer(session="job 2").open(sealed([b"a"], session="job 1"), 3)
    assert analyzer(session="job 1").open(sealed([b"a"], session="job 1"), 3) == [b"a"]


def test_replays_and_duplicates_are_refused():
    server, ciphertexts = analyzer(), sealed([b"a", b"b"])
    with pytest.raises(InvalidMessage, match="^1 of 3 messages are duplicates"):
        server.open(ciphertexts + ciphertexts[:1], 3)
    assert server.open(ciphertexts, 3) == [b"a", b"b"]
    with pytest.raises(InvalidMessage, match="^Round 3 was opened before"):
        server.open(sealed([b"c"]), 3)
    with pytest.raises(ValueError, match="another round"):
        server.open(ciphertexts, 4)
    with pytest.raises(InvalidMessage, match="^1 messages of this round arrived twice"):
        shuffle(ciphertexts + ciphertexts[1:], 1)


def test_a_message_sealed_again_under_its_old_id_is_refused():
    (content,) = MessageFormat(SIZE).contents([Piece(0, b"a")])
    twice = seal_all([content, content], KEY.public_bytes, LABEL)
    with pytest.raises(InvalidMessage, match="^1 of 2 messages are duplicates"):
        analyzer().open(shuffle(twice, 2), 3)


@pytest.mark.parametrize("arrived, dishonest, least", [(0, 0, 1), (4, 0, 5), (7, 3, 5)])
def test_too_few_messages_end_the_round(arrived, dishonest, least):
    ciphertexts = sealed([b"a"] * arrived)
    with pytest.raises(TooFewMessages, match=f"^{arrived} messages arrived .* takes at least {least}, so it was ended"):
        shuffle(ciphertexts, least, dishonest)
    shuffle(sealed([b"a"] * (least + dishonest)), least, dishonest)


def test_the_server_refuses_too_few_as_well():
    server = analyzer(3)
    with pytest.raises(TooFewMessages):
        server.open(sealed([b"a", b"b"]), 3)
    assert len(server.open(sealed([b"a", b"b", b"c"]), 3)) == 3


def test_wrong_key_and_wrong_size_are_refused():
    foreign = Encoder(BoxKey().public_bytes, 3, SIZE).encode([b"a"])
    with pytest.raises(ValueError, match="^1 of 2 messages cannot be opened: sealed to another key"):
        analyzer().open(foreign + sealed([b"b"]), 3)
    for ciphertexts in (sealed([b"a"], size=SIZE + 1), [sealed([b"a"])[0][:-1]], [b""], ["text"]):
        with pytest.raises(ValueError, match=r"Messages must have 120 bytes, got another size in 1 of 1\."):
            analyzer().open(ciphertexts, 3)
    with pytest.raises(InvalidMessage, match="must be of one size, got several"):
        shuffle(sealed([b"a"]) + sealed([b"a"], size=SIZE + 1), 1)
    for key in (bytes(32), b"short"):
        with pytest.raises(ValueError, match="^The public key of the server"):
            Encoder(key, 3, SIZE)


def malformed(change):
    (content,) = MessageFormat(SIZE).contents([Piece(0, b"a")])
    return seal_all([change(content)], KEY.public_bytes, LABEL)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content[:-1] + b"\x01",
        lambda content: content[:20] + (SIZE + 1).to_bytes(4, "little") + content[24:],
        lambda content: content[:20] + bytes(4) + content[24:],
    ],
    ids=["padding not zero", "too long", "too short"],
)
def test_malformed_contents_are_refused_without_naming_one(change):
    with pytest.raises(InvalidMessage, match="^1 of 2 messages do not keep to the format of a message.$"):
        analyzer().open(malformed(change) + sealed([b"b"]), 3)


def test_a_refused_round_gives_nothing_and_may_be_delivered_again():
    server, ciphertexts = analyzer(2), sealed([b"a", b"b"])
    with pytest.raises(ValueError):
        server.open([*ciphertexts, *sealed([b"c"], 2)], 3)
    assert server.open(ciphertexts, 3) == [b"a", b"b"]


@pytest.mark.parametrize("payloads", [[bytes(SIZE + 1)], ["text"], [None]])
def test_payloads_are_bytes_that_fit(payloads):
    with pytest.raises(InvalidMessage, match="at most 24 bytes"):
        sealed(payloads)


@pytest.mark.parametrize(
    "make",
    [
        MessageFormat,
        Splitting,
        lambda value: Splitting(4, "block", value),
        lambda value: shuffle([b"a"], value),
        lambda value: analyzer(value),
    ],
)
@pytest.mark.parametrize("value", [0, -1, 2.0, True, "3"])
def test_sizes_and_counts_are_whole_numbers(make, value):
    with pytest.raises(ValueError, match="must be a whole number"):
        make(value)


def test_numpys_generators_are_refused():
    with pytest.raises(InvalidArgument):
        shuffle([b"a", b"b"], 1, rng=np.random.default_rng(0))


SPLITTINGS = st.builds(
    Splitting, st.integers(1, 12), st.sampled_from(["none", "block", "coordinate"]), st.integers(1, 13)
)


@settings(max_examples=60)
@given(st.data(), SPLITTINGS, st.integers(1, 4))
def test_pieces_add_up_to_the_sum_in_any_order(data, splitting, vectors):
    numbers = st.integers(-(2**20), 2**20)
    values = data.draw(arrays(np.int64, (vectors, splitting.dimension), elements=numbers))
    sent = values / 8
    pieces = [piece for row in sent for piece in splitting.pieces(row)]
    assert len(pieces) == vectors * splitting.positions
    assert {len(piece.payload) for piece in pieces} == {splitting.payload_bytes}
    total, count = splitting.sum_of(data.draw(st.permutations(pieces)))
    assert count == vectors and total.tolist() == sent.sum(axis=0).tolist()
    assert total.dtype == np.float64


@pytest.mark.parametrize("split, positions", [("none", 1), ("block", 3), ("coordinate", 7)])
def test_split_vectors_travel_through_the_shuffler(split, positions):
    splitting, vectors = Splitting(7, split, 3), np.arange(35.0).reshape(5, 7)
    pieces = [piece for row in vectors for piece in splitting.pieces(row)]
    ciphertexts = Encoder(KEY.public_bytes, 0, splitting.payload_bytes).encode_pieces(pieces)
    shuffled = shuffle(ciphertexts, 5 * positions)
    opened = Analyzer(KEY, splitting.payload_bytes, 5 * positions).open_pieces(shuffled, 0)
    total, count = splitting.sum_of(opened)
    assert splitting.positions == positions and count == 5 and total.tolist() == vectors.sum(axis=0).tolist()


def test_missing_and_surplus_pieces_are_refused():
    splitting = Splitting(6, "block", 2)
    pieces = splitting.pieces(np.ones(6)) + splitting.pieces(np.ones(6))
    for wrong in (pieces[:-1], pieces + pieces[:1], pieces[:-1] + pieces[:1]):
        with pytest.raises(InvalidMessage, match="a piece is missing or surplus"):
            splitting.sum_of(wrong)
    for wrong in ([Piece(3, bytes(8))], []):
        with pytest.raises(InvalidMessage, match="positions from 0 to 2"):
            splitting.sum_of(pieces[:0] + wrong)
    with pytest.raises(InvalidMessage, match=r"Every piece must be of 8 bytes, got another size\."):
        splitting.sum_of([*pieces[1:], Piece(0, bytes(4))])


def test_pieces_are_refused_where_whole_payloads_are_expected():
    ciphertexts = Encoder(KEY.public_bytes, 3, SIZE).encode_pieces([Piece(0, b"a"), Piece(1, b"b")])
    with pytest.raises(InvalidMessage, match="message_splitting: none"):
        analyzer().open(ciphertexts, 3)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_numbers_that_are_not_finite_are_refused(value):
    splitting = Splitting(2)
    with pytest.raises(InvalidMessage, match="must be finite"):
        splitting.pieces(np.array([0.0, value]))
    with pytest.raises(InvalidMessage, match="must be finite"):
        splitting.sum_of([Piece(0, np.array([0.0, -np.inf], dtype="<f4").tobytes())])


@pytest.mark.parametrize("vector", [np.zeros(3), np.zeros((1, 2)), np.zeros(2, dtype=np.int32), np.array(["a", "b"])])
def test_vectors_of_another_shape_or_kind_are_refused(vector):
    with pytest.raises(InvalidMessage, match=r"^A vector must be of shape \(2,\) and type float32, got"):
        Splitting(2).pieces(vector)


def test_unknown_ways_are_refused():
    with pytest.raises(ValueError, match="must be one of"):
        Splitting(2, "blocks")
