"""Noisy numeric labels: keyed draws that repeat, their lines in the ledger, and settings that do not go together."""

import numpy as np
import pytest
from ledger_scenarios import KEY, SOURCE

from fate_dp.components.label_flip.settings import CLASSES, Settings
from fate_dp.pipelines.clients import LabelFlip
from fate_dp.privacy import BudgetExceeded, Ledger
from fate_dp.privacy.labels.flips import (
    LabelRelease,
    canonical_label,
    label_tags,
    noisy_numbers,
    record_tags,
    releases_of_json,
    releases_to_json,
)
from fate_dp.privacy.ledger.entries import LedgerError
from fate_dp.privacy.mechanisms.local_numbers import piecewise_law
from fate_dp.privacy.private_files import key_id
from fate_dp.privacy.validation import InvalidArgument

ID_KEY = key_id(KEY)

LAW = piecewise_law(2.0, (-1.0, 1.0))
IDS = [f"person {number}" for number in range(4000)]
LABELS = np.linspace(-1, 1, len(IDS))


def drawn(ids=IDS, labels=LABELS, law=LAW, key=KEY, source=SOURCE):
    return noisy_numbers(ids, labels, law, key, source)


def test_a_draw_belongs_to_record_key_source_and_law_and_to_nothing_else():
    first = drawn()
    assert (first == drawn()).all() and (drawn(IDS[::-1], LABELS[::-1])[::-1] == first).all()
    others = (
        drawn(key=b"x" * 32),
        drawn(source="other/source/y"),
        drawn(law=piecewise_law(2.5, (-1.0, 1.0))),
        drawn(law=piecewise_law(2.0, (-1.0, 1.0), 16)),
        drawn([f"x{name}" for name in IDS]),
    )
    # Independent answers to the same labels: their errors have nothing to do with each other.
    for other in others:
        assert abs(np.corrcoef(first - LABELS, other - LABELS)[0, 1]) < 5 / np.sqrt(len(IDS))


def test_keyed_noise_has_the_mean_and_the_variance_of_the_law():
    errors, variance = drawn() - LABELS, float(LAW.variance(LABELS).mean())
    assert abs(errors.mean()) < 5 * np.sqrt(variance / len(errors))
    assert 0.85 < errors.var() / variance < 1.15
    assert not any(0.85 < errors.var() / (factor * variance) < 1.15 for factor in (2 / 3, 3 / 2))


def test_labels_outside_the_bounds_are_refused():
    for label in (1.0001, np.nan):
        with pytest.raises(InvalidArgument):
            drawn(["a"], [label])


def rows(ids, labels, law):
    noisy = map(canonical_label, noisy_numbers(ids, labels, law, KEY, SOURCE).tolist())
    tags = zip(record_tags(ids, KEY, SOURCE), label_tags(ids, labels, KEY, SOURCE), noisy)
    return list(tags)


def record(ledger, law=LAW, cap=8.0):
    made = rows(IDS[:50], LABELS[:50].tolist(), law)
    ledger.record_flips(
        source=SOURCE,
        epsilon=law.epsilon,
        classes=law.points,
        bounds=(law.low, law.high),
        key_id=ID_KEY,
        rows=made,
        cap=cap,
        job_id="job",
        task_id="task",
        fingerprint="f",
    )
    return [(row[0], row[2]) for row in made]


def test_the_ledger_knows_noisy_numbers_again_and_charges_them_once(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    released = record(ledger)
    record(ledger)
    assert ledger.spent(SOURCE) == 2.0 and ledger.sources(ID_KEY) == [SOURCE]
    found = ledger.find_labels(released, source=SOURCE, key_id=ID_KEY)
    assert found.releases == (LabelRelease(SOURCE, 2.0, LAW.points, ID_KEY, 1, (-1.0, 1.0)),)
    (entry,) = ledger.entries()
    assert entry["mechanism"] == "piecewise" and entry["uses"] == 2 and entry["records"] == 50
    assert entry["parameters"] == {"bins": LAW.points, "bounds": [-1.0, 1.0], "key_id": ID_KEY}
    assert ledger.total(SOURCE, "label", "replace_one", "host", 0) == 2.0
    with pytest.raises(LedgerError, match="within other bounds"):
        record(ledger, piecewise_law(2.0, (-1.0, 2.0)))
    record(ledger, piecewise_law(2.0, (-1.0, 1.0), 16))
    assert ledger.spent(SOURCE) == 4.0 and ledger.total(SOURCE, "label", "replace_one", "model", 0) == 4.0
    with pytest.raises(BudgetExceeded):
        record(ledger, piecewise_law(4.5, (-1.0, 1.0)))


def test_a_release_keeps_its_bounds_in_json_and_one_of_classes_has_none():
    both = (LabelRelease(SOURCE, 2.0, 256, "key", 1, (-1.0, 1.0)), LabelRelease(SOURCE, 1.0, 2, "key", 2))
    content = releases_to_json(both)
    assert content[0]["bounds"] == [-1.0, 1.0] and "bounds" not in content[1] and releases_of_json(content) == both
    for damaged in ([0], [0, "x"], 3):
        with pytest.raises(ValueError, match="damaged"):
            releases_of_json([{**content[0], "bounds": damaged}])


@pytest.mark.parametrize(
    "given, sentence",
    [
        ({"bins": 8}, "bins must be left out without bounds"),
        ({"bounds": [0, 1], "classes": [0, 1, 2]}, "labels are classes or numbers: set one"),
        ({"bounds": [0, 1], "epsilon": 31.0}, "epsilon must be from 0.001 to 30 for bounded numbers, got 31.0"),
    ],
)
def test_settings_that_do_not_go_together_are_refused_when_the_object_is_made(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        LabelFlip("flip", epsilon=given.pop("epsilon", 2.0), label_source="a/b/y", **given)


def test_classes_of_the_default_go_with_bounds():
    assert Settings(2.0, "a/b/y", CLASSES, (0.0, 1.0)).bins is None
    assert LabelFlip("flip", epsilon=2.0, label_source="a/b/y", bounds=[-1, 1], bins=32).bins == 32
