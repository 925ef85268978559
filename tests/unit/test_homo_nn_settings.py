"""Parameters of dp_homo_nn: one sentence for each bad value and for what does not go together; terms made from them."""

import math

import pytest

from fate_dp.components.common.parameters import parameters_of
from fate_dp.components.common.preflight import PrivateReason, Refusal
from fate_dp.components.dp_homo_nn.adaptive import contribution_step
from fate_dp.components.dp_homo_nn.agreement import check_alike, check_module, federation_of
from fate_dp.components.dp_homo_nn.round_terms import calibrated, check_promise, guarantee_of, round_terms
from fate_dp.components.dp_homo_nn.settings import TrainSettings, given_settings, module_name
from fate_dp.components.protocols.noisy_rounds.account import events_of
from fate_dp.components.protocols.noisy_rounds.party_tables import check_parameters
from fate_dp.privacy.accounting.calibration import UnreachableTarget
from fate_dp.privacy.accounting.total import total_epsilon
from fate_dp.privacy.events import ADD_OR_REMOVE, RELATIONS, REPLACE_ONE, Event, PureDP
from fate_dp.privacy.ledger.policy import Policy

NEEDED = {"rounds": 10, "batch_size": 50.0, "records": 500}
NOISE = {**NEEDED, "noise_multiplier": 2.0}
SHUFFLE = {**NEEDED, "aggregation": "shuffle", "shuffler": "9997", "epsilon0": 1.0}
CLIENTS = ("9999", "10000", "9998")

BAD = [
    *[("rounds", value) for value in (0, 1.5, "3", True, 10**9)],
    *[("batch_size", value) for value in (0, -1, math.nan, "64", True)],
    *[("records", value) for value in (0, 2.5, "10", True)],
    *[
        ("model", value)
        for value in (
            "cnn",
            {"name": "resnet"},
            {"name": "os:system"},
            {"name": "module:os.system"},
            {"name": "module:"},
            {"name": 3},
            {"name": "mlp", "params": [1]},
            {"module": "x"},
        )
    ],
    ("loss", "hinge"),
    ("loss", 3),
    *[
        ("optimizer", value)
        for value in (
            "sgd",
            {"method": "lbfgs"},
            {"lr": 1},
            {"alpha": -1},
            {"penalty": "l3"},
            {"optimizer_params": {"rate": 1}},
        )
    ],
    *[("learning_rate_scheduler", value) for value in ("step", {"method": "warm"}, {"factor": 1})],
    *[("init_param", value) for value in ({"random_state": -1}, {"random_state": 0.5}, {"seed": 1}, 3)],
    *[("classes", value) for value in (1, 2.5, "2", True)],
    *[
        ("class_weights", value)
        for value in (
            2,
            [1, 4],
            {"weights": [1, 4]},
            {},
            {"prior": 0.2},
            {"prior": [1.0]},
            {"prior": [0.2, 0.7]},
            {"prior": [0, 1]},
            {"prior": [0.2, "0.8"]},
            {"prior": {"0": 0.2, "1": 0.8}},
            {"prior": [0.2, 0.8], "maximum": 0},
            {"prior": [0.2, 0.8], "maximum": math.inf},
            {"prior": [0.2, 0.8], "maximum": True},
        )
    ],
    *[(name, value) for name in ("epsilon", "noise_multiplier", "epsilon0") for value in (0, -1, math.inf, "1", True)],
    *[("delta", value) for value in (0, 0.5, math.nan)],
    ("relation", "replace"),
    ("relation", ""),
    *[("clip", value) for value in (0, "1", [], [1, 0], {"quantile": 0}, {"quantile": 1}, {"start": 0}, {"median": 1})],
    ("aggregation", "central"),
    ("privacy", "label"),
    ("noise_spread", "gaussian"),
    ("noise_spread", "source_rule"),
    ("message_splitting", "rows"),
    *[("max_dropouts", value) for value in (0, 1.5, True)],
    *[("local_steps", value) for value in (0, 1.5)],
    ("local_learning_rate", 0),
    ("local_batch_size", 0),
    ("client_weights", {}),
    ("client_weights", {"9999": 0}),
    *[("upload_fraction", value) for value in (0, 1.1, "half")],
    *[("adaptive", value) for value in ({"contribution_share": 1}, {"power": "up"}, {"share": 1}, {"f": 0.15}, 0.1)],
    *[("shuffler", value) for value in (9997, "", "a b")],
    *[("threshold", value) for value in (-0.1, 1.1, "0.5")],
]

