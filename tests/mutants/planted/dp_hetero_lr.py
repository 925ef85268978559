"""dp_hetero_lr: noise on second moments, joint scores, losses, and the terms that a host does not take from the guest."""

from ..planting import Mutant, contract

UNIFORM, ADAPTIVE, LABEL = (f"dp_hetero_lr / train / noise {each}" for each in ("uniform", "adaptive", "label"))
NOISE, AGREEMENT, SCORES, TRAIN, PREDICT, LABELS = (
    f"components.dp_hetero_lr.{each}" for each in ("noise", "agreement", "scores", "train", "predict", "labels")
)
DESCENT, COUNTS = "components.protocols.shared_descent", "components.protocols.score_counts"
ROUNDED, RELEASES, LOSSES = (
    "tests/unit/test_rounded_scores.py::",
    "tests/protocol/test_score_releases.py::",
    "tests/protocol/test_losses.py::",
)
CLASSES = "tests/unit/test_hetero_lr_classes.py::"

MUTANTS = (
    Mutant(
        "a host's losses are hidden by nothing",
        "C",
        f"{DESCENT}:SharedSteps._loss_shares",
        (("loss_part(deviation, sum(rows))", "0"),),
        contract("share_lr / train / weights to nobody, a hidden size", "a"),
        patch="lr3_host_loss_share_not_rounded",
    ),
    Mutant(
        "dp_hetero_lr computes scales of exact contributions",
        "A",
        f"{NOISE}:OwnNoise.scales",
        (("adaptive_scales(self._released(sums).value)", "adaptive_scales(sums / (self.records * 2.0**30))"),),
        contract(ADAPTIVE, "a"),
        patch="lr8_scales_from_exact_contributions",
    ),
    Mutant(
        "dp_hetero_lr draws noise on contributions and does not use it",
        "A",
        f"{NOISE}:OwnNoise.scales",
        (
            (
                "adaptive_scales(self._released(sums).value)",
                "adaptive_scales(self._released(sums).value * 0 + sums / (self.records * 2.0**30))",
            ),
        ),
        ("tests/unit/test_consents.py::test_scales_follow_from_what_was_released_of_contributions",),
    ),
    Mutant(
        "dp_hetero_lr calibrates its noise to twice the epsilon",
        "A",
        f"{NOISE}:OwnNoise._multipliers",
        (
            (
                "second_moments.noise_multiplier_for(self.epsilon,",
                "second_moments.noise_multiplier_for(2 * self.epsilon,",
            ),
        ),
        contract(UNIFORM, "a"),
    ),
    Mutant(
        "dp_hetero_lr releases contributions at the whole epsilon",
        "A",
        f"{NOISE}:OwnNoise._released",
        (("epsilon = AdaptiveBudget(self.epsilon, self.delta).contribution_epsilon", "epsilon = self.epsilon"),),
        contract(ADAPTIVE, "a"),
    ),
    Mutant(
        "dp_hetero_lr does not charge contributions",
        "B",
        f"{NOISE}:OwnNoise.charge",
        (("in drawn + self._contribution_events():", "in drawn:"),),
        contract(ADAPTIVE, "a"),
    ),
    Mutant(
        "dp_hetero_lr charges one fit of two",
        "B",
        f"{NOISE}:OwnNoise.charge",
        (("for fit, of_fit in self.drawn.items()]", "for fit, of_fit in list(self.drawn.items())[:1]]"),),
        contract(ADAPTIVE, "a"),
    ),
    Mutant(
        "dp_hetero_lr trains both fits with one noise",
        "C",
        f"{NOISE}:OwnNoise.charge",
        (
            (
                "self.drawn[fit] = of_fit.moments.draw(self.position, self.observers)",
                "self.drawn[fit] = next(iter(self.drawn.values()), None) or of_fit.moments.draw(self.position, self.observers)",
            ),
        ),
        contract(ADAPTIVE, "a"),
    ),
    Mutant(
        "dp_hetero_lr does not clip rows that get noise",
        "A",
        f"{NOISE}:OwnNoise.clipped",
        (("bits = noise.fraction_bits\n", "bits = noise.fraction_bits\n        if True:\n            return rows\n"),),
        ("tests/protocol/test_noise.py::test_the_model_is_that_of_the_noised_statistics", *contract(UNIFORM, "c")),
    ),
    Mutant(
        "every party of dp_hetero_lr draws the guest's noise",
        "B",
        f"{NOISE}:OwnNoise.charge",
        (("draw(self.position, self.observers)", "draw(0, self.observers)"),),
        contract(UNIFORM, "a"),
    ),
    Mutant(
        "dp_hetero_lr draws noise on a party's own sums and does not use it",
        "A",
        f"{NOISE}:OwnNoise.charge",
        (
            (
                "self.drawn[fit] = of_fit.moments.draw(self.position, self.observers)",
                "made = of_fit.moments.draw(self.position, self.observers)\n                self.drawn[fit] = replace(made, gram=made.gram * 0)",
            ),
        ),
        ("tests/protocol/test_noise.py::test_the_model_is_that_of_the_noised_statistics",),
    ),
    Mutant(
        "noise on labels reaches the guest's columns alone",
        "B",
        f"{NOISE}:noise_of_targets",
        (("        cross[position][guest.weights] = of_host\n", ""),),
        ("tests/protocol/test_label_noise.py::test_the_model_is_that_of_true_sums_with_noise_and_of_nothing_else",),
    ),
    Mutant(
        "noise on labels is for the guest's rows alone",
        "B",
        f"{NOISE}:OwnNoise.charge",
        (
            (
                "of_fit.on_labels.draw(sum(own.weights for own in bounds), self.observers)",
                "replace(of_fit.on_labels, row_squares=of_fit.on_labels.row_squares[:1]).draw(sum(own.weights for own in bounds), self.observers)",
            ),
        ),
        contract(LABEL, "a"),
    ),
    Mutant(
        "a host takes any noise that the guest says of it",
        "F",
        f"{AGREEMENT}:accept_terms",
        (("    check_own_part(terms.noise, noise.part if noise else None, own.position, terms.features)\n", ""),),
        contract(UNIFORM, "e"),
    ),
    Mutant(
        "a host takes another optimiser than the job's",
        "F",
        f"{AGREEMENT}:accept_terms",
        (("if not _is_agreed_optimizer(terms, warm_start):", "if False:"),),
        (
            f"{CLASSES}test_a_host_accepts_the_classes_of_the_flips_and_the_penalty_that_follows",
            *contract(UNIFORM, "e"),
        ),
    ),
    Mutant(
        "a host takes other batches than the job's",
        "F",
        f"{AGREEMENT}:accept_terms",
        (("if list(terms.batches) != batch_bounds(own.rows, descent.batch_size):", "if False:"),),
        (f"{CLASSES}test_a_host_trains_on_no_other_batches_than_its_parameters_give",),
    ),
    Mutant(
        "a host takes more rounds with scores than it agreed to",
        "F",
        f"{AGREEMENT}:accept_terms",
        (("if rounds != planned[: len(rounds)]:", "if False:"),),
        (f"{CLASSES}test_a_host_trains_with_no_round_of_flipback_that_its_parameters_do_not_give",),
    ),
    Mutant(
        "a host takes other sizes than its table's",
        "F",
        f"{AGREEMENT}:accept_terms",
        (("    _check_sizes(terms, own)\n", ""),),
        contract(UNIFORM, "e"),
    ),
    Mutant(
        "the guest is charged for its noise after the terms have left",
        "E",
        f"{TRAIN}:HeteroGuestPreflight.commit",
        (("            self.noise.charge(noise)\n", "            pass\n"),),
        contract(LABEL, "b", "a"),
    ),
    Mutant(
        "a host is charged for its noise after its training",
        "E",
        f"{TRAIN}:train_host",
        (
            (
                "    terms, release = checks.accept(checks.agree()), checks.release\n",
                "    agreed, charges = checks.agree(), checks.noise.charges\n    late, charges.record = charges.record, lambda *given: None\n"
                "    terms, release = checks.accept(agreed), checks.release\n    charges.record = late\n",
            ),
            (
                "    told: dict[str, Any] = {}\n",
                "    late([(each.event, 1) for each in checks.noise.drawn.values()], 'late')\n    told: dict[str, Any] = {}\n",
            ),
        ),
        contract(UNIFORM, "b"),
    ),
    Mutant(
        "dp_hetero_lr does not ask the cap",
        "F",
        f"{NOISE}:OwnNoise.of",
        (("            own.charges.check([(event, 1) for _, event in own.planned_events()])\n", "            pass\n"),),
        contract(UNIFORM, "d"),
    ),
    Mutant(
        "dp_hetero_lr refuses private labels that are all alike",
        "D",
        f"{TRAIN}:HeteroGuestPreflight.check_table",
        (("        if protected != LABEL:\n", "        if True:\n"),),
        ("tests/contract/test_labels_alike.py::test_a_job_goes_on[dp_hetero_lr / train / noise label-0.0]",),
    ),
    Mutant(
        "a host shows a round's scores without counting them",
        "A",
        f"{SCORES}:ScoreRelease.give_round",
        (("        self.record([weights], purpose)\n", ""),),
        (
            "tests/unit/test_consents.py::test_each_model_counts_on_rows_that_were_trained_on_and_none_is_shown_beyond_the_cap",
        ),
    ),
    Mutant(
        "a host shows the scores of folds without counting them",
        "B",
        f"{TRAIN}:validate_host",
        (('        checks.release.record(model.columns, "cross-validation")\n', ""),),
        (f"{RELEASES}test_every_fold_of_a_cross_validation_counts",),
    ),
    Mutant(
        "a host counts the scores of one class of all",
        "B",
        f"{SCORES}:ScoreRelease.record",
        (("for weights in columns:", "for weights in columns[:1]:"),),
        ("tests/unit/test_consents.py::test_every_class_is_a_model_of_its_own",),
    ),
    Mutant(
        "a host takes every table for one that it did not train on",
        "F",
        f"{SCORES}:ScoreRelease.record_prediction",
        (("if self.touches_training(frame):", "if False:"),),
        (
            "tests/unit/test_consents.py::test_each_model_counts_on_rows_that_were_trained_on_and_none_is_shown_beyond_the_cap",
        ),
    ),
    Mutant(
        "a host shows exact scores",
        "A",
        f"{SCORES}:_rounded",
        (
            (
                "np.floor(block.scores(weights) / step + _draws(block.features, key))",
                "np.rint(block.scores(weights) / step)",
            ),
        ),
        (f"{ROUNDED}test_scores_are_multiples_of_the_step_on_either_side_and_right_on_average",),
    ),
    Mutant(
        "scores are rounded by draws that everybody can repeat",
        "C",
        f"{SCORES}:_draws",
        (("hashlib.blake2b(row, key=key,", "hashlib.blake2b(row,"),),
        (f"{ROUNDED}test_draws_are_uniform_and_differ_between_keys_and_weights",),
    ),
    Mutant(
        "scores of all models are rounded by the same draws",
        "C",
        f"{SCORES}:rounded_scores",
        (('b"rounding of scores" + np.ascontiguousarray(weights, dtype="<f8").tobytes()', 'b"rounding of scores"'),),
        (f"{ROUNDED}test_draws_are_uniform_and_differ_between_keys_and_weights",),
    ),
    Mutant(
        "scores are rounded anew each time",
        "C",
        f"{SCORES}:rounded_scores",
        (("own = hmac.digest(key,", "import secrets\n\n    own = hmac.digest(secrets.token_bytes(32),"),),
        (f"{ROUNDED}test_asking_again_shows_nothing_more_whatever_the_blocks_and_the_table",),
    ),
    Mutant(
        "a host consents to scores whatever is left of its cap",
        "F",
        f"{SCORES}:ScoreRelease.allows",
        (("return not self.touches_training(frame) or self._new(columns) <= self.left()", "return True"),),
        (
            "tests/unit/test_consents.py::test_each_model_counts_on_rows_that_were_trained_on_and_none_is_shown_beyond_the_cap",
        ),
    ),
    Mutant(
        "a host that agreed to losses does not count them",
        "A",
        f"{DESCENT}:LossConsent.agreed",
        (("                self._own.count(self._losses)\n", "                pass\n"),),
        ("tests/unit/test_consents.py::test_a_host_agrees_to_losses_within_its_cap_and_counts_them",),
    ),
    Mutant(
        "a host agrees to losses whatever is left of its cap",
        "F",
        f"{DESCENT}:LossConsent.__init__",
        (("own is None or own.allows(losses)", "True"),),
        ("tests/unit/test_consents.py::test_a_host_agrees_to_losses_within_its_cap_and_counts_them",),
    ),
    Mutant(
        "losses are shown where one host of two agrees",
        "B",
        f"{DESCENT}:LossConsent.answer",
        (("all(consents)", "any(consents)"),),
        ("tests/unit/test_consents.py::test_losses_are_shown_where_every_host_agrees",),
    ),
    Mutant(
        "a host scores more encrypted rows than it has counted",
        "F",
        f"{PREDICT}:_answer_guest",
        (("if asked != rows:", "if False:"),),
        ("tests/unit/test_consents.py::test_a_host_scores_no_encrypted_row_that_it_has_not_counted",),
    ),
    Mutant(
        "a host counts one encrypted row of all",
        "B",
        f"{PREDICT}:AskedRows.record",
        (("for _ in range(rows):", "for _ in range(1):"),),
        ("tests/unit/test_consents.py::test_every_encrypted_row_counts",),
    ),
)
