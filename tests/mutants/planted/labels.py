"""label_flip, flipback, score_correction, smote: what happens to one party's labels and rows."""

from ..planting import Mutant, aloud, contract

CLASSES, NUMBERS = (f"label_flip / default / {each}" for each in ("classes", "numbers"))
SWAP, POSTERIOR = (f"flipback / default / {each}" for each in ("swap", "posterior"))
SMOTE, SEEDED = (f"smote / train / {each}" for each in ("categories kept", "all interpolated, a public seed"))
CORRECTED = "score_correction / default / scores beside flips"
FLIP, FLIPBACK, CORRECTION, OVER = (
    f"components.{each}" for each in ("label_flip.guest", "flipback.guest", "score_correction.party", "smote.party")
)

MUTANTS = (
    Mutant(
        "label_flip flips at twice the epsilon that is charged",
        "A",
        f"{FLIP}:_flip_block",
        (("indices, draw.epsilon, len(values)", "indices, 2 * draw.epsilon, len(values)"),),
        contract(CLASSES, "a"),
    ),
    Mutant(
        "label_flip flips among the classes and one more",
        "A",
        f"{FLIP}:_flip_block",
        (("np.asarray(draw.classes)\n", "np.append(draw.classes, draw.classes[-1])\n"),),
        contract(CLASSES, "a"),
    ),
    Mutant(
        "label_flip writes the true labels of a class",
        "A",
        f"{FLIP}:_flip_block",
        (
            (
                "return values[flip_labels(match_ids, indices, draw.epsilon, len(values), key, label_source)]",
                "return np.where(indices, values[flip_labels(match_ids, indices, draw.epsilon, len(values), key, label_source)], labels)",
            ),
        ),
        contract(CLASSES, "a"),
    ),
    Mutant(
        "label_flip draws once for a block",
        "B",
        f"{FLIP}:_flip_block",
        (("flip_labels(match_ids, indices,", "flip_labels([0] * len(indices), indices,"),),
        contract(CLASSES, "a"),
    ),
    Mutant(
        "label_flip writes true numbers",
        "A",
        f"{FLIP}:NoisyNumbers.labels",
        (
            (
                "return frames.match_id_blocks(frame).join(frames.label_blocks(frame), kernel)",
                "frames.match_id_blocks(frame).join(frames.label_blocks(frame), kernel)\n        return frames.label_blocks(frame)",
            ),
        ),
        contract(NUMBERS, "a"),
    ),
    Mutant(
        "label_flip draws all sources' flips alike",
        "C",
        f"{FLIP}:LabelFlipGuestPreflight.commit",
        (("self.draw.labels(frame, home.key, source)", 'self.draw.labels(frame, home.key, "any/source/y")'),),
        contract(CLASSES, "a"),
    ),
    Mutant(
        "label_flip draws with a key that everybody knows",
        "C",
        f"{FLIP}:LabelFlipGuestPreflight.commit",
        (("self.draw.labels(frame, home.key, source)", "self.draw.labels(frame, bytes(32), source)"),),
        contract(CLASSES, "a"),
    ),
    Mutant(
        "label_flip charges half the epsilon",
        "A",
        f"{FLIP}:LabelFlipGuestPreflight.commit",
        (("epsilon=self.draw.epsilon,", "epsilon=self.draw.epsilon / 2,"),),
        contract(CLASSES, "a"),
    ),
    Mutant(
        "label_flip is charged after its table is written",
        "E",
        f"{FLIP}:flip",
        (
            (
                "    checks.agree()\n",
                "    from unittest import mock\n    given = []\n    with mock.patch.object(type(checks.home.ledger), 'record_flips', lambda ledger, **terms: given.append(terms)):\n        checks.agree()\n",
            ),
            (
                "    checks.home.ledger.mark_released(checks.release.release_id)\n",
                "    checks.release = checks.home.ledger.record_flips(**given[0])\n    checks.home.ledger.mark_released(checks.release.release_id)\n",
            ),
        ),
        contract(CLASSES, "b"),
    ),
    Mutant(
        "label_flip asks for the cap of another source",
        "F",
        f"{FLIP}:LabelFlipGuestPreflight.commit",
        (("cap=cap.epsilon,", "cap=None,"),),
        contract(CLASSES, "d"),
    ),
    Mutant(
        "label_flip takes labels outside its classes",
        "F",
        f"{FLIP}:LabelFlipGuestPreflight.check",
        (("        self.draw.check_labels(self.frame)\n", ""),),
        contract(CLASSES, "d"),
    ),
    Mutant(
        "label_flip takes any source",
        "F",
        f"{FLIP}:LabelFlipGuestPreflight.check",
        (("        check_source(self.home, self.frame, self.settings.label_source)\n", ""),),
        ("tests/contract/test_lying_guests.py::test_labels_of_a_source_that_nobody_declared_are_not_flipped",),
    ),
    Mutant(
        "label_flip says which label lies outside its bounds",
        "D",
        f"{FLIP}:NoisyNumbers.check_labels",
        (
            (
                'raise ValueError(f"A label lies outside the declared bounds [{low:g}, {high:g}].")',
                aloud("A label is {max(np.max(each) for _, each in frames.label_blocks(frame).collect())}."),
            ),
        ),
        contract(NUMBERS, "d"),
    ),
    Mutant(
        "label_flip refuses labels that are all alike",
        "D",
        f"{FLIP}:Flips.check_labels",
        (
            (
                "        if not found <= set(classes):\n",
                "        if len(found) < 2:\n            "
                + aloud("All labels are of one class.")
                + "\n        if not found <= set(classes):\n",
            ),
        ),
        ("tests/contract/test_labels_alike.py::test_a_job_goes_on[label_flip / default / classes-0.0]",),
    ),
    Mutant(
        "flipback takes scores of other labels",
        "F",
        f"{FLIPBACK}:FlipbackGuestPreflight.check",
        (("        check_scores(frame, self.scored)\n", ""),),
        ("tests/unit/test_consents.py::test_flipback_asks_of_which_labels_the_scores_are",),
    ),
    Mutant(
        "flipback forgets what the scoring model rests on",
        "B",
        f"{FLIPBACK}:revise_labels",
        (("releases=checks.model,", "releases=(),"),),
        contract(SWAP, "a"),
    ),
    Mutant(
        "flipback writes its table before the ledger knows it",
        "E",
        f"{FLIPBACK}:revise_labels",
        (
            ("    home.ledger.record_derived(", "    output_data.write(result)\n    home.ledger.record_derived("),
            ("    )\n    output_data.write(result)\n", "    )\n"),
        ),
        contract(SWAP, "b"),
    ),
    Mutant(
        "flipback works on labels that went through it",
        "F",
        f"{FLIPBACK}:revertible_flips",
        (
            ("if privacy.derived:", "if False:"),
            ("if flips is None:", "if flips is None and not privacy.derived:"),
            ("    flips = privacy.flips\n", "    flips = privacy.flips or privacy.releases[0]\n"),
        ),
        ("tests/unit/test_consents.py::test_no_step_promises_anything_to_records_whose_labels_follow_from_all",),
    ),
    Mutant(
        "flipback takes scores of a model of true labels",
        "A",
        f"{FLIPBACK}:releases_of_model",
        (("if not math.isfinite(total_of(releases)):", "if False:"),),
        ("tests/unit/test_consents.py::test_flipback_takes_no_scores_of_a_model_of_true_labels",),
    ),
    Mutant(
        "score_correction takes flips of another epsilon",
        "F",
        f"{CORRECTION}:refuse_other_flips",
        (("if flips.epsilon != epsilon:", "if False:"),),
        ("tests/unit/test_consents.py::test_scores_beside_flips_of_another_epsilon_are_not_corrected",),
    ),
    Mutant(
        "score_correction shows true labels of records whose flips were released",
        "F",
        f"{CORRECTION}:correct_scores",
        (("    refuse_other_flips(home_of(ctx), scored, settings.epsilon)\n", ""),),
        ("tests/unit/test_consents.py::test_score_correction_asks_which_labels_stand_beside_the_scores",),
    ),
    Mutant(
        "score_correction undoes flips of twice the epsilon",
        "A",
        f"{CORRECTION}:_corrected",
        (("true_probability(scores, epsilon)", "true_probability(scores, 2 * epsilon)"),),
        contract(CORRECTED, "a"),
    ),
    Mutant(
        "smote leaves no line",
        "A",
        f"{OVER}:over_sample_table",
        (("synthetic_rows=new_rows,", "synthetic_rows=0,"),),
        contract(SMOTE, "a"),
    ),
    Mutant(
        "smote writes its table before its line",
        "E",
        f"{OVER}:over_sample_table",
        (
            (
                "    home_of(ctx).ledger.record_over_sampling(",
                "    output.write(with_synthetic_rows(frame, synthetic.features, synthetic.labels, tag))\n    home_of(ctx).ledger.record_over_sampling(",
            ),
            (
                "    output.write(with_synthetic_rows(frame, synthetic.features, synthetic.labels, tag))\n    show",
                "    show",
            ),
        ),
        contract(SMOTE, "b"),
    ),
    Mutant(
        "smote draws by a seed that everybody knows and says that it is secret",
        "C",
        f"{OVER}:over_sample_table",
        (("secrets.randbelow(MAX_SEED + 1) if settings.seed is None else settings.seed", "settings.seed or 0"),),
        ("tests/contract/test_masks.py::test_secret_draws_of_over_sampling_differ",),
    ),
    Mutant(
        "smote tells others what its labels are like",
        "D",
        f"{OVER}:check_labels",
        (
            (
                'raise ValueError(f"The labels take {len(classes)} values; over-sampling needs two.")',
                aloud("The labels take {len(classes)} values, such as {classes[0]}."),
            ),
        ),
        contract(SMOTE, "d"),
    ),
    Mutant(
        "smote takes rows that were over-sampled before",
        "F",
        f"{OVER}:check_table",
        (("    if has_synthetic_rows(frame):\n", "    if False:\n"),),
        ("tests/unit/test_consents.py::test_a_table_is_over_sampled_once",),
    ),
)