TOGETHER = [
    (
        {"batch_size": 501.0},
        "batch_size must be at most records, 500, of which it is the expected number in a round, got 501.0.",
    ),
    ({"epsilon": 1.0}, "epsilon and noise_multiplier must be given one without the other"),
    ({"noise_multiplier": None}, "epsilon and noise_multiplier must be given one without the other"),
    ({"epsilon0": 1.0}, "epsilon0 must be left out with aggregation secure_sum, got 1.0. Use noise_multiplier."),
    ({"aggregation": "shuffle"}, "with aggregation shuffle, got (None, None)."),
    ({**SHUFFLE, "noise_multiplier": None, "shuffler": None}, "shuffler must be the host that shuffles"),
    ({**SHUFFLE, "noise_multiplier": 2.0}, "noise_multiplier must be left out with aggregation shuffle, got 2.0."),
    (
        {"shuffler": "9997"},
        "shuffler must be left out with aggregation secure_sum, which shuffles nothing, got '9997'.",
    ),
    ({"message_splitting": "block"}, "message_splitting must be none but with aggregation shuffle, got 'block'."),
    ({"clip": [1.0, 2.0]}, "length of clip must be 10, one value for each round, got 2."),
    (
        {"class_weights": {"prior": [0.2, 0.3, 0.5]}},
        "length of class_weights.prior must be 2, one probability for each class, got 3.",
    ),
    (
        {"noise_spread": "adaptive", "noise_multiplier": None, "epsilon": 8.0, "adaptive": {"after_rounds": 10}},
        "adaptive.after_rounds must be less than rounds, 10, got 10.",
    ),
    ({"records": None}, "records is not set; dp_homo_nn needs it"),
    *[
        ({**SHUFFLE, name: None}, f"{name} is not set; aggregation shuffle needs it")
        for name in ("rounds", "batch_size")
    ],
]


def test_a_bad_value_is_refused_in_one_sentence_that_names_the_field():
    for name, value in BAD:
        with pytest.raises(ValueError) as refusal:
            parameters_of(TrainSettings)[name].check(value)
        assert str(refusal.value).startswith(
            (name, "model.name", f"a key of {name}", f"In {name}")
        ) and "\n" not in str(refusal.value), value


@pytest.mark.parametrize("given, sentence", TOGETHER, ids=str)
def test_what_does_not_go_together_is_refused(given, sentence):
    with pytest.raises(ValueError) as refusal:
        given_settings({**NOISE, **given})
    assert sentence in str(refusal.value)


def test_settings_survive_a_message_between_parties():
    settings = given_settings({**NOISE, "clip": [1.0] * 10, "model": {"name": "mlp", "params": {"hidden": [4]}}})
    assert TrainSettings(**settings.to_json()) == settings


def test_relation_is_replace_one_for_shuffle_only_unless_stated():
    assert given_settings(NOISE).stated_relation == "add_or_remove"
    assert given_settings(SHUFFLE).stated_relation == "replace_one"
    assert given_settings({**NOISE, "relation": "replace_one"}).stated_relation == "replace_one"


