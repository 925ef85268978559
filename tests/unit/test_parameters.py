"""Every bad parameter value gives one clear sentence; `test_component_contract` holds clients to the same ones."""

import inspect
import math
import re
import warnings

import pytest
from fate_client.pipeline.components import fate as fate_clients

from fate_dp.components.align.component import align
from fate_dp.components.dp_hetero_lr.component import dp_hetero_lr
from fate_dp.components.dp_hetero_lr.settings import TrainSettings
from fate_dp.components.flipback.component import flipback
from fate_dp.components.label_flip.component import label_flip
from fate_dp.components.protocols.optimizers import batch_bounds, check_batches
from fate_dp.components.share_lr.component import share_lr
from fate_dp.components.smote.component import smote
from fate_dp.pipelines import clients
from fate_dp.pipelines.clients.definition import OF_FATE

COMPONENTS = {
    "label_flip": (label_flip, clients.LabelFlip),
    "flipback": (flipback, clients.Flipback),
    "dp_hetero_lr": (dp_hetero_lr, clients.DPHeteroLR),
    "smote": (smote, clients.Smote),
    "align": (align, clients.Align),
    "share_lr": (share_lr, clients.ShareLR),
}

BAD = [
    *[
        ("align", "hide_size", value, name)
        for value, name in (
            ("yes", "hide_size"),
            ({"eps": 1}, "pool, got 'eps'."),
            ({"epsilon": 0}, "hide_size.epsilon"),
            ({"epsilon": 21}, "hide_size.epsilon"),
            ({"delta": 1}, "hide_size.delta"),
            ({"delta": 0}, "hide_size.delta"),
            ({"pool": 3}, "pool"),
            ({"pool": 2}, "hide_size.pool"),
            ({"epsilon": 1e-6}, "epsilon"),
        )
    ],
    *[("align", "he_param", {"key_length": value}, "key_length") for value in (1024, 2048.5, "2048", 16384, True)],
    *[("align", "label_source", value, "label_source") for value in ("", "ns/name", 3)],
    *[("share_lr", "reveal", value, "reveal") for value in ("all", "", True, ["guest"])],
    *[
        ("share_lr", "optimizer", value, name)
        for value, name in (({"method": "adam"}, "optimizer.method"), ({"penalty": "l1"}, "optimizer.penalty"))
    ],
    *[
        ("share_lr", "init_param", value, name)
        for value, name in (
            ({"method": "random"}, "init_param.method"),
            ({"fit_intercept": 1}, "init_param.fit_intercept"),
        )
    ],
    *[("share_lr", "early_stop", value, "early_stop") for value in ("weight_diff", "", 1)],
    *[("share_lr", "train_scores", value, "train_scores") for value in (1, "true")],
    *[
        ("label_flip", "epsilon", value, "epsilon")
        for value in (0, -1, -0.5, math.nan, math.inf, -math.inf, "2", "", None, [1], True)
    ],
    *[
        ("label_flip", "classes", value, "classes")
        for value in ([], [1], [0, 0], [0, 0.0], [0, math.nan], [0, math.inf], [0, "1"], "01", {0: 1}, 2, [False, True])
    ],
    *[
        ("label_flip", "bounds", value, "bounds")
        for value in (
            [],
            [1],
            [1, 1],
            [2, 1],
            [0, math.nan],
            [0, math.inf],
            [0, "1"],
            "01",
            2,
            [0, 1, 2],
            [False, True],
        )
    ],
    *[("label_flip", "bins", value, "bins") for value in (0, 1, 2.5, "8", True, 5000)],
    *[(name, "true_labels", value, "true_labels") for name in ("dp_hetero_lr", "share_lr") for value in (1, "yes")],
    *[
        ("label_flip", "label_source", value, "label_source")
        for value in ("", "name", "ns/name", "ns//y", "ns/name/y/z", " / / ", 3, ["ns", "name", "y"])
    ],
    *[("flipback", "mode", value, "mode") for value in ("swaps", "", 1, True, ["swap"])],
    *[("flipback", "fraction", value, "fraction") for value in (0, -0.1, 1.1, math.nan, "0.1", True)],
    *[("dp_hetero_lr", "epochs", value, "epochs") for value in (0, -1, 1.5, "3", True, math.nan, 10**400)],
    *[("dp_hetero_lr", "batch_size", value, "batch_size") for value in (5, 9, 0, -1, 50.0, "64", math.nan, True)],
    *[
        ("dp_hetero_lr", "optimizer", value, name)
        for value, name in (
            ("sgd", "optimizer"),
            ({"method": "lbfgs"}, "optimizer.method"),
            ({"penalty": "l3"}, "optimizer.penalty"),
            ({"alpha": -1}, "optimizer.alpha"),
            ({"alpha": math.nan}, "optimizer.alpha"),
            ({"alpha": "1"}, "optimizer.alpha"),
            ({"lr": 0.1}, "optimizer_params, got 'lr'."),
            ({"optimizer_params": 0.1}, "optimizer.optimizer_params"),
            ({"optimizer_params": {"lr": "fast"}}, "optimizer.optimizer_params"),
            ({"optimizer_params": {"lr": math.nan}}, "optimizer.optimizer_params.lr"),
            ({"optimizer_params": {"betas": [0.9, "0.99"]}}, "optimizer.optimizer_params.betas"),
        )
    ],
    *[
        ("dp_hetero_lr", "learning_rate_scheduler", value, "learning_rate_scheduler")
        for value in (
            "constant",
            {"method": "cosine"},
            {"factor": 1},
            {"method": "step", "scheduler_params": 3},
            {"method": "step", "scheduler_params": {"gamma": "half"}},
        )
    ],
    *[
        ("dp_hetero_lr", "init_param", value, "init_param")
        for value in (
            "zeros",
            {"method": "xavier"},
            {"fit_intercept": 1},
            {"random_state": -1},
            {"random_state": 0.5},
            {"seed": 1},
            {"method": "consts", "fill_val": "x"},
            {"fill_val": math.nan},
        )
    ],
    *[("dp_hetero_lr", "tol", value, "tol") for value in (-1e-9, math.nan, math.inf, "0", None)],
    *[("dp_hetero_lr", "early_stop", value, "early_stop") for value in ("loss", "", 1, ["diff"])],
    *[("dp_hetero_lr", "threshold", value, "threshold") for value in (-0.1, 1.1, math.nan, "0.5")],
    *[
        ("dp_hetero_lr", "he_param", value, name)
        for value, name in (
            ({"key_length": 1024}, "key_length must be"),
            ({"key_length": 2047}, "key_length"),
            ({"key_length": "2048"}, "key_length"),
            ({"key_length": 2048.0}, "key_length"),
            ({"key_length": math.nan}, "key_length"),
            ({"kind": "ou"}, "he_param.kind"),
            ({"kind": "mock"}, "he_param.kind"),
            ({"keylength": 2048}, "got 'keylength'."),
            (2048, "he_param"),
        )
    ],
    *[
        ("dp_hetero_lr", "flipback", value, "flipback")
        for value in (
            "swap",
            {"mode": "flip"},
            {"every": 0},
            {"every": 2.5},
            {"fraction": 0},
            {"max_rounds": -1},
            {"rounds": 3},
        )
    ],
    *[("dp_hetero_lr", "train_scores", value, "train_scores") for value in (1, 0, "yes", None)],
    *[("dp_hetero_lr", "label_source", value, "label_source") for value in ("y", "a/b", 1)],
    *[("dp_hetero_lr", "privacy", value, "privacy") for value in ("uniform", "", True, ["record"])],
    *[("dp_hetero_lr", "noise_spread", value, "noise_spread") for value in ("gaussian", "", True, ["uniform"])],
    *[("dp_hetero_lr", "epsilon", value, "epsilon") for value in (0, -1, math.nan, math.inf, "1", True)],
    *[("dp_hetero_lr", "delta", value, "delta") for value in (0, -1e-9, 0.02, 1, math.nan, "1e-5", None)],
    *[("dp_hetero_lr", "clip", value, "clip") for value in (0, 0.06, 16.5, math.inf, "2", True)],
    *[
        ("dp_hetero_lr", "cv_param", value, "cv_param")
        for value in (3, {"n_splits": 1}, {"n_splits": 2.5}, {"splits": 3}, {"shuffle": "yes"}, {"random_state": "one"})
    ],
]

