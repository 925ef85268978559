"""label_count: noisy counts."""

from ..planting import Mutant, aloud, contract

CASE = "label_count / default / labels at two of three parties"
PARTY = "components.label_count.party"
RECORD = """        own.charges.record([(own.release.event, 1)], "label_count")\n"""
RESULT = """    result = agree(ctx.sub_ctx("counts"), lambda: counts, lambda hosts: document({party_name(ctx): counts, **hosts}))\n"""

MUTANTS = (
    Mutant(
        "label_count publishes exact counts",
        "A",
        f"{PARTY}:publish",
        (
            (
                "own.release.value.tolist()",
                "label_blocks(own.frame).mapValues(partial(_counts, classes=settings.classes)).reduce(operator.add).tolist()",
            ),
        ),
        contract(CASE, "a"),
        patch="ct2_counts_without_noise",
    ),
    Mutant(
        "label_count sends counts before they are charged",
        "E",
        f"{PARTY}:publish",
        ((RECORD, ""), (RESULT, RESULT + "    if own.charges is not None and own.release is not None:\n" + RECORD)),
        contract(CASE, "b"),
        patch="ct1_counts_sent_before_charge",
    ),
    Mutant(
        "label_count draws at twice its epsilon and charges the parameter's",
        "A",
        f"{PARTY}:noisy_counts",
        (("settings.epsilon, rng=rng", "2 * settings.epsilon, rng=rng"),),
        contract(CASE, "a"),
    ),
    Mutant(
        "label_count takes a replaced label to move one count",
        "A",
        f"{PARTY}:noisy_counts",
        (("counts, SENSITIVITY,", "counts, 1,"),),
        contract(CASE, "a"),
    ),
    Mutant(
        "label_count charges the guest alone",
        "B",
        f"{PARTY}:publish",
        ((RECORD, "        if ctx.is_on_guest:\n    " + RECORD),),
        contract(CASE, "a"),
    ),
    Mutant(
        "label_count does not ask whether an id occurs twice",
        "F",
        f"{PARTY}:Counting.check",
        (("        require_distinct_ids(frame)\n", ""),),
        ("tests/protocol/test_label_count.py::test_a_refusal_is_everybodys_before_anything_is_charged_or_counted",),
    ),
    Mutant(
        "label_count does not compare the classes of the parties",
        "F",
        f"{PARTY}:Counting.commit",
        (('{"classes": list(self.settings.classes)}, hosts', "{}, hosts"),),
        contract(CASE, "e"),
    ),
    Mutant(
        "label_count refuses a label outside the classes aloud",
        "D",
        f"{PARTY}:_counts",
        (
            (
                "    return np.array(",
                "    if len(labels) != sum(counts):\n        "
                + aloud("A label is none of the classes.")
                + "\n    return np.array(",
            ),
        ),
        contract(CASE, "d"),
    ),
    Mutant(
        "label_count does not ask the cap before it draws",
        "F",
        f"{PARTY}:Counting.check",
        (("        self.charges.check([(self.release.event, 1)])\n", ""),),
        contract(CASE, "d"),
    ),
)
