"""dp_scorecard: tables of bins, and totals of labels."""

from ..planting import Mutant, aloud, contract

RECORD, LABEL, PUBLIC = (f"dp_scorecard / train / {each}" for each in ("record", "label", "public labels"))
AGREEMENT, TABLES, TRAIN, ADDITIVE, FOLDS, PREDICT = (
    f"components.dp_scorecard.{each}" for each in ("agreement", "tables", "train", "additive", "folds", "predict")
)
CROSS, SHOWN = "dp_scorecard / cross_validation / record", "dp_scorecard / predict / points of a training"
PROTOCOL = "tests/protocol/test_dp_scorecard.py::"

MUTANTS = (
    Mutant(
        "dp_scorecard sends cross tables without noise",
        "A",
        f"{TABLES}:TableShares.noisy",
        (("(share << FRACTION_BITS) + noise.cross[position].astype(object)", "share << FRACTION_BITS"),),
        contract(RECORD, "a"),
        patch="sc6_no_noise_on_cross_tables",
    ),
    Mutant(
        "dp_scorecard reads the noise on labels in another unit",
        "A",
        f"{TRAIN}:fit_tables",
        (("4.0**-UNIT_BITS", "4.0 ** -(UNIT_BITS + 1)"),),
        contract(LABEL, "a"),
        patch="sc8_label_noise_in_wrong_unit",
    ),
    Mutant(
        "dp_scorecard takes a label to move a target by its size",
        "A",
        f"{ADDITIVE}:label_moments_of",
        (("2.0 * TARGET", "1.0 * TARGET"),),
        contract(LABEL, "a"),
        patch="sc9_label_spread_one_side",
    ),
    Mutant(
        "a scorecard's host does not check its multiplier",
        "F",
        f"{AGREEMENT}:ScorecardHostPreflight.accept",
        ((", terms.multipliers[position])", ")"), ("self.sizes.counts, self.multiplier)", "self.sizes.counts)")),
        contract(RECORD, "e"),
        patch="sc4_host_does_not_check_its_multiplier",
    ),
    Mutant(
        "dp_scorecard sends its own tables without noise",
        "A",
        f"{TABLES}:TableShares.noisy",
        (
            (
                "(self.own.astype(object) << FRACTION_BITS) + noise.own.astype(object)",
                "self.own.astype(object) << FRACTION_BITS",
            ),
        ),
        contract(PUBLIC, "a"),
    ),
    Mutant(
        "every party of a scorecard draws the guest's noise",
        "B",
        f"{AGREEMENT}:ScorecardPreflight.draw",
        (("data_parties(self.ctx).index(own_party(self.ctx))", "0"),),
        contract(PUBLIC, "a"),
    ),
    Mutant(
        "a scorecard's host draws and charges nothing",
        "A",
        f"{AGREEMENT}:ScorecardHostPreflight.accept",
        (("        self.charge(terms)\n", "        self.draw(terms)\n"),),
        contract(PUBLIC, "a"),
    ),
    Mutant(
        "dp_scorecard calibrates its noise to twice the epsilon",
        "A",
        f"{AGREEMENT}:ScorecardPreflight._check_budget",
        (("noise_multiplier_for(self.settings.epsilon,", "noise_multiplier_for(2 * self.settings.epsilon,"),),
        contract(PUBLIC, "a"),
    ),
    Mutant(
        "dp_scorecard calibrates the noise on labels to twice the epsilon",
        "A",
        f"{AGREEMENT}:ScorecardGuestPreflight.draw",
        (("noise_multiplier_for(settings.epsilon,", "noise_multiplier_for(2 * settings.epsilon,"),),
        contract(LABEL, "a"),
    ),
    Mutant(
        "dp_scorecard counts the guest's columns alone for the noise on labels",
        "B",
        f"{AGREEMENT}:ScorecardGuestPreflight.draw",
        (("for of_party in terms.counts]", "for of_party in terms.counts[:1]]"),),
        contract(LABEL, "a"),
    ),
    Mutant(
        "dp_scorecard draws noise on labels and does not use it",
        "A",
        f"{TRAIN}:fit_tables",
        (("linear = linear + checks.label_noise.values.astype(float) * 4.0**-UNIT_BITS", "linear = linear * 1.0"),),
        contract(LABEL, "a"),
    ),
    Mutant(
        "a scorecard's host is charged after its tables have left",
        "E",
        f"{TRAIN}:train",
        (
            (
                "    checks.mark_released()\n",
                "    if not ctx.is_on_guest:\n        checks.charge(terms)\n    checks.mark_released()\n",
            ),
            (
                "terms = host.accept(host.agree())",
                "host.charge = lambda terms: None\n        terms = host.accept(host.agree())\n        del host.charge\n        host.draw(terms)",
            ),
        ),
        contract(PUBLIC, "b"),
    ),
    Mutant(
        "dp_scorecard charges one fold of all",
        "B",
        f"{AGREEMENT}:ScorecardPreflight.charge",
        (("(self.noise.event, self.reads)", "(self.noise.event, 1)"),),
        contract(CROSS, "a"),
    ),
    Mutant(
        "a scorecard's host sends all folds with one noise",
        "C",
        f"{FOLDS}:validate_host",
        (("        if number:\n            checks.draw(terms)\n", ""),),
        contract(CROSS, "a"),
    ),
    Mutant(
        "a scorecard's guest reads all folds with one noise",
        "C",
        f"{FOLDS}:validate_guest",
        (("        if number:\n            checks.draw(terms)\n", ""),),
        contract(CROSS, "a"),
    ),
    Mutant(
        "a scorecard's host shows the points of folds without counting them",
        "A",
        f"{FOLDS}:validate_host",
        (("        ShownPoints.of(home, job, held_out, card).record()\n", ""),),
        contract(CROSS, "a"),
    ),
    Mutant(
        "a scorecard's host shows points of training rows without counting them",
        "A",
        f"{PREDICT}:predict_host",
        (("    checks.shown.record()\n", ""),),
        contract(SHOWN, "a"),
    ),
    Mutant(
        "a scorecard's guest does not compare the parties' privacy",
        "F",
        f"{AGREEMENT}:ScorecardGuestPreflight.commit",
        (('require_same({"privacy": settings.privacy, ', "require_same({"),),
        contract(RECORD, "e"),
    ),
    Mutant(
        "dp_scorecard refuses private labels that are all alike",
        "D",
        f"{AGREEMENT}:ScorecardGuestPreflight.check",
        (
            (
                "        charges.refuse_derived_labels(frame)\n",
                "        charges.refuse_derived_labels(frame)\n        if len(frames.distinct_labels(frame, limit=2)) == 1:\n            "
                + aloud("All labels are of one class.")
                + "\n",
            ),
        ),
        ("tests/contract/test_labels_alike.py::test_a_job_goes_on[dp_scorecard / train / record-0.0]",),
    ),
    Mutant(
        "dp_scorecard says which label it does not take",
        "D",
        f"{TABLES}:binned_rows",
        (
            (
                'raise ValueError("A label is neither 0 nor 1; dp_scorecard tells these two classes apart.")',
                aloud("A label is {max(np.max(each) for _, each in labels.collect())}."),
            ),
        ),
        contract(RECORD, "d"),
    ),
    Mutant(
        "dp_scorecard does not ask the cap of its records",
        "F",
        f"{AGREEMENT}:ScorecardPreflight._check_budget",
        (("        self.charges.check([(event, self.reads)])\n", ""),),
        contract(RECORD, "d"),
    ),
    Mutant(
        "dp_scorecard does not ask the cap of its labels",
        "F",
        f"{AGREEMENT}:ScorecardGuestPreflight._check_label_budget",
        (
            (
                '        self.charges.check([(Event(Gaussian(multiplier), "label", REPLACE_ONE, observers_of(self.ctx)), self.reads)])\n',
                "",
            ),
        ),
        contract(LABEL, "d"),
    ),
)