@pytest.mark.parametrize(
    "given, sentence",
    [
        ({"local_steps": 2, "local_learning_rate": 0.1}, "use privacy client, aggregation local, or one step"),
        ({"upload_fraction": 0.5}, "use aggregation local, or upload_fraction 1"),
        ({"max_dropouts": 3}, "max_dropouts must be less than the number of clients, 3, got 3"),
        ({"privacy": "client"}, "records must be the number of clients, 3, with privacy client, got 500"),
        ({"client_weights": {"9999": 1.0}}, "parties of client_weights must be all that hold data, "),
        (
            {**SHUFFLE, "noise_multiplier": None, "privacy": "client", "records": 3, "batch_size": 2.0},
            "Use aggregation secure_sum for privacy client",
        ),
    ],
    ids=str,
)
def test_what_has_no_guarantee_is_refused_with_what_to_use_instead(given, sentence):
    with pytest.raises(ValueError) as refusal:
        round_terms(given_settings({**NOISE, **given}), CLIENTS, 5)
    assert sentence in str(refusal.value)


def test_terms_hold_what_was_asked_for():
    terms = round_terms(
        given_settings({**NOISE, "clip": {"quantile": 0.7, "start": 2.0}, "max_dropouts": 2}), CLIENTS, 5
    )
    assert (terms.clips, terms.clip_quantile, terms.clients, terms.max_dropouts) == ((2.0,), 0.7, 3, 2)
    assert (terms.dimension, terms.noise_multiplier, terms.sampling_probability) == (5, 2.0, 0.1)


def test_the_guests_calibration_is_checked_by_every_party():
    settings = given_settings({**NEEDED, "epsilon": 2.0, "rounds": 2})
    terms = calibrated(settings, round_terms(settings, CLIENTS, 5))
    guarantee = guarantee_of(settings, terms)
    assert 1.99 < guarantee.epsilons["add_or_remove"] <= 2.0 < guarantee.epsilons["replace_one"]
    check_promise(settings, terms, guarantee, "9999")
    for factor in (1 / 2, 2 / 3):
        cheated = terms.with_noise(terms.noise_multiplier * factor)
        with pytest.raises(ValueError, match="costs epsilon .*, while the job asks for 2"):
            check_promise(settings, cheated, guarantee_of(settings, cheated), "9999")
    given = given_settings(NOISE)
    with pytest.raises(ValueError, match="asks for noise_multiplier 1.0, while the job says 2.0"):
        check_promise(given, round_terms(given, CLIENTS, 5).with_noise(1.0), guarantee, "9999")


@pytest.mark.parametrize("stated", RELATIONS)
def test_contributions_cost_twice_as_much_under_replace_one_whichever_relation_is_stated(stated):
    settings = given_settings(
        {**NEEDED, "epsilon": 4.0, "noise_spread": "adaptive", "aggregation": "local", "relation": stated}
    )
    terms = round_terms(settings, CLIENTS, 5)
    step = contribution_step(settings, terms, groups=3)
    terms = calibrated(settings, terms, step)
    epsilons, share = guarantee_of(settings, terms, step).epsilons, settings.adaptive["contribution_share"] * 4.0
    assert epsilons[stated] <= 4.0 and set(epsilons) == set(RELATIONS)
    for relation in RELATIONS:
        epsilon = share * {ADD_OR_REMOVE: 1, REPLACE_ONE: 2}[relation] / {ADD_OR_REMOVE: 1, REPLACE_ONE: 2}[stated]
        released = (Event(PureDP(epsilon), "record", relation, step.event.observers), 1)
        charged = total_epsilon([released, *events_of(terms, relation)], settings.delta)
        assert epsilons[relation] == pytest.approx(charged, rel=1e-9)


def test_an_epsilon_out_of_reach_says_what_would_be_in_reach():
    settings = given_settings({**NEEDED, "rounds": 10000, "batch_size": 500, "epsilon": 1e-3, "delta": 1e-9})
    with pytest.raises(UnreachableTarget, match="out of reach"):
        calibrated(settings, round_terms(settings, CLIENTS, 5))


def test_shuffle_states_what_collusion_of_shuffler_and_server_costs():
    settings = given_settings(SHUFFLE)
    guarantee = guarantee_of(settings, round_terms(settings, CLIENTS, 5, (200, 200, 100)))
    assert guarantee.collusion == 1.0 and set(guarantee.epsilons) == {"replace_one"}
    assert guarantee.epsilons["replace_one"] <= guarantee.collusion


