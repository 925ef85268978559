"""One vocabulary: the same names, laws and defaults in every component, and old names are refused before work."""

import math
from pathlib import Path
from types import SimpleNamespace

import pytest

from fate_dp.components.common.job_files import LEVELS as FOLDERS
from fate_dp.components.common.provenance import LabelPrivacy
from fate_dp.components.common.vocabulary import OLD_NAMES, SPREADS, with_new_names
from fate_dp.components.dp_hetero_lr import component as hetero_lr
from fate_dp.pipelines import clients
from fate_dp.privacy.labels.flips import LabelRelease
from fate_dp.privacy.validation import DEFAULT_DELTA

TASKS = {Path(each.yaml_define_path).stem: each for each in (getattr(clients, name) for name in clients.__all__)}
LEVELS = {"label", "record", "client", "none"}
OLD = [(component, old, today) for component, names in OLD_NAMES.items() for old, today in names.items()]
SOURCE = "bank/loans/y"


def test_every_component_means_the_same_by_the_same_name():
    assert len(TASKS) == 14
    for component, task in TASKS.items():
        declared = task.parameters
        assert "key_length" not in declared and "unit" not in declared, component
        assert not {name for name in declared if name.startswith("noise_")} - {"noise_spread", "noise_multiplier"}
        if "delta" in declared:
            assert declared["delta"].default == DEFAULT_DELTA == 1e-6, component
            for outside in (0, 0.011, math.nan):
                with pytest.raises(ValueError, match="^delta must be"):
                    declared["delta"].check(outside)
        if "privacy" in declared:
            with pytest.raises(ValueError, match="^privacy must be one of.*, got 'flips'") as refused:
                declared["privacy"].check("flips")
            assert set(str(refused.value).split("one of ")[1].split(", got")[0].split(", ")) <= LEVELS
        if "noise" in declared:
            assert [declared["noise"].check(law) for law in ("gaussian", "laplace")] == ["gaussian", "laplace"]
        if "noise_spread" in declared:
            assert [declared["noise_spread"].check(spread) for spread in SPREADS] == list(SPREADS)
        if "he_param" in declared:
            assert declared["he_param"].check({"key_length": 3072}) == {"kind": "paillier", "key_length": 3072}


@pytest.mark.parametrize("component, old, today", OLD)
def test_a_client_refuses_an_old_name_and_says_the_new_one(component, old, today):
    sentence = f"^{old} is 'uniform'; {component} calls it {' and '.join(today)} now, so set that instead\\.$"
    with pytest.raises(ValueError, match=sentence):
        TASKS[component]("task_0", **{old: "uniform"})
    assert not set(today) - set(TASKS[component].parameters)


def started(tmp_path, monkeypatch, **parameters):
    """This process, as FATE-Flow starts a task's with these parameters."""
    path = tmp_path.joinpath(*["folder"] * FOLDERS, "task_parameters.yaml")
    path.parent.mkdir(parents=True)
    path.write_text(f"parameters: {parameters}\n")
    monkeypatch.setattr("sys.argv", ["component", "--config", str(path)])


def test_a_component_refuses_an_old_name_that_fate_would_pass_over(tmp_path, monkeypatch):
    started(tmp_path, monkeypatch, noise="uniform", noise_epsilon=1.0)
    with pytest.raises(ValueError, match="^noise is 'uniform'; dp_hetero_lr calls it privacy and noise_spread now"):
        hetero_lr.train.callback.__wrapped__(None, None)


def test_a_task_that_predicts_may_carry_what_its_training_was_given(tmp_path, monkeypatch):
    started(tmp_path, monkeypatch, noise="uniform", noise_epsilon=1.0)
    with pytest.raises(TypeError, match="missing 3 required"):
        hetero_lr.predict.callback.__wrapped__(SimpleNamespace(federation=SimpleNamespace(parties=())), None)


@pytest.mark.parametrize(
    "component, written, today",
    [
        ("dp_homo_nn", {"unit": "client", "noise": "adaptive"}, {"privacy": "client", "noise_spread": "adaptive"}),
        ("dp_hetero_lr", {"noise": "uniform", "noise_epsilon": 2}, {"privacy": "record", "epsilon": 2}),
        ("dp_hetero_lr", {"noise": "adaptive"}, {"privacy": "record", "noise_spread": "adaptive"}),
        ("dp_hetero_lr", {"noise": "label", "epochs": 3}, {"privacy": "label", "epochs": 3}),
        ("dp_binning", {"privacy": "flips", "noise": "laplace"}, {"privacy": "none", "noise": "laplace"}),
        ("align", {"key_length": 3072}, {"he_param": {"key_length": 3072}}),
    ],
)
def test_what_an_earlier_release_wrote_down_is_read_in_the_words_of_today(component, written, today):
    assert with_new_names(component, written) == today
    assert not set(today) - set(TASKS[component].parameters)


@pytest.mark.parametrize(
    "privacy, words",
    [
        (LabelPrivacy.of_public(SOURCE), "declared public"),
        (LabelPrivacy.of_noise(SOURCE, 1.0, 1e-6), "true ones, behind noise on their sums"),
        (LabelPrivacy(SOURCE, (LabelRelease(SOURCE, 2.0),)), "flips of label_flip, at their own epsilon"),
    ],
)
def test_a_summary_says_what_the_labels_are(privacy, words):
    assert privacy.in_words == words
