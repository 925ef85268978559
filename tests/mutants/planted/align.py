"""align: hidden ids, shares of records, and a hidden number of matches."""

from ..planting import Mutant, aloud, contract

CASE, HIDDEN = "align / default / sizes told", "align / default / size hidden"
PREFLIGHT, RUN, TABLES = (f"components.align.{each}" for each in ("preflight", "run", "tagged_tables"))
PROTOCOL, KERNELS, SORTED = (
    "tests/protocol/test_align.py::",
    "tests/unit/test_align_kernels.py::",
    "tests/unit/test_align_tables.py::",
)

MUTANTS = (
    Mutant(
        "align masks records alike whose tags begin alike",
        "C",
        f"{TABLES}:blinded_records",
        (("KeyedBits(blinding.mask_key, tag + record)", "KeyedBits(blinding.mask_key, tag[:1])"),),
        contract(CASE, "f"),
        patch="al1_mask_of_first_tag_byte",
    ),
    Mutant(
        "align masks records by their ciphertexts alone",
        "C",
        f"{TABLES}:blinded_records",
        (("KeyedBits(blinding.mask_key, tag + record)", "KeyedBits(blinding.mask_key, record)"),),
        equivalent="a record's ciphertext is fresh, so that no two records, nor two runs, share one; the tag separates nothing more",
    ),
    Mutant(
        "align masks records with a key that everybody knows",
        "C",
        f"{RUN}:joined_blocks",
        (("secrets.token_bytes(KEY_BYTES)", "bytes(KEY_BYTES)"),),
        ("tests/contract/test_masks.py::test_what_masks_records_is_a_secret_of_the_task",),
    ),
    Mutant(
        "align's records leave in the order of the table",
        "A",
        f"{TABLES}:encrypted_table",
        (("_sorted(_spread(", "(_spread("),),
        (f"{SORTED}test_what_leaves_a_party_is_sorted_whatever_the_order_it_was_made_in",),
    ),
    Mutant(
        "align sends double tags in the order of the other's table",
        "A",
        f"{TABLES}:tags_of",
        (("_sorted(table", "(table"),),
        (f"{SORTED}test_what_leaves_a_party_is_sorted_whatever_the_order_it_was_made_in",),
    ),
    Mutant(
        "align sends the other's records back with their double tags",
        "A",
        f"{TABLES}:tags_of",
        (("lambda record: 0", "lambda record: record"),),
        contract(CASE, "c"),
    ),
    Mutant(
        "align draws dummies at twice the epsilon that is charged",
        "A",
        f"{RUN}:run",
        (("draw_dummy_count(hidden.epsilon, hidden.pool)", "draw_dummy_count(2 * hidden.epsilon, hidden.pool)"),),
        contract(HIDDEN, "a"),
    ),
    Mutant(
        "align draws dummies without charging them",
        "A",
        f"{RUN}:run",
        (("    preflight.charge()\n", ""),),
        contract(HIDDEN, "a"),
    ),
    Mutant(
        "align brings as many names as it drew dummies",
        "A",
        f"{PREFLIGHT}:dummy_names",
        (("for at in range(pool)]\n    return", "for at in range(number)]\n    return"),),
        contract(HIDDEN, "a"),
    ),
    Mutant(
        "align does not ask the cap",
        "F",
        f"{PREFLIGHT}:AlignmentTerms.check",
        (("            self.charges.check(self._cost())\n", ""),),
        contract(HIDDEN, "d"),
    ),
    Mutant(
        "align's guest does not compare what was asked for",
        "F",
        f"{PREFLIGHT}:AlignmentTerms.commit",
        (('if facts["asked"] != self._asked():', "if False:"),),
        contract(CASE, "e"),
    ),
    Mutant(
        "align does not compare the numbers of matches",
        "F",
        f"{RUN}:Settlement.commit",
        (('if facts["rows"] != self.found:', "if False:"),),
        equivalent="the next step counts what arrives and refuses any other number than its own",
    ),
    Mutant(
        "a refusal names the column whose values are unfit",
        "D",
        "components.common.frames:bad_feature",
        (('return ValueError(f"Feature {name!r} {what}.")', aloud("Feature {name!r} {what}.")),),
        contract(CASE, "d"),
    ),
)
