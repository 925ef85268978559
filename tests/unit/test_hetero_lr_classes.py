"""Which classes a training of dp_hetero_lr tells apart: declared ones, checked alike at client, chain, guest and host."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fate_dp.components.common.provenance import LabelPrivacy
from fate_dp.components.dp_hetero_lr.agreement import JointTable, OwnPart, accept_terms, training_terms
from fate_dp.components.dp_hetero_lr.labels import check_hosts_classes, declared_classes, one_vs_rest
from fate_dp.components.dp_hetero_lr.settings import TrainSettings
from fate_dp.components.protocols.optimizers import default_optimizer, flipped_signal
from fate_dp.components.protocols.training_terms import BINARY, Descent, class_names, models_of
from fate_dp.pipelines.clients import DPHeteroLR
from fate_dp.privacy.labels.flips import LabelRelease
from fate_dp.privacy.mechanisms.randomized_response import flip_probability, keep_probability
from fate_dp.privacy.validation import InvalidArgument
from tests.support.one_vs_rest import train_one_vs_rest
from tests.support.plaintext import TrainingSettings, train_plaintext

FOUR = (0.0, 1.0, 2.0, 3.0)
SETTINGS = TrainSettings(epochs=10)
OWN = OwnPart(1, 846, 9, 1)


def terms(classes=FOUR, epsilon=2.0, settings=SETTINGS):
    return training_terms(Descent.of(settings), JointTable(846, [10, 9], 1, classes), epsilon).to_wire()


class Home:
    """A guest whose ledger knows one line of flips."""

    def __init__(self, *labels):
        self.ledger, self._labels = self, labels

    def class_labels(self, entry_id):
        assert entry_id == 7
        return list(self._labels)


def flipped(classes, **others):
    return LabelPrivacy("bank/loans/y", (LabelRelease("bank/loans/y", 2.0, classes, "key", 7, **others),))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0, 8.0])
@pytest.mark.parametrize("classes", [2, 4, 10])
def test_the_signal_is_how_much_likelier_a_flip_shows_the_label_than_another_class(epsilon, classes):
    expected = keep_probability(epsilon, classes) - flip_probability(epsilon, classes) / (classes - 1)
    assert flipped_signal(epsilon, classes) == pytest.approx(expected)
    assert (
        flipped_signal(epsilon, 2) == pytest.approx(math.tanh(epsilon / 2)) and flipped_signal(math.inf, classes) == 1
    )


def test_the_default_penalty_grows_by_what_flips_take_of_each_class():
    for classes, kept in ((2, math.tanh(1.0)), (4, (math.e**2 - 1) / (math.e**2 + 3))):
        found = default_optimizer(846, 19, 2.0, epochs=100, classes=classes)["alpha"]
        assert found == pytest.approx((1 / 8 + 1.5 * (1 - kept) ** 1.5 / kept**2) * 19 / 846)


def test_two_classes_take_one_model_and_more_one_each():
    assert (models_of(BINARY), models_of(FOUR)) == (1, 4)
    assert one_vs_rest(np.array([0.0, 0.25, 1.0]), BINARY).tolist() == [[0.0], [0.25], [1.0]]
    assert one_vs_rest(np.array([2.0, 4.0]), (1.0, 2.0, 4.0)).tolist() == [[0, 1, 0], [0, 0, 1]]
    assert class_names((-1.0, 0.5, 2.0)) == [-1, 0.5, 2]


@pytest.mark.parametrize(
    "given, privacy, labels, expected",
    [
        (None, flipped(4), ("0", "1", "2", "3"), FOUR),
        (FOUR, flipped(4), ("3", "1", "2", "0"), FOUR),
        (None, flipped(2), ("0", "1"), BINARY),
        (None, LabelPrivacy.of_public("bank/loans/y"), (), BINARY),
        (FOUR, LabelPrivacy.of_public("bank/loans/y"), (), FOUR),
        (None, replace(flipped(2), derived=True), (), BINARY),
    ],
)
def test_classes_are_those_that_were_declared(given, privacy, labels, expected):
    assert declared_classes(Home(*labels), replace(SETTINGS, classes=given), privacy) == expected


def test_numbers_have_no_classes():
    gaussian = replace(SETTINGS, family="gaussian")
    assert declared_classes(Home("0", "1", "2"), gaussian, flipped(3)) == BINARY
    assert declared_classes(Home(), gaussian, flipped(3, bounds=(-1.0, 1.0))) == BINARY
    with pytest.raises(
        ValueError, match=r"classes must be left out with family gaussian, which fits numbers, got \[0, 1, 2, 3\]\."
    ):
        replace(gaussian, classes=FOUR).check_classes()
    with pytest.raises(ValueError, match="The guest plans 4 classes, but family gaussian has none"):
        gaussian.accept_classes(FOUR)


@pytest.mark.parametrize(
    "changed, classes, sentence",
    [
        ({"classes": (1.0, 2.0)}, None, r"classes must be 0 and 1 where there are two, got \[1, 2\]\."),
        ({"classes": BINARY}, FOUR, r"classes must be those of the training, \[0, 1, 2, 3\], got \[0, 1\]\."),
        ({"classes": FOUR}, BINARY, r"classes must be those of the training, \[0, 1\], got \[0, 1, 2, 3\]\."),
        (
            {"sigmoid": "exact"},
            FOUR,
            "There are 4 classes, .* but sigmoid is exact; more than two are trained with solver cross_product",
        ),
        ({"early_stop": "weight_diff"}, FOUR, "but early_stop is weight_diff"),
        (
            {},
            (0.0, 0.5, 1.0),
            r"classes must be whole numbers below 2\^31 where there are more than two, got \[0, 0.5, 1\]",
        ),
        ({}, (0.0, 1.0, 2.0**31), r"classes must be whole numbers below 2\^31"),
    ],
)
def test_classes_that_settings_do_not_train_are_refused(changed, classes, sentence):
    with pytest.raises(ValueError, match=sentence):
        replace(SETTINGS, **changed).check_classes(classes)


def test_the_client_refuses_what_the_component_would():
    assert DPHeteroLR("model", classes=[0, 1, 2, 3]).classes == [0, 1, 2, 3]
    for given, sentence in (
        ({"classes": [0, 1, 2], "sigmoid": "exact"}, "but sigmoid is exact"),
        ({"classes": [0, 1, 2], "optimizer": {"method": "adam"}}, "but optimizer.method is adam"),
        ({"classes": [1, 1]}, "classes must be different from each other"),
        ({"classes": 4}, "classes must be a list of at least two label values"),
    ):
        with pytest.raises(ValueError, match=sentence):
            DPHeteroLR("model", **given)


def test_a_host_accepts_the_classes_of_the_flips_and_the_penalty_that_follows():
    accept_terms(terms(), SETTINGS, None, OWN)
    accept_terms(terms(), replace(SETTINGS, classes=FOUR), None, OWN)
    # The largest penalty hardly differs by classes; these are such as no epsilon gives.
    with pytest.raises(ValueError, match="optimizer is not that"):
        accept_terms({**terms(), "optimizer": {**terms()["optimizer"], "alpha": 1e-3}}, SETTINGS, None, OWN)


@pytest.mark.parametrize(
    "classes", [[], [0.0], [1.0, 0.0], [0.0, 0.0, 1.0], ["0", "1"], [0, 1], None, [0.0, math.nan, 2.0]]
)
def test_a_host_accepts_ascending_numbers_only(classes):
    with pytest.raises(ValueError, match="two or more numbers in ascending order"):
        accept_terms({**terms(), "classes": classes}, SETTINGS, None, OWN)


def test_the_guest_refuses_a_host_that_lists_other_classes():
    facts = [{"classes": each} for each in (None, list(FOUR), [0.0, 1.0, 2.0])]
    check_hosts_classes(FOUR, {"host 1": facts[0], "host 2": facts[1]})
    with pytest.raises(
        ValueError, match=r"classes at host 3 must be those of the training, \[0, 1, 2, 3\], got \[0, 1, 2\]"
    ):
        check_hosts_classes(FOUR, {"host 1": facts[0], "host 3": facts[2]})


def test_a_host_holds_the_guest_to_the_parameter_and_to_no_flipback():
    with pytest.raises(ValueError, match="classes must be those of the training"):
        accept_terms(terms(), replace(SETTINGS, classes=(0.0, 1.0, 2.0)), None, OWN)
    rounds = SETTINGS.flipback.planned_epochs(SETTINGS.epochs)[:1]
    with pytest.raises(ValueError, match="rounds of flipback with more than two classes"):
        accept_terms({**terms(), "flipback_epochs": rounds, "score_epochs": rounds}, SETTINGS, None, OWN)
    with pytest.raises(ValueError, match=r"classes must be those of warm_start_model, \[0, 1\]"):
        trained = {"meta": {"labels": [0, 1], "optimizer_param": terms()["optimizer"]}}
        accept_terms(terms(), SETTINGS, trained, OWN)


def test_a_host_trains_with_no_round_of_flipback_that_its_parameters_do_not_give():
    planned = SETTINGS.flipback.planned_epochs(SETTINGS.epochs)
    for rounds in ([planned[0] + 1], [*planned, planned[-1] + 1]):
        with pytest.raises(ValueError, match="flipback epochs do not follow from"):
            accept_terms({**terms(), "flipback_epochs": rounds, "score_epochs": rounds}, SETTINGS, None, OWN)


def test_a_host_trains_on_no_other_batches_than_its_parameters_give():
    ((first, last),) = terms()["batches"]
    halves = [[first, last // 2], [last // 2, last]]
    with pytest.raises(ValueError, match="batches are not those of batch_size"):
        accept_terms({**terms(), "batches": halves}, SETTINGS, None, OWN)


def test_the_twin_trains_each_class_as_a_training_of_two():
    generator = np.random.default_rng(4)
    parts, labels = [generator.normal(size=(80, 2)), generator.normal(size=(80, 3))], np.arange(80) % 3
    settings, start = (
        TrainingSettings(default_optimizer(80, 6, 2.0, epochs=12, classes=3), epochs=12),
        [np.zeros(3), np.zeros(3)],
    )
    trained = train_one_vs_rest(parts, labels, (0, 1, 2), settings, [start] * 3)
    for value, found in enumerate(trained):
        expected = train_plaintext(parts, labels == value, settings, start)
        assert all((a == b).all() for a, b in zip(found.weights, expected.weights)) and found.losses == expected.losses
    with pytest.raises(InvalidArgument, match="none of the classes"):
        train_one_vs_rest(parts, labels, (0, 1), settings, [start] * 2)


def test_flips_leave_the_largest_score_where_it_was():
    """In expectation: the target of every class is scaled by the signal and moved by one constant."""
    labels, epsilon = np.arange(4), 1.5
    shown = np.full((4, 4), flip_probability(epsilon, 4) / 3)
    shown[labels, labels] = keep_probability(epsilon, 4)
    np.testing.assert_allclose(
        shown, flipped_signal(epsilon, 4) * one_vs_rest(labels.astype(float), FOUR) + shown[0, 1]
    )
