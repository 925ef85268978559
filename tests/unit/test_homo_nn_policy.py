"""Models that an operator allows by name: nothing else is imported, a malformed entry is refused, and all bring the same."""

import pytest

from fate_dp.components.dp_homo_nn.agreement import check_alike
from fate_dp.components.dp_homo_nn.models.registry import ModelSource
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec
from fate_dp.privacy import InvalidPolicy
from fate_dp.privacy.ledger.policy import load_policy


def two_layers(features, outputs, width=3):
    """A model as an operator has it."""
    from torch import nn

    return nn.Sequential(nn.Linear(features, width), nn.Tanh(), nn.Linear(width, outputs))


def policy(tmp_path, text):
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    return load_policy(path)


def test_modules_are_read(tmp_path):
    assert policy(tmp_path, "").model_modules == {}
    found = policy(tmp_path, "model_modules: {net-1: 'bank.models:net', other: 'models:make'}")
    assert found.model_modules == {"net-1": "bank.models:net", "other": "models:make"}


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("model_modules: [a]", "model_modules must be a mapping.*, got \\['a'\\]"),
        ("model_modules: {'a b': 'x:y'}", "a name in model_modules must be .*, got 'a b'"),
        ("model_modules: {1: 'x:y'}", "a name in model_modules must be .*, got 1"),
        *[
            (f"model_modules: {{net: {value}}}", "the model net must be package.module:function, got")
            for value in ("x", "'x:'", "'x.y.z'", "'x:y:z'", "'x y:z'", "'../x:y'", "3", "null", "'x:y()'")
        ],
    ],
)
def test_a_malformed_entry_is_refused(tmp_path, text, complaint):
    with pytest.raises(InvalidPolicy, match=complaint):
        policy(tmp_path, text)


def test_an_allowed_module_is_built_from_text_alone():
    entry = f"{two_layers.__module__}:{two_layers.__name__}"
    allowed = {"net": entry, "other": "os:system"}
    source = ModelSource.of(ModelSpec("module:net", 4, 2, {"width": 5}), "cross_entropy", allowed)
    assert source.import_from == entry and source.spec().params == {"width": 5}
    assert source.gradients() is source.gradients() and source.gradients().dimension == 4 * 5 + 5 + 5 + 1


def test_what_is_not_allowed_is_not_imported():
    source = ModelSource.of(ModelSpec("module:net", 4, 2), "cross_entropy", {"other": "os:system"})
    with pytest.raises(ValueError, match="module:net"):
        source.gradients()


def test_all_parties_have_the_same_columns_in_the_same_order_and_the_same_model():
    facts = {"columns": ["age", "income"], "dimension": 3}
    check_alike({"guest 1": facts, "host 2": dict(facts)})
    for changed, sentence in (
        ({"columns": ["income", "age"]}, "in the same order"),
        ({"dimension": 4}, "must be 3, as at the guest, got 4"),
    ):
        with pytest.raises(ValueError, match=sentence):
            check_alike({"guest 1": facts, "host 2": {**facts, **changed}})
