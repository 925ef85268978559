"""A guest that asks for less noise, and says truly what that costs, tells nothing that contradicts itself; other lies."""

from dataclasses import replace
from functools import partial

import pytest

from .cases import GUEST, HOST, messages_of
from .registry import CASES


def agreed(message):
    """The terms in a message, where it has some that a party can lie about."""
    terms = message.value.get("terms") if message.name == "verdict" else None
    return terms if terms and "parameters" in terms else None


@pytest.mark.parametrize(
    "name, less",
    [
        ("dp_homo_gbdt / train / secure_sum", 2.5),
        ("dp_homo_nn / train / secure_sum", 1.7),
        ("dp_homo_nn / train / local", 1.7),
    ],
    ids=["dp_homo_gbdt", "secure_sum", "local"],
)
def test_it_is_held_to_the_noise_of_the_job(name, less, tmp_path):
    (case,) = [each for each in CASES if each.name == name]
    lower = replace(case, step=partial(case.step, noise_multiplier=less)).play(tmp_path / "less").check()
    lie = next(terms for each in messages_of(lower, GUEST) if (terms := agreed(each)))

    def told(message):
        if message.receiver != HOST or not (terms := agreed(message)):
            return None
        return {**message.value, "terms": {**lie, "parameters": terms["parameters"]}}

    played = case.play(tmp_path / "lie", meddle=told)
    assert f"noise_multiplier {less}" in str(played.errors.get(HOST))


def test_labels_of_a_source_that_nobody_declared_are_not_flipped(tmp_path):
    (case,) = [each for each in CASES if each.name == "label_flip / default / classes"]
    played = replace(case, step=partial(case.step, label_source="made/up/y")).play(tmp_path)
    assert set(played.errors) == set(case.parties) and "is not declared" in str(played.errors[GUEST])


def test_labels_that_are_no_classes_are_not_trained_on(tmp_path):
    (case,) = [each for each in CASES if each.name == "share_lr / train / weights to nobody, a hidden size"]
    labels = case.tables[GUEST]["y"].where(lambda y: y == 0, 3.0)
    played = case.play(tmp_path, case.with_table(GUEST, case.tables[GUEST].assign(y=labels)))
    assert all("neither 0 nor 1" in str(played.errors.get(party)) for party in case.parties)


@pytest.mark.parametrize(
    "name", ["dp_hetero_lr / train / noise label", "share_lr / train / weights to the guest, scores"]
)
def test_shares_of_weights_that_lead_beyond_all_bounds_write_no_model(name, tmp_path):
    """As the last message of another job did."""
    (case,) = [each for each in CASES if each.name == name]

    def told(message):
        return [share + (1 << 80) for share in message.value] if message.name == "weight_shares" else None

    played = case.play(tmp_path, meddle=told)
    assert "The message 'weight_shares' from host 10000 is refused: it gives a coefficient" in str(played.errors[GUEST])
    assert all(party in played.errors for party in case.parties if "share_lr" not in name or party == GUEST)
