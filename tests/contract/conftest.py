"""What makes a thousand plays quick: an accountant's answer to one question is computed once."""

import pytest

from fate_dp.privacy.accounting import total
from fate_dp.testing.doors import replaced_everywhere


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