PARTIES = [("guest", "9999"), ("host", "10000"), ("host", "9998"), ("host", "9997"), ("arbiter", "10001")]


@pytest.mark.parametrize(
    "parties, given, sentence",
    [
        (PARTIES[1:], NOISE, "The job names 0 guests"),
        (PARTIES[:-1], NOISE, "The job names 0 arbiters"),
        ([PARTIES[0], PARTIES[-1]], NOISE, "The job names no host with data"),
        (PARTIES[:3] + PARTIES[4:], SHUFFLE, "shuffler must be the party id of a host of this task, got '9997'."),
        ([PARTIES[0], PARTIES[3], PARTIES[4]], SHUFFLE, "The job names no host with data"),
    ],
    ids=str,
)
def test_roles_that_do_not_fit_are_refused(parties, given, sentence):
    with pytest.raises(ValueError, match=sentence):
        federation_of(parties, given_settings(given))


def test_the_order_of_data_parties_is_the_same_however_they_are_listed():
    first, second = (federation_of(parties, given_settings(SHUFFLE)) for parties in (PARTIES, PARTIES[::-1]))
    assert first == second and first.names == ("guest 9999", "host 10000", "host 9998")
    assert first.shuffler == ("host", "9997") and first.ids == ("9999", "10000", "9998")


def test_other_columns_and_other_models_are_named():
    own = {"columns": ["a", "b"], "dimension": 3}
    check_alike({"guest 1": own, "host 2": dict(own)})
    for change, sentence in (
        ({"columns": ["b", "a"]}, "'b' as feature 1 and the guest's has 'a'"),
        ({"columns": ["a"]}, "host 2 has 1 features and the guest's has 2"),
        ({"dimension": 4}, "number of the model's parameters at host 2 must be 3, as at the guest, got 4"),
    ):
        with pytest.raises(ValueError, match=sentence):
            check_alike({"guest 1": own, "host 2": {**own, **change}})
    with pytest.raises(ValueError, match="rounds is 3 here and 2 at the guest"):
        check_parameters({"rounds": 3}, {"rounds": 2})


def test_a_module_must_be_allowed_by_this_partys_operator():
    assert (module_name("module:net"), module_name("cnn")) == ("net", None)
    check_module(Policy(), "mlp")
    check_module(Policy(model_modules={"net": "bank.models:net"}), "module:net")
    with pytest.raises(ValueError, match="allows no model 'net' under model_modules; it allows other.") as refusal:
        check_module(Policy(model_modules={"other": "bank.models:net"}), "module:net")
    assert not isinstance(refusal.value, (PrivateReason, Refusal))  # what the policy allows is told to nobody else


def test_class_weights_follow_the_public_prior_up_to_the_maximum_and_travel_as_json():
    given = TrainSettings(**NOISE, class_weights={"prior": (0.05, 0.95), "maximum": 4})
    assert given.class_factors == (1.0, 1 / 7.6) and given.step_factor == 4.0
    assert TrainSettings(**NOISE).class_factors is None and TrainSettings(**NOISE).step_factor == 1.0
    assert given.to_json()["class_weights"] == {"prior": [0.05, 0.95], "maximum": 4.0}
    assert TrainSettings(**NOISE, class_weights={"prior": [0.05, 0.95]}).step_factor == 10.0
    client = TrainSettings(**{**NOISE, "privacy": "client"}, class_weights=given.class_weights)
    assert client.class_factors == (4.0, 1 / 1.9) and client.step_factor == 1.0


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
def test_class_weights_leave_what_a_training_costs_as_it_is(relation):
    """They come before the clip, so a record moves a sum by no more than without them."""
    plain, weighted = (
        {**NOISE, "relation": relation, **more} for more in ({}, {"class_weights": {"prior": [0.1, 0.9]}})
    )
    costs = []
    for given in (plain, weighted):
        settings = TrainSettings(**given)
        terms = round_terms(settings, CLIENTS, 5)
        costs.append(guarantee_of(settings, terms).to_json())
    assert costs[0] == costs[1]
