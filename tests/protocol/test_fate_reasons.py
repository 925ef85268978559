"""Reasons of the catalogue about FATE that no transcript shows: what its own code makes of numbers."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

ROWS = 200


def test_a_mask_of_64_bits_leaves_the_product_readable():
    """A share of 64 bits times a feature of 24 fraction bits is longer than its mask: what is left is the feature."""
    from fate.arch.protocol.mpc.common.rng import generate_random_ring_element
    from fate.arch.protocol.mpc.mpc import FixedPointEncoder

    features = torch.tensor(np.random.default_rng(0).normal(size=(ROWS, 1)))
    encoded = FixedPointEncoder(None).encode(features).numpy().ravel()
    share, masks = (
        generate_random_ring_element(None, (rows,), generator=torch.Generator()).numpy() for rows in (1, ROWS)
    )
    masked = [int(value) * int(share[0]) - int(mask) for value, mask in zip(encoded, masks)]
    read = np.array([float(each // 2**64) for each in masked])
    assert np.abs(np.corrcoef(read, features.numpy().ravel())[0, 1]) > 1 - 1e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_okamoto_uchiyama_takes_no_real_number_so_that_no_coordinated_regression_runs_under_it(dtype):
    from fate.arch.protocol.phe.ou import Coder

    with pytest.raises(NotImplementedError, match="not supported"):
        Coder.encode_vec(None, torch.zeros(1, dtype=dtype))


def test_a_selection_by_iv_tells_one_flag_a_column():
    from fate.ml.feature_selection.hetero_feature_selection import HeteroSelectionModuleGuest

    sent = []
    host = SimpleNamespace(name="host_1", put=lambda name, value: sent.append((name, value)))
    ctx = SimpleNamespace(hosts=[host])
    flags = {"host_1_x0": True, "host_1_x1": False}
    chosen = SimpleNamespace(method="iv", _host_selected_mask={"host_1": flags, "host_2": {"host_2_x0": True}})
    HeteroSelectionModuleGuest.sync_select_federated(ctx, chosen)
    assert sent == [("selected_mask_iv", flags)]


def test_the_cipher_mock_leaves_numbers_as_they_are():
    from fate.arch.protocol.phe.mock import FV, PK

    numbers = torch.tensor([0.25, -3.0])
    assert torch.equal(PK().encrypt_encoded(FV(numbers), obfuscate=True).data, numbers)


@pytest.mark.parametrize("kind", ["logistic", "linear"])
def test_residuals_that_the_arbiters_key_opens_give_every_label_and_the_span_of_features(kind):
    """FATE's residuals, s / 4 - y / 2 and s - y, as a host with the key sees them over two steps, the first at zero."""
    rng = np.random.default_rng(3)
    features, own = rng.normal(size=(ROWS, 3)), rng.normal(size=(ROWS, 2))
    labels = np.where(rng.random(ROWS) < 0.4, 1.0, -1.0) if kind == "logistic" else rng.normal(size=ROWS)
    weights = rng.normal(size=3) / 10
    first, second = (
        scores / 4 - labels / 2 if kind == "logistic" else scores - labels
        for scores in (np.zeros(ROWS), features @ weights + own @ [0.05, 0.02])
    )
    assert np.array_equal(np.sign(-first), labels) if kind == "logistic" else np.array_equal(-first, labels)
    read = (second - first) * (4 if kind == "logistic" else 1) - own @ [0.05, 0.02]
    assert np.allclose(read, features @ weights)


def test_an_arbiter_that_is_a_data_party_reads_every_feature_of_the_other_by_its_steps():
    """It computes each step of all weights, so that a change of X w / 4 is a known equation in every row of X."""
    rng = np.random.default_rng(4)
    features, labels = rng.normal(size=(ROWS, 4)), rng.choice([-1.0, 1.0], ROWS)
    weights, steps, seen = np.zeros(4), [], []
    for _ in range(8):
        seen.append(features @ weights / 4 - labels / 2)
        gradient = features.T @ seen[-1] / ROWS + 0.01 * weights
        steps.append(-0.3 * gradient)
        weights = weights + steps[-1]
    read = 4 * np.linalg.lstsq(np.array(steps[:-1]), np.diff(seen, axis=0), rcond=None)[0].T
    assert np.allclose(read, features, atol=1e-6)