GOOD = [
    ("label_flip", "epsilon", 2, 2.0),
    ("label_flip", "epsilon", 0.25, 0.25),
    ("label_flip", "classes", [3, 1, 2], (1.0, 2.0, 3.0)),
    ("label_flip", "label_source", "ns/name/y", "ns/name/y"),
    ("flipback", "mode", "posterior", "posterior"),
    ("dp_hetero_lr", "epochs", 30, 30),
    ("dp_hetero_lr", "batch_size", 64, 64),
    ("dp_hetero_lr", "he_param", {"key_length": 3072}, {"kind": "paillier", "key_length": 3072}),
    ("dp_hetero_lr", "threshold", 1, 1.0),
    ("dp_hetero_lr", "delta", 1e-5, 1e-5),
    ("dp_hetero_lr", "clip", 16, 16.0),
]


def parameter_type(component, name):
    return COMPONENTS[component][0]._flatten_stages().parameters.mapping[name].type


def assert_clear(message, named):
    assert re.search(re.escape(named), message), message
    assert message.endswith(".") and "\n" not in message and len(message) < 700
    assert not re.search(r"Traceback|object at 0x|NoneType", message)


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_bad_value_gives_one_clear_sentence(component):
    for name, value, named in (case[1:] for case in BAD if case[0] == component):
        assert_clear(sentence_of(component, name, value), named)


