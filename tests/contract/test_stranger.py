"""One fault of each class, planted in a component that was written by the guide alone: its clause finds it."""

from dataclasses import replace
from pathlib import Path

import pytest

from . import clauses, hostile
from .installed import installed
from .stranger.case import CASE

FOLDER = Path(__file__).with_name("stranger") / "share_above"
CLAUSES = {
    "a": clauses.drawn_is_charged,
    "b": clauses.charged_before_it_leaves,
    "c": clauses.neighbours_differ_by_no_more,
    "d": hostile.hostile_data_shows_nothing,
    "e": hostile.agreed_terms_are_checked,
    "f": clauses.streams_are_separated,
}
CHARGE, SEND = '    own.charges.record(own.events, "share_above")\n', '    ctx.guest.put("above", told)\n'
DRAW = 'epsilon, relation=REPLACE_ONE, observers="guest")'
KEYED = 'epsilon, relation=REPLACE_ONE, observers="guest", rng=KeyedStream(home_of(self.ctx).key, "noise"))'
IMPORTS = "from ..common.charges import Charges, has_synthetic_rows\n"
# (its clause, what that says, what stands in party.py, what stands there in its place)
FAULTS = {
    "A the exact counts are told": (
        "a",
        "exact values with the recorded draws are",
        "int(each.value) for each in own.releases",
        "int(each) for each in own.counts",
    ),
    "A half the noise is drawn": ("a", "exact values with the recorded draws are", "(count, 1,", "(2 * count, 1,"),
    "B the first column alone is charged": (
        "a",
        "no line of the ledger says",
        "for each in self.releases]",
        "for each in self.releases[:1]]",
    ),
    "C all columns of all tasks have one noise": ("f", "the stream b'noise' was opened twice", DRAW, KEYED),
    "D a refusal quotes what is missing": (
        "d",
        "others tell two such tables apart",
        "        found = feature_blocks",
        "        for name in self.settings.columns:\n"
        "            if columns.as_pd_df()[name].isna().any():\n"
        '                raise Refusal(f"{name} has a missing value.")\n'
        "        found = feature_blocks",
    ),
    "E what is told is charged afterwards": ("b", "left before it was charged", CHARGE + SEND, SEND + CHARGE),
    "F the guest compares nothing": ("e", "goes on", "if facts != wanted:", "if False:"),
    "the count of a record has no bound": (
        "c",
        "in place of 2 at most",
        "(block > threshold).sum(axis=0)",
        "np.nan_to_num(block).astype(int).sum(axis=0)",
    ),
}
MORE = {  # what some faults need besides
    "A the exact counts are told": [
        ("self.releases = [", "self.counts = found.reduce(operator.add)\n        self.releases = [")
    ],
    "A half the noise is drawn": [("int(each.value)", "int(each.value) // 2")],
    "C all columns of all tasks have one noise": [
        (
            IMPORTS,
            IMPORTS.replace("Charges,", "Charges, home_of,") + "from fate_dp.privacy.noise.stream import KeyedStream\n",
        )
    ],
}


def problems_of(clause, name, changes, folder):
    files = {f"components/share_above/{path.name}": path.read_text() for path in FOLDER.glob("*.py")}
    for old, new in changes:
        party = files["components/share_above/party.py"]
        assert party.count(old) == 1
        files["components/share_above/party.py"] = party.replace(old, new)
    with installed(files, folder / "files"):
        return CLAUSES[clause](replace(CASE, setting=name), folder)


@pytest.mark.parametrize("clause", CLAUSES)
def test_a_strangers_component_passes(clause, tmp_path):
    assert problems_of(clause, CASE.setting, [], tmp_path) == []


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_it_is_found_by_its_clause(name, tmp_path):
    clause, said, old, new = FAULTS[name]
    problems = problems_of(clause, name, [(old, new), *MORE.get(name, [])], tmp_path)
    assert any(said in each for each in problems), problems
