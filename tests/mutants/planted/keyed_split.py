"""keyed_split: a row's side is its own."""

from ..planting import Mutant

PARTY = "components.keyed_split.party"
TESTS = "tests/protocol/test_keyed_split.py"

MUTANTS = (
    Mutant(
        "keyed_split goes by a row's place",
        "B",
        f"{PARTY}:is_tested",
        (("for each in match_ids", "for each in range(len(match_ids))"),),
        (f"{TESTS}::test_no_row_moves_when_others_leave_or_change",),
    ),
    Mutant(
        "keyed_split does not compare the parties' settings",
        "F",
        f"{PARTY}:SplitPreflight.commit",
        (("if facts != asdict(self.settings):", "if not facts:"),),
        (f"{TESTS}::test_a_refusal_is_everybodys",),
    ),
)
