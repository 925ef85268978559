"""Ways to break what budgets, caps and printed epsilons rest on, each noticed by the test beside it in ``MUTANTS``.

A mutant is applied from outside; the product has no switch for any of them. Unbroken, the same tests pass where they stand.
"""

from functools import partial
from inspect import signature

import pytest
import test_ledger
import test_ledger_steps
import test_policy
import test_terms

from fate_dp.components.common import provenance
from fate_dp.privacy import Ledger
from fate_dp.privacy.labels.flips import united
from fate_dp.privacy.ledger import database, datasets, policy, scores, steps, totals
from fate_dp.privacy.ledger.entries import LedgerError
from fate_dp.privacy.ledger.steps import FittingCharges


def replaced(module, name, old, new, patch):
    """A statement of SQL with one part of it changed."""
    text = getattr(module, name)
    assert old in text
    patch.setattr(module, name, text.replace(old, new))


def caps_of_one_alone(caps, dataset, related, default, smaller):
    return [caps.get(dataset, smaller(caps.get(policy.base_name(dataset), default), default))]


def caps_of_columns(caps, dataset, related, default, smaller):
    return [caps.get(name, caps.get(policy.base_name(name), default)) for name in {dataset, *related}]


def releases_alike_by_number(patch):
    def merged(first, second):
        return tuple({(release.source, release.epsilon): release for release in united(first, second)}.values())

    patch.setattr(provenance, "united", merged)


def stale(table, patch):
    """When two families join, either datasets or records keep the number of theirs."""

    class Skipping:
        def __init__(self, connection):
            self.connection = connection

        def execute(self, statement, given):
            return None if statement.startswith(f"UPDATE {table} ") else self.connection.execute(statement, given)

    def joined(connection, found):
        return database.joined(Skipping(connection) if found else connection, found)

    patch.setattr(datasets, "joined", joined)


def first_step_alone(patch):
    together = steps._seen_together
    patch.setattr(steps, "_seen_together", lambda charged, asked: together(charged, asked[:1]))


def a_part_of_the_events_is_enough(patch):
    patch.setattr(
        FittingCharges,
        "cover",
        lambda fitting, seen, cap: any(set(dict(seen)) & set(each) for each in fitting._found[cap]),
    )


def own_column_sets_alone(patch):
    patch.setattr(totals, "STEPS", totals.STEPS.replace(datasets.RELATED, "SELECT :dataset"))


UNDER = "test_labels_of_one_family_have_one_budget_whatever_their_sources_are_called"
LOST_LABELS = "test_labels_under_a_lost_key_count_with_those_of_every_table"
LOST = "test_after_a_lost_key_every_table_counts_with_all_earlier_ones"
DISJOINT = "test_disjoint_columns_of_one_table_are_one_family_and_so_are_tables_that_a_third_one_joins"
SHARED = "test_datasets_that_share_records_share_the_count_and_the_training_records"
# (what is broken, how, the module and the test that must notice)
MUTANTS = [
    (
        "flips of this source alone",
        partial(replaced, totals, "SPENT_BY_FLIPS", datasets.RELATED, "SELECT :dataset"),
        test_ledger,
        UNDER,
    ),
    (
        "sources join no family",
        lambda patch: patch.setattr(datasets, "FAMILY_OF", "SELECT family FROM dataset_family WHERE dataset = ? AND 0"),
        test_ledger,
        UNDER,
    ),
    (
        "labels under a lost key are forgotten",
        partial(replaced, datasets, "FAMILIES_OF_OTHER_KEYS", "NOT IN", "IN"),
        test_ledger,
        LOST_LABELS,
    ),
    (
        "a lost key opens a budget",
        partial(replaced, datasets, "FAMILIES_OF_OTHER_KEYS", "NOT IN", "IN"),
        test_ledger,
        LOST,
    ),
    ("datasets keep their family when two join", partial(stale, "dataset_family"), test_ledger, DISJOINT),
    ("records keep their family when two join", partial(stale, "family"), test_ledger, DISJOINT),
    (
        "training rows of this table alone",
        partial(replaced, scores, "TRAINED_ON", "= related.dataset", "= :dataset"),
        test_ledger,
        SHARED,
    ),
    (
        "steps of this table alone",
        own_column_sets_alone,
        test_ledger_steps,
        "test_datasets_that_share_a_record_are_charged_together_whatever_their_columns_are",
    ),
    (
        "steps of one kind alone",
        first_step_alone,
        test_ledger_steps,
        "test_events_of_several_relations_units_and_observers_are_each_held_against_the_cap",
    ),
    (
        "a part that fits is enough",
        a_part_of_the_events_is_enough,
        test_ledger_steps,
        "test_what_fits_covers_a_part_of_it_and_nothing_else",
    ),
    (
        "caps of related tables unseen",
        lambda patch: patch.setattr(policy, "_caps", caps_of_one_alone),
        test_policy,
        "test_the_smallest_cap_of_all_related_datasets_holds",
    ),
    (
        "caps of other tables of these columns",
        lambda patch: patch.setattr(policy, "_caps", caps_of_columns),
        test_policy,
        "test_a_part_of_a_table_finds_no_larger_cap_under_the_name_of_another_table",
    ),
    (
        "numbered datasets have no cap",
        lambda patch: patch.setattr(policy, "base_name", lambda dataset: dataset),
        test_policy,
        "test_the_smallest_cap_of_all_related_datasets_holds",
    ),
    (
        "the same number is the same draw",
        releases_alike_by_number,
        test_terms,
        "test_a_model_of_an_earlier_version_names_no_releases_and_is_always_added",
    ),
]


def arguments_of(module, name, folder):
    if module is test_policy:
        return (folder / "home" / "policy.yaml",)
    if module is test_terms:
        return {"source": "a/b/y", "epsilon": 2.0}, 4.0
    return (Ledger(folder / "home" / "ledger.sqlite"),) if signature(getattr(module, name)).parameters else ()


@pytest.mark.parametrize(
    "module, name",
    sorted({(module, name) for *_, module, name in MUTANTS}, key=lambda pair: pair[1]),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_unbroken_it_holds(module, name, tmp_path):
    getattr(module, name)(*arguments_of(module, name, tmp_path))


@pytest.mark.parametrize("broken, mutate, module, name", MUTANTS, ids=[broken for broken, *_ in MUTANTS])
def test_mutant_is_noticed(broken, mutate, module, name, tmp_path, monkeypatch):
    mutate(monkeypatch)
    with pytest.raises((AssertionError, LedgerError, pytest.fail.Exception)):
        getattr(module, name)(*arguments_of(module, name, tmp_path))
