"""Numbers that a secret key and a label give again: another key, or any part of the label alone, gives others.

Where a part is missing, two secrets get one number, and their difference is bare. Streams with such a test of their own are
those of flips and noisy numbers (test_randomized_response, test_noisy_numbers), of samples and the source's rule (test_homo_nn_*),
of the shuffler's answers (test_shuffler_statistics), of pairwise masks and boxes (test_crypto_*).
"""

from types import SimpleNamespace

import numpy as np
import pytest
from share_lr_tables import LocalTable

from fate_dp.components.align.tagged_tables import Blinding, blinded_records
from fate_dp.components.common import frames
from fate_dp.components.dp_hetero_lr.model import initial_weights
from fate_dp.components.dp_hetero_lr.rows import Block
from fate_dp.components.dp_hetero_lr.scores import rounded_scores
from fate_dp.components.share_lr.scoring import _sealed, limbs_of
from fate_dp.crypto import cross_product
from fate_dp.crypto.joined_records import encrypt_records
from fate_dp.crypto.paillier import generate_keypair
from fate_dp.crypto.slots import encode_features
from fate_dp.privacy.labels.flips import label_tags, record_tags

KEY, OTHER = bytes(range(32)), bytes(range(31)) + b"\0"
PUBLIC, PRIVATE = generate_keypair(2048)
LAYOUT = cross_product.wide_layout(2, PUBLIC)
RECORDS = [encrypt_records(np.array([[1, 2]]), PRIVATE.encryption(), 1)[0] for _ in range(2)]
ROWS = cross_product.encrypt_shares(np.array([[1, 2, 3]] * 2, dtype=object), PRIVATE.encryption(), LAYOUT, 2)
FEATURES = np.random.default_rng(1).normal(size=(300, 3))


def mask_of_align(key, tag, record):
    ((_, (_, kept)),) = blinded_records([(tag, record)], Blinding(2, PUBLIC, key, 1))
    return np.frombuffer(kept, dtype=np.int64).tolist()


def mask_of_scores(key, block):
    weights = limbs_of(np.array([5, 7], dtype=object))
    ((_, (_, share)),) = _sealed([(block, (3, ROWS))], weights, LAYOUT, PUBLIC, key)
    return share.tolist()


def rounding_of_scores(key, weights, first):
    """Of rows of which only ``first`` is another one: with these weights its score, but no other, is the same."""
    features = np.vstack([first, FEATURES])
    ((_, found),) = rounded_scores(
        LocalTable([(0, Block(0, encode_features(features)))]), weights, key, 2.0**-4
    ).collect()
    return found[: len(first)].tolist()


def start(key, state, model):
    return initial_weights({"method": "random", "random_state": state}, 3, key, False, model).tolist()


def content(key, match_id, features):
    pairs = SimpleNamespace(
        join=lambda _, kernel: SimpleNamespace(reduce=lambda _: kernel([match_id], np.array([features])))
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "match_id_blocks", lambda frame: pairs)
        patch.setattr(frames, "feature_blocks", lambda frame: None)
        return list(frames.content_digest(None, key))


def tags_of_record(key, match_id, source):
    return list(record_tags([match_id], key, source)[0])


def tags_of_label(key, match_id, source, label):
    return list(label_tags([match_id], [label], key, source)[0])


TAG = bytes(range(32))
WEIGHTS = np.array([0.5, -0.25, 0.0])
STREAMS = [
    (mask_of_align, dict(tag=TAG, record=RECORDS[0]), dict(tag=TAG[:-1] + b"\0", record=RECORDS[1])),
    (mask_of_scores, dict(block=1), dict(block=2)),
    (
        rounding_of_scores,
        dict(weights=WEIGHTS, first=FEATURES[:40]),
        # The same score of the first rows, hidden anew: a weight of nothing, a column that counts for nothing.
        dict(weights=np.nextafter(WEIGHTS, 1), first=FEATURES[:40] + [0, 0, 1]),
    ),
    (start, dict(state=1, model=0), dict(state=2, model=1)),
    (content, dict(match_id="a", features=[1.0, 2.0]), dict(match_id="b", features=[1.0, 3.0])),
    (tags_of_record, dict(match_id="a", source="a/b/c"), dict(match_id="b", source="a/b/d")),
    (tags_of_label, dict(match_id="a", source="a/b/c", label="0"), dict(match_id="b", source="a/b/d", label="1")),
]


@pytest.mark.parametrize("stream, label, others", STREAMS, ids=[stream.__name__ for stream, *_ in STREAMS])
def test_every_part_of_a_label_counts(stream, label, others):
    once = np.array(stream(KEY, **label))
    np.testing.assert_array_equal(once, stream(KEY, **label))
    changed = {"key": stream(OTHER, **label)}
    changed |= {part: stream(KEY, **{**label, part: other}) for part, other in others.items()}
    for part, found in changed.items():
        assert (once != np.array(found)).mean() > 0.2, part
