"""share_lr: training and scores on shares."""

from ..planting import Mutant, contract

HIDDEN, SCORED = (
    f"share_lr / train / {each}" for each in ("weights to nobody, a hidden size", "weights to the guest, scores")
)
AGREEMENT, TRAIN, TRAINING, PREDICT, SCORING = (
    f"components.share_lr.{each}" for each in ("agreement", "train", "training", "predict", "scoring")
)
PREDICTED = "share_lr / predict / the guest's weights"
PROTOCOL, MODEL = "tests/protocol/test_share_lr.py::", "tests/unit/test_share_lr_model.py::"

MUTANTS = (
    Mutant(
        "share_lr opens what tells a hidden number of matches without a line",
        "A",
        f"{AGREEMENT}:OpenedSize.record",
        (("if self.rows.alignment.hide_size is None or", "if True or"),),
        contract(HIDDEN, "a"),
    ),
    Mutant(
        "share_lr's host opens what tells the hidden number before its line",
        "E",
        f"{TRAIN}:train_host",
        (
            ("    checks.size.mark_released()\n", "    checks.size.record()\n    checks.size.mark_released()\n"),
            (
                "    wire = checks.agree()\n",
                "    wire = checks.agree()\n    late, checks.size.record = checks.size.record, lambda: None\n",
            ),
            ("checks.origin, checks.losses)\n", "checks.origin, checks.losses)\n    checks.size.record = late\n"),
        ),
        contract(HIDDEN, "b"),
    ),
    Mutant(
        "share_lr's host shows scores without counting them",
        "A",
        f"{PREDICT}:give_scores",
        (('Together(ctx)("release", release.record)', 'Together(ctx)("release", dict)'),),
        contract(PREDICTED, "a"),
    ),
    Mutant(
        "share_lr's host counts scores after it has shown them",
        "E",
        f"{PREDICT}:give_scores",
        (
            ('Together(ctx)("release", release.record)', 'Together(ctx)("release", dict)'),
            ("    if opens_labels(rows, model):\n", "    release.record()\n    if opens_labels(rows, model):\n"),
        ),
        contract(PREDICTED, "b"),
    ),
    Mutant(
        "share_lr's host sends all bits of its scores",
        "A",
        f"{SCORING}:leading_bits",
        (("(shares >> _DROPPED_BITS_OF_SCORES) % modulus", "(shares >> _DROPPED_BITS_OF_SCORES)"),),
        (f"{MODEL}test_scores_are_opened_to_twelve_bits_whatever_the_shares",),
    ),
    Mutant(
        "share_lr masks the scores of all blocks alike",
        "C",
        f"{SCORING}:_sealed",
        ((' of block {key}"', '"'),),
        contract(PREDICTED, "f"),
    ),
    Mutant(
        "share_lr masks scores with a key that everybody knows",
        "C",
        f"{SCORING}:_multiplied",
        (("secrets.token_bytes(KEY_BYTES)", "bytes(KEY_BYTES)"),),
        contract(PREDICTED, "f"),
    ),
    Mutant(
        "share_lr opens weights to a party that reveal does not name",
        "A",
        f"{SCORING}:open_weights",
        (("    if peer.role in SEES[reveal]:\n", "    if True:\n"),),
        ("tests/unit/test_consents.py::test_shares_of_weights_go_to_those_that_reveal_names",),
    ),
    Mutant(
        "share_lr's guest does not compare what was asked for",
        "F",
        f"{TRAIN}:JoinedGuestPreflight.commit",
        (('        agreement.check_same_request(facts["asked"], self.settings)\n', ""),),
        contract(HIDDEN, "e"),
    ),
    Mutant(
        "share_lr's guest does not ask whether the rows are of one alignment",
        "F",
        f"{TRAIN}:JoinedGuestPreflight.commit",
        (("        self.rows.check_same(hosts)\n", ""),),
        contract(HIDDEN, "e"),
    ),
    Mutant(
        "share_lr's host takes any terms",
        "F",
        f"{AGREEMENT}:accept_terms",
        (("if replace(sent, run=expected.run) != expected:", "if False:"),),
        contract(HIDDEN, "e"),
    ),
    Mutant(
        "share_lr scores rows of which the number is hidden",
        "F",
        f"{AGREEMENT}:SharedRows.refuse_hidden_size",
        (("if self.alignment.hide_size is not None:", "if False:"),),
        ("tests/unit/test_consents.py::test_rows_of_which_the_number_is_hidden_are_not_scored",),
    ),
    Mutant(
        "share_lr shows losses that the host did not agree to",
        "F",
        f"{TRAINING}:StoppingRule.__call__",
        (("if not self._training.shows_losses:", "if False:"),),
        (
            "tests/unit/test_consents.py::test_the_guest_of_a_training_on_shares_keeps_no_loss_that_the_host_did_not_agree_to",
        ),
    ),
    Mutant(
        "share_lr trains on labels that are no classes",
        "F",
        f"{TRAINING}:quadratic_share",
        (("        _check_labels(side, sums)\n", "        pass\n"),),
        ("tests/contract/test_lying_guests.py::test_labels_that_are_no_classes_are_not_trained_on",),
    ),
)
