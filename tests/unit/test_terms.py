"""A host does not rely on the guest's word for what a job may do, and a model says what its labels cost."""

import json
import math
from dataclasses import replace

import pytest

from fate_dp.components.common.provenance import LabelPrivacy
from fate_dp.components.dp_hetero_lr.agreement import OwnPart, accept_terms
from fate_dp.components.dp_hetero_lr.model import _flip_probability
from fate_dp.components.dp_hetero_lr.per_epoch.protocol import refuse_more_than
from fate_dp.components.dp_hetero_lr.settings import TrainSettings
from fate_dp.components.protocols.optimizers import batch_bounds, default_optimizer
from fate_dp.components.protocols.training_terms import Descent
from fate_dp.crypto.paillier import PublicKey
from fate_dp.crypto.slots import slots_per_ciphertext
from fate_dp.privacy.labels.flipback import FlipbackSettings
from fate_dp.privacy.labels.flips import LabelRelease, total_of, united
from fate_dp.privacy.mechanisms.randomized_response import flip_probability

SETTINGS = TrainSettings(epochs=10, batch_size=40, flipback=FlipbackSettings(mode="swap", every=2, max_rounds=2))
FAIR = {
    "batches": batch_bounds(100, 40),
    "flipback_epochs": [2, 4],
    "score_epochs": [2, 4],
    "features": [4, 2],
    "noise": None,
    "classes": [0.0, 1.0],
    "rows": 100,
    "correction_epochs": [],
    "mean_square_bits": 1,
    "optimizer": default_optimizer(100, 6, 1.0, epochs=10, batches=2),
    "run": "00" * 8,
}
OWN = OwnPart(1, 100, 2, 1)
EXACT = replace(SETTINGS, sigmoid="exact", sigmoid_rounds=1)


def test_fair_terms_are_accepted_also_as_lists_from_the_wire():
    accept_terms({**FAIR, "batches": [list(bounds) for bounds in FAIR["batches"]]}, SETTINGS, None, OWN)


@pytest.mark.parametrize("batches", [[(0, 1), (1, 100)], [(0, 100)], [(0, 40), (40, 80), (80, 100)], []])
def test_other_batches_than_the_parameters_give_are_refused(batches):
    with pytest.raises(ValueError, match="batches are not those of batch_size"):
        accept_terms({**FAIR, "batches": batches}, SETTINGS, None, OWN)


def test_more_flipback_rounds_than_the_parameters_give_are_refused():
    with pytest.raises(ValueError, match="flipback epochs do not follow"):
        accept_terms({**FAIR, "flipback_epochs": [2, 4, 6]}, SETTINGS, None, OWN)


def test_epochs_with_joint_scores_are_those_that_the_parameters_give():
    with pytest.raises(ValueError, match="other epochs with joint scores"):
        accept_terms({**FAIR, "score_epochs": [2, 4, 6]}, SETTINGS, None, OWN)
    (correction,) = Descent.of(EXACT).corrections(None)
    fair = {
        **FAIR,
        "correction_epochs": [correction],
        "optimizer": default_optimizer(100, 6, 1.0, epochs=10, batches=2),
    }
    accept_terms({**fair, "score_epochs": sorted({2, 4, correction})}, EXACT, None, OWN)
    with pytest.raises(ValueError, match="other epochs with joint scores"):
        accept_terms({**fair, "score_epochs": list(range(10))}, EXACT, None, OWN)


@pytest.mark.parametrize(
    "changed, sentence",
    [
        ({"rows": 99}, "rows and features are not those of this host"),
        ({"features": [4, 3]}, "rows and features are not those of this host"),
        ({"features": [4]}, "rows and features are not those of this host"),
        ({"features": [0, 2]}, "rows and features are not those of this host"),
        ({"mean_square_bits": 0}, "bound on mean squares"),
        ({"mean_square_bits": 9}, "bound on mean squares"),
        ({"mean_square_bits": 1.0}, "bound on mean squares"),
        ({"correction_epochs": [3]}, "other corrections of the sigmoid"),
        ({"flipback_epochs": [1, 3]}, "flipback epochs do not follow"),
        ({"optimizer": {**FAIR["optimizer"], "alpha": FAIR["optimizer"]["alpha"] * 2}}, "optimizer is not that"),
        ({"optimizer": {**FAIR["optimizer"], "method": "adam"}}, "optimizer is not that"),
        ({"optimizer": {**FAIR["optimizer"], "optimizer_params": {"lr": 0.5}}}, "optimizer is not that"),
    ],
)
def test_a_host_checks_the_terms_in_full(changed, sentence):
    with pytest.raises(ValueError, match=sentence):
        accept_terms({**FAIR, **changed}, SETTINGS, None, OWN)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0, math.inf])
def test_the_default_optimizer_of_any_epsilon_is_accepted(epsilon):
    accept_terms({**FAIR, "optimizer": default_optimizer(100, 6, epsilon, epochs=10, batches=2)}, SETTINGS, None, OWN)


def test_an_optimizer_that_the_job_gives_must_be_the_one():
    given = {"method": "sgd", "penalty": "l2", "alpha": 0.5, "optimizer_params": {"lr": 0.1}}
    settings = replace(SETTINGS, optimizer=given)
    accept_terms({**FAIR, "optimizer": given}, settings, None, OWN)
    with pytest.raises(ValueError, match="optimizer is not that"):
        accept_terms(FAIR, settings, None, OWN)
    with pytest.raises(ValueError, match="optimizer is not that"):
        accept_terms(FAIR, SETTINGS, {"meta": {"optimizer_param": given}}, OWN)


