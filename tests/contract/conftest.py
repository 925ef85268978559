"""What makes a thousand plays quick: an accountant's answer is computed once, and a party has few Paillier keys."""

from collections import Counter

import pytest

from fate_dp.crypto import paillier
from fate_dp.privacy.accounting import total
from fate_dp.testing.doors import open_doors, replaced_everywhere


@pytest.fixture(scope="session", autouse=True)
def remembered_totals():
    answers = {}

    def total_epsilon(charges, delta):
        asked = tuple(charges)
        question = tuple(sorted((event.to_json(), count) for event, count in asked)), delta
        if question not in answers:
            answers[question] = original(asked, delta)
        return answers[question]

    original = total.total_epsilon
    with replaced_everywhere({original: total_epsilon}):
        yield


@pytest.fixture(scope="session", autouse=True)
def few_keys():
    """The first key of a party is the same in all plays, and so is the second one."""
    kept, asked = {}, Counter()

    def generate_keypair(*bits):
        (doors,) = open_doors()
        asked[doors, doors.party] += 1
        place = doors.party, asked[doors, doors.party], bits
        if place not in kept:
            kept[place] = original(*bits)
        return kept[place]

    original = paillier.generate_keypair
    with replaced_everywhere({original: generate_keypair}):
        yield
