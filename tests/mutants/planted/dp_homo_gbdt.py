"""dp_homo_gbdt: noisy sums at leaves."""

from ..planting import Mutant, contract

CASE, ROUNDS = "dp_homo_gbdt / train / secure_sum", "components.protocols.noisy_rounds"
BOOSTING, TRAIN, AGREEMENT, TREES = (
    f"components.dp_homo_gbdt.{each}" for each in ("boosting", "train", "agreement", "trees")
)
SETTINGS, LEAVES = "tests/unit/test_homo_gbdt_settings.py::", "tests/unit/test_homo_gbdt_trees.py::"

MUTANTS = (
    Mutant(
        "dp_homo_gbdt sends sums without noise",
        "A",
        f"{BOOSTING}:contribution",
        (("content = KINDS[terms.aggregation].noised(sums, terms, stream)", "content = sums.steps"),),
        contract(CASE, "a"),
    ),
    Mutant(
        "dp_homo_gbdt draws noise and sends sums without it",
        "A",
        f"{BOOSTING}:contribution",
        (("noised(sums, terms, stream)", "noised(sums, terms, stream) * 0 + sums.steps"),),
        contract(CASE, "a"),
    ),
    Mutant(
        "dp_homo_gbdt charges a round after its message has left",
        "E",
        f"{ROUNDS}.training:send_charged",
        (
            ("        is_charged = charged()\n", "        is_charged = True\n"),
            ("            charges.mark_released()\n", "            charged()\n            charges.mark_released()\n"),
        ),
        contract(CASE, "b"),
    ),
    Mutant(
        "dp_homo_gbdt charges the first round alone",
        "B",
        f"{TRAIN}:take_part",
        (
            (
                "partial(member.charge_round, number)",
                "partial(member.charge_round, number) if not number else lambda: True",
            ),
        ),
        contract(CASE, "a"),
    ),
    Mutant(
        "dp_homo_gbdt clips a record in each tree as if there were one",
        "B",
        f"{TREES}:leaf_steps",
        (("clip / math.sqrt(batch.trees)", "clip"),),
        equivalent="a record with a label of 0 or 1 lies within a tree's bound at any score, so that nothing is ever clipped",
    ),
    Mutant(
        "dp_homo_gbdt scales every record to the bound",
        "A",
        f"{TREES}:record_steps",
        (("factors = np.minimum(1.0, ", "factors = np.minimum(1e6, "),),
        (f"{LEAVES}test_gradient_and_curvature_of_any_score_are_within_the_bound_unscaled",),
    ),
    Mutant(
        "dp_homo_gbdt clips later rounds as the first",
        "B",
        f"{TRAIN}:TreesMember.sums",
        (("clip = self._terms.clip_of(number)", "clip = self._terms.clip_of(0)"),),
        contract(CASE, "c", "a"),
    ),
    Mutant(
        "a party of dp_homo_gbdt does not hold the guest's noise against what was asked for",
        "F",
        f"{AGREEMENT}:TreesConsent.check",
        (("        check_promise(settings, terms, guarantee)\n", ""),),
        ("tests/contract/test_lying_guests.py::test_it_is_held_to_the_noise_of_the_job[dp_homo_gbdt]",),
    ),
    Mutant(
        "a party of dp_homo_gbdt does not compute anew what the guest promises",
        "F",
        f"{AGREEMENT}:TreesConsent.check",
        (('        party_tables.check_told({"promise": guarantee.to_json()}, agreed)\n', ""),),
        contract(CASE, "e"),
    ),
    Mutant(
        "a party of dp_homo_gbdt does not hold the guest's parameters against its own",
        "F",
        f"{AGREEMENT}:TreesConsent.check",
        (('        party_tables.check_parameters(settings.to_json(), agreed["parameters"])\n', ""),),
        contract(CASE, "e"),
    ),
    Mutant(
        "a party of dp_homo_gbdt takes noise of another multiplier than the job's",
        "F",
        f"{AGREEMENT}:check_promise",
        (("if wanted is not None and terms.noise_multiplier != wanted:", "if False:"),),
        (f"{SETTINGS}test_a_party_refuses_noise_that_does_not_keep_the_job_s_promise",),
    ),
    Mutant(
        "a party of dp_homo_gbdt does not ask its cap",
        "F",
        f"{AGREEMENT}:TreesConsent.check",
        (("        charges.check(events_of(terms, settings.relation))\n", ""),),
        contract(CASE, "d"),
    ),
    Mutant(
        "dp_homo_gbdt refuses a missing value",
        "D",
        f"{TRAIN}:_prepared",
        (
            (
                "    return bins",
                '    if not np.isfinite(features).all():\n        raise ValueError("A feature has a value that is not finite, in row 1.")\n    return bins',
            ),
        ),
        contract(CASE, "d"),
    ),
)
