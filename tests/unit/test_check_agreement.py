"""The verdicts over jobs after FATE's examples are those of the table that was made by reading, and it can tell others."""

from dataclasses import replace

import pytest

from bench.check import Statement, comparisons, spelling_comparisons, strongest, variant_comparisons
from fate_dp.components.disclosure import tracing
from fate_dp.components.disclosure.declaration import disclosure_of

BINNING = disclosure_of("hetero_feature_binning")


@pytest.fixture(scope="module")
def found():
    return {each.name: each for each in comparisons()}


def test_every_job_of_the_table_gets_its_verdict(found):
    assert len(found) >= 25
    assert {name: job.differences for name, job in found.items() if not job.agrees} == {}


def test_every_variant_of_a_job_gets_what_follows_from_the_table():
    found = variant_comparisons()
    assert len(found) >= 200 and {job.name: job.differences for job in found if not job.agrees} == {}


def test_a_setting_in_another_spelling_of_fate_has_the_verdict_of_the_plain_one():
    found = spelling_comparisons()
    assert len(found) >= 60 and [name for name, agrees in found.items() if not agrees] == []


def test_every_exit_status_stands_in_the_table(found):
    assert {job.status_read for job in found.values()} == {0, 1, 3}


@pytest.mark.parametrize(
    "component, change",
    [
        ("hetero_feature_binning", {"shows": ()}),
        ("hetero_feature_binning", {"shows": tuple(replace(each, when={}) for each in BINNING.shows)}),
        ("hetero_secureboost", {"stages": ("predict",)}),
        ("label_flip", {"outputs": ()}),
        ("psi", {"shows": ()}),
    ],
)
def test_a_wrong_declaration_is_caught(component, change, monkeypatch):
    changed = {component: replace(disclosure_of(component), **change)}
    monkeypatch.setattr(tracing, "disclosure_of", lambda name: changed.get(name) or disclosure_of(name))
    assert not all(each.agrees for each in comparisons())


def test_of_two_statements_the_stronger_one_counts():
    weak, strong = (Statement("a", "host", "guest", "labels", learns, "true") for learns in ("some", "every"))
    other = replace(weak, what="features")
    assert strongest([weak, strong, other]) == {strong, other}
