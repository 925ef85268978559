"""A host does not rely on the guest's word for what a job may do, and a model says what its labels cost."""
import math
from dataclasses import replace

import pytest

from fate_dp.components.common.provenance import LabelPrivacy
from fate_dp.components.dp_hetero_lr.per_epoch.arbiter import refuse_more_than
from fate_dp.components.dp_hetero_lr.settings import TrainSettings, batch_bounds
from fate_dp.components.dp_hetero_lr.solvers import solver_of
from fate_dp.components.dp_hetero_lr.terms import accept_terms, corrections
from fate_dp.crypto.masked_packing import slots_per_ciphertext
from fate_dp.crypto.paillier import PublicKey
from fate_dp.privacy.flipback import FlipbackSettings

SETTINGS = TrainSettings(epochs=10, batch_size=40, flipback=FlipbackSettings(mode="swap", every=2, max_rounds=2))
FAIR = {"batches": batch_bounds(100, 40), "flipback_epochs": [2, 4], "score_epochs": [2, 4], "features": [4, 2], "noise": None}
EXACT = replace(SETTINGS, sigmoid="exact", sigmoid_rounds=1)


def test_fair_terms_are_accepted_also_as_lists_from_the_wire():
    accept_terms({**FAIR, "batches": [list(bounds) for bounds in FAIR["batches"]]}, SETTINGS, 100, None)


@pytest.mark.parametrize("batches", [[(0, 1), (1, 100)], [(0, 100)], [(0, 40), (40, 80), (80, 100)], []])
def test_other_batches_than_the_parameters_give_are_refused(batches):
    with pytest.raises(ValueError, match="batches are not those of batch_size"):
        accept_terms({**FAIR, "batches": batches}, SETTINGS, 100, None)


def test_more_flipback_rounds_than_the_parameters_give_are_refused():
    with pytest.raises(ValueError, match="more flipback rounds"):
        accept_terms({**FAIR, "flipback_epochs": [2, 4, 6]}, SETTINGS, 100, None)


def test_epochs_with_joint_scores_are_those_that_the_parameters_give():
    with pytest.raises(ValueError, match="other epochs with joint scores"):
        accept_terms({**FAIR, "score_epochs": [2, 4, 6]}, SETTINGS, 100, None)
    (correction,) = corrections(EXACT, None)
    accept_terms({**FAIR, "score_epochs": sorted({2, 4, correction})}, EXACT, 100, None)
    with pytest.raises(ValueError, match="other epochs with joint scores"):
        accept_terms({**FAIR, "score_epochs": list(range(10))}, EXACT, 100, None)


@pytest.mark.parametrize("given, solver", [
    ({}, "cross_product"),
    ({"solver": "per_epoch"}, "per_epoch"),
    ({"family": "gaussian"}, "cross_product"),
    ({"early_stop": "weight_diff"}, "per_epoch"),
    ({"optimizer": {"method": "adam", "penalty": "l2"}}, "per_epoch"),
    ({"optimizer": {"method": "sgd", "penalty": "l1"}}, "per_epoch"),
])
def test_the_cross_product_trains_wherever_the_update_rule_is_linear(given, solver):
    assert solver_of(TrainSettings(**given)) == solver


@pytest.mark.parametrize("earlier, epsilon", [
    ({"source": "a/b/y", "epsilon": 2.0}, 2.0),
    ({"source": "a/b/y", "epsilon": 1.0}, 3.0),
    ({"source": "other/b/y", "epsilon": 2.0}, 4.0),
    ({"source": "a/b/y", "epsilon": "infinity"}, math.inf),
    ({}, math.inf),
])
def test_a_warm_start_carries_what_its_labels_cost(earlier, epsilon):
    privacy = LabelPrivacy("a/b/y", 2.0)
    assert privacy.after({"meta": {"privacy": earlier}}).epsilon == epsilon
    assert privacy.after(None) == privacy


def test_the_arbiter_decrypts_what_a_gradient_needs_and_no_more():
    key = PublicKey((1 << 2047) + 9)
    slots = slots_per_ciphertext(key)
    refuse_more_than(slots + 1, [b"", b""], key, "host_10000")
    for masked in ([b""], [b""] * 3):
        with pytest.raises(ValueError, match="host_10000 sent . ciphertexts to decrypt"):
            refuse_more_than(slots + 1, masked, key, "host_10000")