@pytest.mark.parametrize(
    "given, solver",
    [
        ({}, "cross_product"),
        ({"solver": "per_epoch"}, "per_epoch"),
        ({"family": "gaussian"}, "cross_product"),
        ({"early_stop": "weight_diff"}, "per_epoch"),
        ({"optimizer": {"method": "adam", "penalty": "l2"}}, "per_epoch"),
        ({"optimizer": {"method": "sgd", "penalty": "l1"}}, "per_epoch"),
    ],
)
def test_the_cross_product_trains_wherever_the_update_rule_is_linear(given, solver):
    assert TrainSettings(**given).resolved_solver() == solver


def flips(epsilon, source="a/b/y", classes=2, key_id="key 1", entry_id=1):
    return LabelPrivacy(source, (LabelRelease(source, epsilon, classes, key_id, entry_id),))


def model_of(privacy):
    """As FATE stores it."""
    return json.loads(json.dumps({"meta": {"privacy": privacy.to_json("none")}}))


@pytest.mark.parametrize(
    "earlier, epsilon",
    [
        (flips(2.0), 2.0),
        (flips(1.0, entry_id=2), 3.0),
        (flips(2.0, source="other/b/y"), 4.0),
        (flips(2.0, key_id="key 2", entry_id=2), 4.0),
        (flips(2.0, classes=3, entry_id=2), 4.0),
        (replace(flips(2.0), derived=True), 2.0),
        (LabelPrivacy.of_public("a/b/y"), math.inf),
    ],
)
def test_a_warm_start_carries_what_its_labels_cost(earlier, epsilon):
    """The same number is not the same draw: a lost key or other classes make another."""
    privacy = flips(2.0).after(model_of(earlier))
    assert privacy.epsilon == epsilon and privacy.to_json("none")["epsilon"] == ("infinity" if epsilon > 9 else epsilon)
    assert LabelPrivacy.from_json(model_of(privacy)["meta"]["privacy"]) == privacy


def test_without_a_warm_start_a_model_costs_what_its_labels_cost():
    assert flips(2.0).after(None) == flips(2.0)


def test_a_chain_of_warm_starts_costs_all_its_releases_and_each_once():
    one, two, three = (flips(epsilon, entry_id=int(epsilon)) for epsilon in (1.0, 2.0, 3.0))
    chain = two.after(model_of(one))
    assert chain.epsilon == 3 and three.after(model_of(chain)).epsilon == 6
    assert one.after(model_of(three.after(model_of(chain)))).epsilon == 6 and chain.flips is None


@pytest.mark.parametrize(
    "earlier, epsilon",
    [
        ({"source": "a/b/y", "epsilon": 2.0}, 4.0),
        ({"source": "a/b/y", "epsilon": 1.0}, 3.0),
        ({"source": "a/b/y", "epsilon": "infinity"}, math.inf),
        ({}, math.inf),
    ],
)
def test_a_model_of_an_earlier_version_names_no_releases_and_is_always_added(earlier, epsilon):
    model = {"meta": {"privacy": earlier}}
    assert flips(2.0).after(model).epsilon == epsilon
    assert flips(2.0).after(model_of(flips(2.0).after(model))).epsilon == epsilon


@pytest.mark.parametrize(
    "releases",
    [
        [{"source": "a/b/y"}],
        [{"source": "a/b/y", "epsilon": -1}],
        [{"source": "a/b/y", "epsilon": "1"}],
        ["a"],
        [{"source": "a/b/y", "epsilon": math.nan}],
        [{"source": 1, "epsilon": 1}],
        [{"epsilon": 1, "source": "", "more": 1}],
    ],
)
def test_a_model_whose_releases_are_damaged_is_refused(releases):
    with pytest.raises(ValueError, match="are damaged; train it anew"):
        flips(2.0).after({"meta": {"privacy": {"releases": releases}}})


def test_an_unknown_release_counts_as_often_as_it_occurs():
    unknown, known = LabelRelease("a/b/y", 1.0), LabelRelease("a/b/y", 2.0, 2, "key", 1)
    assert united([known, unknown], [unknown, known]) == (known, unknown, unknown)
    assert total_of(()) == math.inf


def test_a_summary_names_the_flip_probability_of_one_draw_only():
    assert _flip_probability(flips(2.0)) == flip_probability(2.0)
    assert _flip_probability(flips(2.0, classes=3)) == flip_probability(2.0, 3)
    assert _flip_probability(LabelPrivacy.of_public("a/b/y")) == 0.0
    for privacy in (replace(flips(2.0), derived=True), flips(2.0).after(model_of(flips(1.0)))):
        assert _flip_probability(privacy) == "several releases or revised labels"


def test_the_arbiter_decrypts_what_a_gradient_needs_and_no_more():
    key = PublicKey((1 << 2047) + 9)
    slots = slots_per_ciphertext(key)
    refuse_more_than(slots + 1, [b"", b""], key, "host_10000")
    for masked in ([b""], [b""] * 3):
        with pytest.raises(ValueError, match="host_10000 sent . ciphertexts to decrypt"):
            refuse_more_than(slots + 1, masked, key, "host_10000")
