"""What leaves before or beside a training: digests, reasons of refusals, fingerprints, batches, and sizes of messages."""

import hashlib
import hmac
from types import SimpleNamespace

import numpy as np
import pytest

from fate_dp.components.common import frames
from fate_dp.components.common.frames import check_training_table, label_blocks, refuse_label
from fate_dp.components.common.preflight import UNTOLD
from fate_dp.components.dp_hetero_lr.settings import TrainSettings
from fate_dp.components.dp_hetero_lr.traffic import traffic
from fate_dp.components.protocols.optimizers import check_few_valued_batches
from fate_dp.components.protocols.shared_descent import Keys
from fate_dp.crypto.paillier import keypair_of_any_length


def test_a_digest_of_ids_opens_to_no_dictionary_of_single_ids(monkeypatch):
    """Once it named a SHA-256 for each block, and a block of one phone number falls to a list of all of them."""
    blocks = [[0, hashlib.sha256(b"0170 1234567").hexdigest()], [1, hashlib.sha256(b"0170 7654321").hexdigest()]]
    monkeypatch.setattr(frames, "ids_digest", lambda frame: frame)
    digest = frames.alignment_digest(blocks)
    assert isinstance(digest, str) and len(digest) == 64 and digest == frames.alignment_digest(list(blocks))
    assert not {part for _, part in blocks} & {digest}
    assert digest != hashlib.sha256(repr(blocks).encode()).hexdigest()
    assert digest != frames.alignment_digest(blocks[::-1]) != frames.alignment_digest(blocks[:1])


def test_contents_of_tables_are_hashed_under_a_key_of_their_own(monkeypatch):
    """An id and a row are anybody's bytes: under the flip key itself they could read like what the coin of a flip is of."""
    key, ids, features = bytes(32), ["label flip"], np.zeros((1, 1))
    blocks = SimpleNamespace(join=lambda _, kernel: SimpleNamespace(reduce=lambda _: kernel(ids, features)))
    monkeypatch.setattr(frames, "match_id_blocks", lambda frame: blocks)
    monkeypatch.setattr(frames, "feature_blocks", lambda frame: None)
    digest, row = (
        frames.content_digest(None, key),
        len(ids[0]).to_bytes(8, "big") + ids[0].encode() + features.tobytes(),
    )
    own_key = hmac.digest(key, b"fate-dp table content", "sha256")
    assert digest == hmac.digest(own_key, row, "sha256") != hmac.digest(key, row, "sha256")


def schema(**names):
    return SimpleNamespace(shape=(5, 1), schema=SimpleNamespace(**{"weight_name": None, "label_name": None, **names}))


def test_names_of_private_columns_stay_with_their_party():
    texts = SimpleNamespace(
        schema=SimpleNamespace(label_name="hiv_status"),
        data_manager=SimpleNamespace(
            loc_block=lambda name: (0, 0), get_block=lambda at: SimpleNamespace(is_numeric=lambda: False)
        ),
    )
    for call in (
        lambda: check_training_table(schema(weight_name="hiv_status")),
        lambda: refuse_label(schema(label_name="hiv_status")),
        lambda: label_blocks(texts),
    ):
        with pytest.raises(ValueError, match="'hiv_status'") as refused:
            call()
        told = getattr(refused.value, "public", UNTOLD)
        assert "hiv_status" not in told and told.endswith(".")


def test_all_data_parties_see_one_fingerprint_unless_somebody_replaced_a_key():
    pairs = [keypair_of_any_length(128) for _ in range(3)]
    others = [{at: public for at, (public, _) in enumerate(pairs) if at != own} for own in range(3)]
    seen = [Keys(private, peers).fingerprint for (_, private), peers in zip(pairs, others)]
    assert len(set(seen)) == 1 and len(seen[0]) == 32
    replaced = {**others[0], 1: keypair_of_any_length(128)[0]}
    assert Keys(pairs[0][1], replaced).fingerprint != seen[0]


def test_batches_with_columns_of_few_values_need_40_rows_for_each_feature_of_all():
    """On 40 rows with 5 features the losses gave a guest the host's binary column."""
    for rows, size in ((40, None), (199, None), (1000, 199)):
        with pytest.raises(ValueError, match="at least 200, 40 times all parties' features"):
            check_few_valued_batches(rows, size, 5)
    check_few_valued_batches(200, None, 5)
    check_few_valued_batches(1000, 200, 5)


def test_twenty_host_columns_share_a_ciphertext():
    """Two for each row would be 10.6 MB with flipback."""
    settings = TrainSettings(epochs=30)
    assert 5.0e6 < traffic(10_000, (10, 20), settings, flipback=False).bytes <= 5.6e6
    assert 5.0e6 < traffic(10_000, (10, 20), settings, flipback=True).bytes <= 5.8e6
    assert traffic(10_000, (10, 22), settings, flipback=True).bytes > 9e6