def sentence_of(component, name, value):
    try:
        parameter_type(component, name).parse(value)
    except ValueError as refused:
        return str(refused)
    raise AssertionError(f"{name} of {component} takes {value!r}")


def test_good_values_pass_and_are_normalised():
    for component, name, value, parsed in GOOD:
        assert parameter_type(component, name).parse(value) == parsed
        assert getattr(COMPONENTS[component][1]("task_0", **{name: value}), name) == value


def test_noise_that_would_not_protect_is_refused_before_submission():
    noised = {"privacy": "record", "epsilon": 1.0, "train_scores": False}
    assert clients.DPHeteroLR("task_0", **noised).needs_arbiter is False
    for given, sentence in (
        ({"train_scores": True}, "train_scores must be false"),
        ({"privacy": "none"}, "protects no record"),
        ({"privacy": "label", "noise_spread": "adaptive"}, "it goes with privacy record only"),
        ({"solver": "per_epoch"}, "need solver per_epoch"),
    ):
        with pytest.raises(ValueError, match=sentence):
            clients.DPHeteroLR("task_0", **{**noised, **given})


@pytest.mark.parametrize("rows, size", [(100, None), (100, 100), (100, 500), (100, 30), (7, 3), (1, 1), (60, 20)])
def test_batches_cover_every_row_once_and_are_no_smaller_than_asked(rows, size):
    bounds = batch_bounds(rows, size)
    assert [row for first, last in bounds for row in range(first, last)] == list(range(rows))
    assert all(last - first >= min(rows, size or rows) for first, last in bounds)


def test_batches_that_show_single_residuals_are_refused():
    with pytest.raises(ValueError, match="at least 200, 10 times the largest feature count"):
        check_batches(1000, 199, 20)
    with pytest.raises(ValueError, match=r"batch_size must be at least 200, .*, got None \(all 150 rows\)"):
        check_batches(150, None, 20)
    with pytest.raises(ValueError, match="at least 200"):
        check_batches(150, 5000, 20)
    check_batches(1000, 200, 20)


def test_the_default_settings_are_2048_bits_zeros_and_all_rows():
    settings = TrainSettings()
    assert settings.he_param == {"kind": "paillier", "key_length": 2048}
    assert settings.init_param["method"] == "zeros" and settings.batch_size is None


