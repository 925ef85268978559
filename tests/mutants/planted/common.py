"""What all components stand on: charges, verdicts, the channel, what is known of labels, what a job discloses."""

from ..planting import Mutant, contract

COUNT, BINNING, SUM, FLIPS = (
    "label_count / default / labels at two of three parties",
    "dp_binning / train / label, Gaussian",
    "dp_homo_nn / train / secure_sum",
    "label_flip / default / classes",
)
WIRE, PEERS = "tests/unit/test_wire_channel.py", "components.common.peers"
CHARGES, CHANNEL, PREFLIGHT, PROVENANCE = (
    "components.common.charges",
    "components.common.wire.channel",
    "components.common.preflight",
    "components.common.provenance",
)

MUTANTS = (
    Mutant(
        "a party that stops tells others any sentence of its data",
        "D",
        f"{CHANNEL}:Channel.stop",
        (("isinstance(error, Refusal)", "isinstance(error, ValueError)"),),
        contract(COUNT, "d"),
        patch="wi3_private_errors_told",
    ),
    Mutant(
        "one number seals all slices",
        "C",
        "crypto.message_seals:SealKey",
        (("encrypt(_bytes(number)", "encrypt(_bytes(0)"), ("decrypt(_bytes(number)", "decrypt(_bytes(0)")),
        (f"{WIRE}::test_what_is_not_sealed_for_its_place_is_refused[a later one]",),
    ),
    Mutant(
        "a number seals the next slice, too, where the first did not leave",
        "C",
        f"{CHANNEL}:Channel._push_slice",
        (
            ("        line.sent += 1", "        pass"),
            ("line.sent - 1), parties=[party])", "line.sent), parties=[party])\n        line.sent += 1"),
        ),
        (f"{WIRE}::test_no_number_seals_two_slices_even_if_the_first_did_not_leave",),
    ),
    Mutant(
        "keys of messages are those of every task",
        "C",
        f"{PEERS}:Meeting.keys",
        (("shared_with(key, self._session,", "shared_with(key, '',"),),
        (f"{WIRE}::test_what_is_not_sealed_for_its_place_is_refused[of another task]",),
    ),
    Mutant(
        "a pin is not looked at",
        "F",
        f"{PEERS}:Meeting.keys",
        (("        self._check_pin(other, key, signature)\n", ""),),
        ("tests/unit/test_peers.py::test_an_unsigned_greeting_of_a_pinned_party_is_refused_with_the_cure",),
    ),
    Mutant(
        "an open stop is taken in among sealed slices",
        "F",
        f"{CHANNEL}:Channel._part",
        (("mark == _OPEN and number == 1", "mark == _OPEN"),),
        (f"{WIRE}::test_an_open_stop_is_taken_in_before_anything_sealed_alone",),
    ),
    Mutant(
        "shares may lead to any weights",
        "F",
        "crypto.shared_descent:opened_weights",
        (("    if any(", "    if False and any("),),
        (
            "tests/unit/test_crypto_shared_descent.py::test_shares_that_lead_beyond_what_a_training_comes_to_are_refused",
        ),
    ),
    Mutant(
        "of flips from two sources the smaller epsilon is told",
        "B",
        "components.disclosure.tracing:Labels.worst",
        (("labels.epsilon or 0.0)", "-(labels.epsilon or 0.0))"),),
        ("tests/unit/test_disclosure.py::test_of_flips_from_several_sources_the_largest_epsilon_is_told_in_any_order",),
        patch="di2_smallest_epsilon_of_flips",
    ),
    Mutant(
        "a refusal tells others its private reason",
        "D",
        f"{PREFLIGHT}:_attempt",
        (("{getattr(error, 'public', UNTOLD)}", "{error}"),),
        contract(BINNING, "d"),
    ),
    Mutant(
        "a check that breaks tells others what its error said",
        "D",
        f"{PREFLIGHT}:_attempt",
        (
            (
                "getattr(error, 'public', UNTOLD)",
                "getattr(error, 'public', UNTOLD if isinstance(error, ValueError) else error)",
            ),
        ),
        ("tests/unit/test_charges.py::test_a_check_that_breaks_tells_others_nothing_of_its_error",),
    ),
    Mutant(
        "a party goes on where another one refused",
        "F",
        f"{PREFLIGHT}:agree",
        (('    if verdict["problem"]:\n', '    if verdict["problem"] and own.problem:\n'),),
        contract(COUNT, "d"),
    ),
    Mutant(
        "parties of other versions go on",
        "F",
        f"{PREFLIGHT}:_judge",
        (("_other_version(ctx, reports), ", ""),),
        contract(COUNT, "e"),
    ),
    Mutant(
        "several steps are charged as one",
        "B",
        f"{CHARGES}:Charges.record",
        (("count=count)", "count=1)"),),
        contract(BINNING, "a"),
    ),
    Mutant(
        "the first of several events is charged alone",
        "B",
        f"{CHARGES}:Charges.record",
        (("in self._claimed(events):", "in self._claimed(events)[:1]:"),),
        contract("dp_binning / train / record, Laplace", "a"),
    ),
    Mutant(
        "a step on records is not charged to the labels that it reads",
        "A",
        f"{CHARGES}:Charges._claimed",
        (("(self._reads_labels or event.unit == Unit.LABEL)", "event.unit == Unit.LABEL"),),
        ("tests/protocol/test_dp_binning.py::test_the_ledger_charges_the_sensitivity_of_all_columns",),
    ),
    Mutant(
        "labels are derived only if all of them are",
        "B",
        f"{CHARGES}:refuse_derived_labels",
        (("are_marked(labels).any()", "are_marked(labels).all()"),),
        (
            "tests/unit/test_consents.py::test_no_step_promises_anything_to_records_whose_labels_follow_from_all",
            "tests/protocol/test_one_account.py::test_it_is_refused_at_every_party",
        ),
    ),
    Mutant(
        "a label cap is that of this source alone",
        "F",
        f"{CHARGES}:label_cap",
        (("policy.label_cap(account, related)", "policy.label_cap(account)"),),
        ("tests/protocol/test_one_account.py::test_it_is_refused_at_every_party",),
    ),
    Mutant(
        "a charge is not held against the cap",
        "F",
        f"{CHARGES}:Charges.record",
        ((", self._cap(account))", ", None)"),),
        ("tests/unit/test_charges.py::test_what_another_job_took_after_the_check_is_not_charged_again",),
    ),
    Mutant(
        "what the cap says is told to others",
        "D",
        f"{CHARGES}:Charges.check",
        (('public=f"{self._refusal} {CHANGED_BY_OPERATOR}"', "public=str(error)"),),
        contract(COUNT, "d"),
    ),
    Mutant(
        "a repeated task is charged once",
        "A",
        f"{CHARGES}:Charges.record",
        (('f"{self._job.task_id} {secrets.token_hex(16)}"', "self._fingerprint"),),
        ("tests/unit/test_charges.py::test_the_same_step_of_the_same_task_is_charged_each_time",),
    ),
    Mutant(
        "records of over-sampled tables are charged as if noise protected them",
        "A",
        f"{CHARGES}:Charges._claimed",
        (("event_after_over_sampling(asked) if self._over_sampled else asked", "asked"),),
        ("tests/unit/test_charges.py::test_noise_protects_no_record_of_an_over_sampled_table",),
    ),
    Mutant(
        "tables that share records have a budget each",
        "B",
        f"{CHARGES}:Charges._cap",
        (("policy.dataset_cap(account, self._dataset.related)", "policy.dataset_cap(self.dataset, ())"),),
        ("tests/unit/test_charges.py::test_a_part_of_a_table_has_the_cap_of_the_whole",),
    ),
    Mutant(
        "rows of unknown origin are those of the tables beside them",
        "B",
        f"{CHARGES}:record_spaces",
        (("origin_of_this_task(key)", "tables_of_this_task(key)"),),
        ("tests/unit/test_unrelated_tables.py::test_rows_that_may_be_anybody_s_pay_for_all",),
    ),
    Mutant(
        "flips of unrelated tables stand in the way",
        "B",
        f"{PROVENANCE}:of_common_records",
        (("if here.intersection", "if here.union"),),
        ("tests/unit/test_unrelated_tables.py::test_five_unrelated_pairs_spend_their_own_budgets_and_no_other",),
    ),
    Mutant(
        "of several releases that labels agree with the smallest counts",
        "B",
        f"{PROVENANCE}:find_label_privacy",
        (("return max(known,", "return min(known,"),),
        ("tests/unit/test_charges.py::test_of_several_releases_that_labels_agree_with_the_largest_counts",),
    ),
    Mutant(
        "labels that the ledger does not know pass for public ones",
        "F",
        f"{PROVENANCE}:find_label_privacy",
        (
            (
                "home.policy.source(label_source).public and _are_public(home, frame, label_source)",
                "home.policy.source(label_source).public",
            ),
        ),
        ("tests/unit/test_consents.py::test_labels_that_are_not_the_declared_ones_are_not_public",),
    ),
    Mutant(
        "true labels are shown beside released flips",
        "F",
        f"{PROVENANCE}:refuse_true_labels_of_released_records",
        (
            (
                "            if found is None:\n",
                "            if found is None:\n                continue\n            if not found:\n",
            ),
        ),
        ("tests/unit/test_consents.py::test_true_labels_of_records_whose_flips_were_released_are_not_shown",),
    ),
    Mutant(
        "a source is taken for declared whatever the operator says",
        "F",
        f"{PROVENANCE}:check_source",
        (("if not home.policy.is_declared(label_source):", "if False:"),),
        ("tests/unit/test_charges.py::test_a_source_is_one_that_the_operator_declared",),
    ),
    Mutant(
        "public labels leave no line",
        "A",
        f"{PROVENANCE}:record_use",
        (("if not privacy.private:", "if False:"),),
        contract("dp_scorecard / train / public labels", "a"),
    ),
)
