"""Parameters are read as FATE reads them, by its own declarations or, without FATE, by what was generated from them."""

import sys

import pytest

from fate_dp.components.disclosure import reading, tracing
from fate_dp.components.disclosure.declaration import catalogue, disclosure_of, fits
from fate_dp.components.disclosure.reading import generated, parameters_of, read
from tests.pages.fate_parameters import text

VALUES = (
    *("no", "False", "t", "yes", "1", "0.5", "Paillier", "OU", "L2", "SGD", "woe", "WOE", "iv", "95%", "maybe", ""),
    *(0, 1, -1, 2, 10, 0.5, 1e300, True, False, [], ["IV"], ["manual", "Statistics"], ["a"], [1, "2"], {}),
    {"kind": "Mock"},
    {"kind": "rsa"},
    {"Kind": "ou"},
    {"kind": "ou", "key_length": "2048"},
    {"method": "Zeros", "fill_val": "1"},
    {"method": "Adam", "penalty": "L1", "optimizer_params": {"lr": 0.1}},
    {"n_splits": "3", "shuffle": "on"},
    {"0": 0.5, "1.5": "2"},
    {"metrics": "IV", "threshold": [1, 2], "select_federated": "off"},
    {"metrics": ["mean", "50%"], "threshold": "0.5", "take_high": ["no", "yes"]},
    {"metrics": ["mean", "max", "min"], "threshold": [1, 2]},
    {"keep_col": ["a"], "filter_out_col": ["a", "b"]},
    {"keep_col": ["a"], "filter_out_col": ["b"]},
)


@pytest.fixture
def without_fate(monkeypatch):
    """A client on which FATE cannot be imported."""
    parameters_of.cache_clear(), reading._read.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "fate"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fate", None)
    yield
    parameters_of.cache_clear(), reading._read.cache_clear()


def test_the_generated_file_is_that_of_the_fate_which_is_installed():
    assert reading.GENERATED.read_text(encoding="utf-8") == text()


@pytest.mark.parametrize("component", sorted(generated()))
def test_what_was_generated_reads_every_value_as_fate_does_or_not_at_all(component):
    fates, declared = parameters_of(component), disclosure_of(component)
    told = {setting.partition(".")[0] for setting in declared.settings}
    read = refused = 0
    for name, ours in generated()[component].items():
        assert (ours.default, ours.stages) == (fates[name].default, fates[name].stages)
        for value in VALUES if name in told else ():
            found, expected = outcome(ours, name, value, declared), outcome(fates[name], name, value, declared)
            assert found in (expected, "refused") or expected == "refused", (component, name, value)
            read, refused = read + (expected != "refused"), refused + (found == "refused" != expected)
    # Such as [] for a group: a client without FATE says that it cannot tell.
    assert refused <= read / 5


def outcome(parameter, name, value, declared):
    """Which statements hold for a value."""
    try:
        given = tracing.flat({name: reading._plain(parameter.read(value))}, declared.settings)
    except Exception:
        return "refused"
    return [fits(each.when, {**declared.settings, **given}) for each in (*declared.shows, *declared.rows)]


@pytest.mark.parametrize(
    "component, given, setting, value",
    [
        ("coordinated_lr", {"he_param": {"kind": "Paillier"}}, "he_param", {"kind": "paillier", "key_length": 1024}),
        ("hetero_secureboost", {"gh_pack": "no"}, "gh_pack", False),
        ("hetero_secureboost", {"num_trees": "5"}, "num_trees", 5),
        ("coordinated_lr", {"he_param": None}, "he_param", {"kind": "paillier", "key_length": 1024}),
    ],
)
@pytest.mark.parametrize("client", ["with FATE", "without"])
def test_a_value_is_what_the_component_gets(component, given, setting, value, client, request):
    if client == "without":
        request.getfixturevalue("without_fate")
    assert read(component, given) == reading.Reading({**read(component, {}).settings, setting: value})


@pytest.mark.parametrize(
    "given, unread",
    [
        ({"HE_param": {"kind": "ou"}}, ("HE_param",)),
        ({"he_param": {"kind": "rsa"}}, ("he_param",)),
        ({"he_param": {"kind": "ou", "blinded": True}}, ("he_param.blinded",)),
        ({"he_param": "ou"}, ("he_param",)),
        ({"batch_size": "many"}, ("batch_size",)),
    ],
)
@pytest.mark.parametrize("client", ["with FATE", "without"])
def test_what_fate_refuses_or_passes_over_is_named(given, unread, client, request):
    if client == "without":
        request.getfixturevalue("without_fate")
    assert read("coordinated_lr", given).unread == unread


def test_every_component_of_fate_is_read_but_those_of_fate_flow():
    assert {name for name in catalogue() if name not in generated()} == {"upload", "download"}