@pytest.mark.parametrize(
    "component, name, value, parsed",
    [
        ("dp_hetero_lr", "optimizer", {"method": "SGD", "penalty": "L2"}, {"method": "sgd", "penalty": "l2"}),
        ("dp_hetero_lr", "optimizer", {"method": "RMSProp", "penalty": None}, {"method": "rmsprop", "penalty": None}),
        ("dp_hetero_lr", "learning_rate_scheduler", {"method": "Constant"}, {"method": "constant"}),
        ("dp_hetero_lr", "init_param", {"method": "Random_Uniform"}, {"method": "random_uniform"}),
        ("dp_hetero_lr", "he_param", {"kind": "Paillier"}, {"kind": "paillier"}),
        ("share_lr", "optimizer", {"method": "SGD", "penalty": "None"}, {"method": "sgd", "penalty": "none"}),
        ("share_lr", "init_param", {"method": "ZEROS"}, {"method": "zeros"}),
        ("dp_homo_nn", "optimizer", {"method": "SGD", "penalty": "L2"}, {"method": "sgd", "penalty": "l2"}),
        ("dp_homo_nn", "learning_rate_scheduler", {"method": "Constant"}, {"method": "constant"}),
    ],
)
def test_names_are_taken_in_any_case_as_fates_examples_write_them(component, name, value, parsed):
    client = {"dp_hetero_lr": clients.DPHeteroLR, "share_lr": clients.ShareLR, "dp_homo_nn": clients.DPHomoNN}[
        component
    ]
    found = client.parameters[name].check(value)
    assert {key: found[key] for key in parsed} == parsed


def test_early_stop_is_taken_in_any_case():
    assert clients.DPHeteroLR.parameters["early_stop"].check("Weight_Diff") == "weight_diff"


@pytest.mark.parametrize(
    "client, name, advice",
    [
        ("DPHeteroLR", "floating_point_precision", "fixed; leave it out"),
        ("DPHeteroLR", "output_cv_data", "scores of its folds; leave it out"),
        ("DPHeteroLR", "epoch", "did you mean epochs?"),
        ("DPHeteroLR", "zzz", "it has epochs, batch_size"),
        ("ShareLR", "batch_size", "one batch"),
        ("DPHomoNN", "runner_module", "model={'name': ...}"),
        ("DPHomoNN", "epochs", "rounds is the number"),
    ],
)
def test_a_parameter_of_fates_that_ours_have_not_is_refused_with_what_to_use(client, name, advice):
    with pytest.raises(ValueError, match=f"^{client} has no parameter {name}[:;] .*{re.escape(advice)}"):
        getattr(clients, client)("one_0", **{name: 3})


@pytest.mark.parametrize(
    "client, of_fate",
    [
        ("DPHeteroLR", ("CoordinatedLR", "CoordinatedLinR", "SSHELR")),
        ("ShareLR", ("CoordinatedLR", "SSHELR")),
        ("DPHomoNN", ("HomoNN", "HomoLR")),
    ],
)
def test_every_parameter_of_fates_component_is_known_or_has_its_advice(client, of_fate):
    own = {"self", *inspect.signature(getattr(clients, client)).parameters}
    theirs = {name for each in of_fate for name in inspect.signature(getattr(fate_clients, each).__init__).parameters}
    assert theirs - own <= set(OF_FATE[client]) and not own & set(OF_FATE[client])


@pytest.mark.parametrize(
    "given, why",
    [
        ({"optimizer": {"method": "rmsprop", "optimizer_params": {"lr": 0.01}}}, "optimizer.method is rmsprop"),
        ({"optimizer": {"penalty": "L1"}}, "optimizer.penalty is l1"),
        ({"early_stop": "weight_diff"}, "early_stop is weight_diff"),
    ],
)
def test_a_parameter_that_changes_the_solver_says_so(given, why):
    with pytest.warns(UserWarning, match=f"{why}, so solver per_epoch trains") as seen:
        assert clients.DPHeteroLR("one_0", **given).needs_arbiter
    assert seen[0].filename == __file__
    for silent in ({"solver": "per_epoch", **given}, {}, {"optimizer": {"method": "SGD"}}):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            clients.DPHeteroLR("one_0", **silent)
