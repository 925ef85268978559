"""dp_homo_nn: noisy rounds in its trust models, and what dp_homo_gbdt shares with them."""

from ..planting import Mutant, aloud, contract

SUM, LOCAL, ADAPTIVE, SHUFFLE = (
    f"dp_homo_nn / train / {each}" for each in ("secure_sum", "local", "adaptive, secure_sum", "shuffle")
)
NN, ROUNDS = "components.dp_homo_nn", "components.protocols.noisy_rounds"
CLIENT, TRAIN, AGREEMENT, TERMS = (f"{NN}.{each}" for each in ("rounds.client", "train", "agreement", "round_terms"))
AGGREGATION, ACCOUNT, CONTRIBUTION = (f"{ROUNDS}.{each}" for each in ("aggregation", "account", "contribution"))
STEPS, CHARGES, PERSONAL = (
    "tests/unit/test_homo_nn_rounds.py::",
    "tests/unit/test_homo_nn_charges.py::",
    "tests/unit/test_homo_nn_personal.py::",
)
NOISE, ACCOUNTS, SERVED = (
    "tests/statistical/test_homo_nn_noise.py::",
    "tests/unit/test_homo_nn_account.py::",
    "tests/unit/test_homo_nn_server.py::",
)

MUTANTS = (
    Mutant(
        "secure_sum: contributions leave without noise",
        "A",
        f"{NN}.adaptive:ContributionStep.share",
        (
            (
                "self._sum.share(sums, self.relation, OBSERVERS).value",
                "self._sum.share(sums, self.relation, OBSERVERS).value * 0 + np.rint(sums).astype(np.int64)",
            ),
        ),
        contract(ADAPTIVE, "a"),
        patch="nn7_contributions_without_noise_share",
    ),
    Mutant(
        "secure_sum: a client adds no noise",
        "A",
        f"{AGGREGATION}:SecureSum.noised",
        ((" + discrete_gaussian(share, clipped.steps.shape, stream)", ""),),
        contract(SUM, "a"),
    ),
    Mutant(
        "secure_sum: a client draws its noise and sends steps without it",
        "A",
        f"{AGGREGATION}:SecureSum.noised",
        (("return clipped.steps + discrete", "discrete"), ("stream)\n", "stream)\n        return clipped.steps\n")),
        contract(SUM, "a"),
    ),
    Mutant(
        "secure_sum: shares are as if nobody dropped out or colluded",
        "A",
        f"{AGGREGATION}:SecureSum.noised",
        (("terms.clients, terms.max_dropouts)", "terms.clients, 0)"),),
        contract(SUM, "a"),
    ),
    Mutant(
        "secure_sum: half the noise in every round",
        "A",
        f"{AGGREGATION}:SecureSum.noised",
        (("noise_share_sigma(noise_of(terms),", "noise_share_sigma(noise_of(terms) / 2,"),),
        contract(SUM, "a"),
    ),
    Mutant(
        "secure_sum: masks of all rounds are those of the first",
        "C",
        f"{AGGREGATION}:SecureSum.encode",
        (("contribution.content, contribution.round_number", "contribution.content, 0"),),
        contract(SUM, "f"),
    ),
    Mutant(
        "secure_sum: masks are named without their task",
        "C",
        f"{AGGREGATION}:SecureSum.take_keys",
        (("keys, channel.session)", 'keys, "task")'),),
        equivalent="the key of the masks is agreed anew in every task, so that the name of the task separates nothing more",
    ),
    Mutant(
        "secure_sum: nothing is masked",
        "A",
        f"{AGGREGATION}:SecureSum.encode",
        (("masked.astype(WORD)", "contribution.content.view(np.uint64).astype(WORD)"),),
        ("tests/contract/test_masks.py::test_the_same_sums_come_in_other_messages[dp_homo_nn / train / secure_sum]",),
    ),
    Mutant(
        "secure_sum: a client masks for any set of parties",
        "F",
        f"{AGGREGATION}:SecureSum.encode",
        (("        check_arrivals(self._sum, len(present))\n", ""),),
        (f"{CHARGES}test_a_party_masks_nothing_for_a_set_that_is_too_small",),
    ),
    Mutant(
        "secure_sum: the server opens the sum of too few",
        "F",
        f"{AGGREGATION}:SecureSum.decode",
        (("        check_arrivals(self._sum, len(messages))\n", ""),),
        (f"{STEPS}test_fewer_than_the_least_arrivals_are_refused_before_anything_is_added",),
    ),
    Mutant(
        "secure_sum: masked vectors that got lost are left out",
        "F",
        f"{AGGREGATION}:SecureSum.messages",
        (("if len(messages) < len(present):", "if False:"),),
        ("tests/unit/test_homo_nn_simulation.py::test_a_lost_masked_vector_spends_the_round_and_gives_no_step",),
    ),
    Mutant(
        "secure_sum: a round is charged as twice the noise",
        "A",
        f"{ACCOUNT}:secure_sum_of",
        (("return SecureSum(multiplier,", "return SecureSum(2 * multiplier,"),),
        (f"{ACCOUNTS}test_a_secure_sum_is_charged_as_the_core_says", *contract(SUM, "a")),
    ),
    Mutant(
        "local: a client's vector has half the noise",
        "A",
        f"{AGGREGATION}:Local.release",
        (("            noise_of(terms),\n", "            noise_of(terms) / 2,\n"),),
        contract(LOCAL, "a"),
    ),
    Mutant(
        "local: a client sends its vector without the noise that it drew",
        "A",
        f"{AGGREGATION}:Local.noised",
        (
            (
                "np.asarray(cls.release(clipped, terms, stream).value)",
                "0 * np.asarray(cls.release(clipped, terms, stream).value) + clipped.steps * clipped.grid",
            ),
        ),
        contract(LOCAL, "a"),
    ),
    Mutant(
        "local: only the first of several local steps is noised",
        "B",
        f"{CLIENT}:Client._noised_walk",
        (
            ("for _ in range(terms.local_steps):", "for at in range(terms.local_steps):"),
            (
                "mean = Local.noised(self._clipped(current, clip), terms, self._stream) /",
                "sums = self._clipped(current, clip)\n            mean = (Local.noised(sums, terms, self._stream) if not at else sums.steps * sums.grid) /",
            ),
        ),
        contract("dp_homo_nn / train / local, two noised steps", "a"),
    ),
    Mutant(
        "local: several local steps are charged as one",
        "B",
        f"{ACCOUNT}:events_of",
        (("number * terms.noised_steps", "number"),),
        (f"{ACCOUNTS}test_local_steps_are_each_charged",),
    ),
    Mutant(
        "local: the largest coordinates are chosen by what noise hides",
        "A",
        f"{AGGREGATION}:Local.receive",
        (("self.messages(channel, present)", "self.messages(channel, list(present)[:1])"),),
        contract(LOCAL, "a", "b", "c"),
        equivalent="",
    ),
    Mutant(
        "local: a party with noise of its own draws that of the loudest",
        "B",
        "components.protocols.noisy_rounds.terms:RoundTerms.at",
        (("self.noise_multiplier if self.own_noise is None else self.own_noise[position]", "self.noise_multiplier"),),
        (f"{PERSONAL}test_every_party_keeps_its_own_target_and_spends_nearly_all_of_it",),
    ),
    Mutant(
        "local: a clip of a party's own gives way to the server's",
        "F",
        f"{CLIENT}:Client.contribution",
        ((" or self._has_own_clip else clip", " else clip"),),
        (f"{PERSONAL}test_a_clip_of_its_own_bounds_a_partys_records_whatever_the_server_says",),
    ),
    Mutant(
        "secure_sum: all parties sample as the one with the largest target",
        "B",
        "components.protocols.noisy_rounds.terms:RoundTerms.at",
        (
            (
                "self.batch_size if self.own_sampling is None else self.own_sampling[position] * self.records",
                "self.batch_size",
            ),
        ),
        (f"{PERSONAL}test_every_party_keeps_its_own_target_and_spends_nearly_all_of_it",),
    ),
    Mutant(
        "shuffle: an answer at twice the epsilon0 that is charged",
        "A",
        f"{CLIENT}:Client._answers",
        (
            (
                "unit, epsilon0 = self.terms.unit, noise_of(self.terms)",
                "unit, epsilon0 = self.terms.unit, 2 * noise_of(self.terms)",
            ),
        ),
        contract(SHUFFLE, "a"),
    ),
    Mutant(
        "shuffle: every record answers in every round",
        "B",
        f"{CLIENT}:Client._answers",
        (("places = senders(self.terms, self.position, round_number)", "places = np.arange(len(self.rows))"),),
        contract(SHUFFLE, "a"),
    ),
    Mutant(
        "shuffle: an epoch is charged as if all messages were honest",
        "A",
        f"{ACCOUNT}:honest_messages",
        ((" - dropping - _most_messages(terms, terms.colluding)", ""),),
        (
            "tests/unit/test_homo_nn_terms.py::test_no_round_has_fewer_honest_messages_than_are_charged",
            *contract(SHUFFLE, "a"),
        ),
    ),
    Mutant(
        "shuffle: a second epoch is not charged",
        "B",
        f"{TERMS}:ChargedRounds.added_by",
        (("[*self._rounds, number]", "[number]"),),
        (f"{CHARGES}test_an_epoch_of_shuffled_rounds_is_charged_when_this_party_first_sends_in_it",),
    ),
    Mutant(
        "shuffle: the order of records is that of the table",
        "C",
        f"{CLIENT}:SecretOrders.of_epoch",
        (("random_permutation(self._count, self._stream)", "np.arange(self._count)"),),
        (f"{NOISE}test_the_order_of_a_shuffled_epoch_is_secret_and_new_in_every_epoch",),
    ),
    Mutant(
        "shuffle: the order of records is drawn once for all epochs",
        "C",
        f"{CLIENT}:SecretOrders.of_epoch",
        (("if self._epoch is None or self._epoch[0] != epoch:", "if self._epoch is None:"),),
        (f"{NOISE}test_the_order_of_a_shuffled_epoch_is_secret_and_new_in_every_epoch",),
    ),
    Mutant(
        "shuffle: surplus messages of a party count",
        "F",
        f"{AGGREGATION}:Shuffle._received",
        (("if len(messages) == scheduled:", "if True:"),),
        (f"{CHARGES}test_surplus_messages_of_one_party_do_not_make_up_for_those_of_another",),
    ),
    Mutant(
        "shuffle: messages are passed on in the order in which they came",
        "A",
        f"{AGGREGATION}:Shuffle.relay",
        (("mixed = shuffle(arrived, self._least)", "shuffle(arrived, self._least)\n            mixed = arrived"),),
        (f"{CHARGES}test_the_shuffler_passes_on_what_the_schedule_says",),
    ),
    Mutant(
        "a round is charged after its message has left",
        "E",
        f"{ROUNDS}.training:send_charged",
        (
            ("        is_charged = charged()\n", "        is_charged = True\n"),
            ("            charges.mark_released()\n", "            charged()\n            charges.mark_released()\n"),
        ),
        (*contract(SUM, "b"), *contract(ADAPTIVE, "b")),
    ),
    Mutant(
        "contributions are not charged",
        "A",
        f"{TRAIN}:_release_contributions",
        (("partial(training.charge, member.charges, [(step.event, 1)], purpose)", "lambda: True"),),
        contract(ADAPTIVE, "a"),
    ),
    Mutant(
        "with adaptive noise the rounds get the whole epsilon",
        "B",
        f"{NN}.adaptive:calibrated_beside",
        (("noise_beside([(step.event, 1)], event_of", "noise_beside([], event_of"),),
        contract(ADAPTIVE, "a"),
    ),
    Mutant(
        "contributions are released at the whole epsilon",
        "A",
        f"{NN}.adaptive:contribution_step",
        (('settings.adaptive["contribution_share"] * settings.epsilon', "settings.epsilon"),),
        contract(ADAPTIVE, "a"),
    ),
    Mutant(
        "every second round is not charged",
        "B",
        f"{TRAIN}:HomoNNMember.charge_round",
        (("charged = training.charge(", "charged = number % 2 == 1 or training.charge("),),
        contract(SUM, "a"),
    ),
    Mutant(
        "a round that the cap refuses is sent",
        "F",
        f"{ROUNDS}.training:charge",
        (("        return False\n", "        return True\n"),),
        (f"{CHARGES}test_a_round_that_the_cap_refuses_is_not_sent",),
    ),
    Mutant(
        "a party does not hold the guest's noise against what was asked for",
        "F",
        f"{AGREEMENT}:HomoNNConsent.check",
        (("        check_promise(settings, personal, guarantee_of(settings, personal, step), me[1])\n", ""),),
        ("tests/contract/test_lying_guests.py::test_it_is_held_to_the_noise_of_the_job[local]",),
    ),
    Mutant(
        "a party does not compute anew what the guest promises",
        "F",
        f"{AGREEMENT}:HomoNNConsent.check",
        (('        party_tables.check_told({"promise": promise}, agreed)\n', ""),),
        contract(LOCAL, "e"),
    ),
    Mutant(
        "a party does not hold the guest's parameters against its own",
        "F",
        f"{AGREEMENT}:HomoNNConsent.check",
        (('        party_tables.check_parameters(settings.to_json(), agreed["parameters"])\n', ""),),
        contract(LOCAL, "e"),
    ),
    Mutant(
        "the guest does not compare the parties' columns",
        "F",
        f"{AGREEMENT}:check_alike",
        (('    party_tables.check_same_columns({name: theirs["columns"] for name, theirs in facts.items()})\n', ""),),
        (
            "tests/unit/test_homo_nn_policy.py::test_all_parties_have_the_same_columns_in_the_same_order_and_the_same_model",
        ),
    ),
    Mutant(
        "a party does not ask its cap before the first round",
        "F",
        f"{AGREEMENT}:HomoNNConsent.check",
        (("        charges.check(charged_events(settings, personal, step=step))\n", ""),),
        contract(SUM, "d"),
    ),
    Mutant(
        "a record may be longer than the clip",
        "A",
        f"{CLIENT}:Client._clipped",
        (("gradient_sum(weights, clip,", "gradient_sum(weights, 4 * clip,"),),
        contract(SUM, "c"),
    ),
    Mutant(
        "rows report any sensitivity",
        "F",
        f"{CLIENT}:Client._clipped",
        (("return self._within_account(clipped, clip)", "return clipped"),),
        (f"{STEPS}test_rows_that_report_more_sensitivity_than_the_clip_are_refused",),
    ),
    Mutant(
        "a client takes part in every round",
        "A",
        f"{CLIENT}:Client._clipped_update",
        (("poisson_sample(1, terms.sampling_probability, self._stream)", "np.arange(1)"),),
        (f"{STEPS}test_a_client_takes_part_by_a_secret_coin_of_its_own",),
    ),
    Mutant(
        "an update is clipped before it is weighed",
        "A",
        f"{CLIENT}:Client._clipped_update",
        (("* (terms.weight_of(self.position) * terms.clients) / terms.factors", "/ terms.factors"),),
        (f"{STEPS}test_public_weights_weigh_the_update_before_it_is_clipped",),
    ),
    Mutant(
        "the indicator of a private clip has no part in the norm",
        "A",
        f"{CONTRIBUTION}:joint_clip",
        (("clip * math.sqrt(1 + WEIGHT**2 / 4)", "clip"),),
        (f"{STEPS}test_a_record_moves_gradient_and_indicator_together_by_at_most_the_joint_clip",),
    ),
    Mutant(
        "all parties draw their noise from one stream",
        "C",
        f"{CLIENT}:Client.__init__",
        (
            (
                "self._stream = open_stream(rng)",
                'from fate_dp.privacy.noise.stream import KeyedStream\n        self._stream = KeyedStream(bytes(32), "noise")',
            ),
        ),
        contract(LOCAL, "f"),
    ),
    Mutant(
        "a party tells the value of a column that is constant",
        "D",
        f"{AGREEMENT}:check_table",
        (
            (
                "    party_tables.check_labels(frame, settings.classes)\n",
                "    party_tables.check_labels(frame, settings.classes)\n    low, high = party_tables.frames.check_features(frame)\n    if np.array_equal(low, high):\n        "
                + aloud("A column is {high[0]} everywhere.")
                + "\n",
            ),
        ),
        contract(SUM, "d"),
    ),
)
