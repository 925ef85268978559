"""What makes a thousand plays quick: accountants' answers and slow hashes are computed once, and a party has few keys."""

import hashlib
import json
from collections import Counter
from functools import cache
from unittest import mock

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
def remembered_hashes():
    with mock.patch.object(hashlib, "scrypt", cache(hashlib.scrypt)):
        yield


@pytest.fixture(scope="session", autouse=True)
def few_keys():
    """The first key of a party is the same in all plays, and so is the second one."""
    kept, asked = {}, Counter()

    def generate_keypair(*given, **named):
        (doors,) = open_doors()
        asked[doors, doors.party] += 1
        place = doors.party, asked[doors, doors.party], given, tuple(named.items())
        if place not in kept:
            kept[place] = original(*given, **named)
        return kept[place]

    original = paillier.generate_keypair
    with replaced_everywhere({original: generate_keypair}):
        yield


def pytest_terminal_summary(terminalreporter):
    """The figures of the run, as the last lines."""
    from .registry import CASES
    from .test_contract import CLAUSES, COMPONENTS

    reports = terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
    swapped = [value for each in reports for name, value in each.user_properties if name == "foreign_messages"]
    if swapped:
        names = ("foreign_messages_accepted", "foreign_messages_tried")
        figures = dict(zip(names, map(sum, zip(*swapped))))
        print(json.dumps({"bench": "foreign_messages", "figures": figures}))
    ends = {
        kind: sum(any(name == "cell" for name, _ in each.user_properties) for each in terminalreporter.getreports(kind))
        for kind in ("passed", "failed", "skipped")
    }
    cells = len(CASES) * len(CLAUSES)
    if sum(ends.values()) == cells:
        figures = {
            "components": len(COMPONENTS),
            "cells": cells,
            "cells_failing": ends["failed"],
            "cells_excused": round(ends["skipped"] / cells, 3),
        }
        print(json.dumps({"bench": "contract", "figures": figures}))
