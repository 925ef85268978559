"""shuffler: sealed answers by randomised response."""

from ..planting import Mutant, aloud, contract

CASE = "shuffler / default / epsilon0, three requests"
RUN, STATISTICS = "components.shuffler.run", "components.shuffler.statistics"
RECORDED = "        for purpose, event in events:\n            charges.record([(event, 1)], purpose)\n"
SENT = '            self.party(SENDING, self.federation.shuffler).put(messages_about(number), b"".join(sealed))\n'

MUTANTS = (
    Mutant(
        "shuffler sends answers before they are charged",
        "E",
        f"{RUN}:Client.run",
        ((RECORDED, ""), (SENT, SENT + RECORDED)),
        contract(CASE, "b"),
        patch="sh2_sent_before_charged",
    ),
    Mutant(
        "shuffler answers at twice the epsilon0 that is charged",
        "A",
        f"{RUN}:randomized_block",
        (("request.grid, epsilon0, observers", "request.grid, 2 * epsilon0, observers"),),
        contract(CASE, "a"),
    ),
    Mutant(
        "shuffler charges the first request alone",
        "B",
        f"{RUN}:Client.run",
        (("for purpose, event in events:", "for purpose, event in events[:1]:"),),
        contract(CASE, "a"),
    ),
    Mutant(
        "shuffler counts on twice the messages that it asks for",
        "A",
        f"{STATISTICS}:events_of",
        (
            (
                "Shuffled(epsilon0, min_messages, request.randomizer)",
                "Shuffled(epsilon0, 2 * min_messages, request.randomizer)",
            ),
        ),
        contract(CASE, "a"),
    ),
    Mutant(
        "shuffler takes every answer for one among two",
        "B",
        f"{STATISTICS}:events_of",
        (("request.randomizer)", "requests[0].randomizer)"),),
        contract(CASE, "a"),
    ),
    Mutant(
        "shuffler gives all blocks of a request one stream of coins",
        "C",
        f"{RUN}:randomized_block",
        ((" block {block}", ""),),
        contract(CASE, "f"),
    ),
    Mutant(
        "shuffler gives all requests one stream of coins",
        "C",
        f"{RUN}:randomized_block",
        (("shuffler request {number} block", "shuffler block"),),
        contract(CASE, "f"),
    ),
    Mutant(
        "shuffler draws coins with a key that everybody knows",
        "C",
        f"{RUN}:Client.run",
        (("secrets.token_bytes(KEY_BYTES)", "bytes(KEY_BYTES)"),),
        contract(CASE, "f"),
    ),
    Mutant(
        "a shuffler's client takes any terms of the guest",
        "F",
        f"{RUN}:Client.run",
        (("            check_promise(self.terms, settings)\n", ""),),
        contract(CASE, "e"),
    ),
    Mutant(
        "the host that shuffles takes any terms of the guest",
        "F",
        f"{RUN}:Shuffler._counted",
        (("        check_promise(self.terms, self.settings)\n", ""),),
        contract(CASE, "e"),
    ),
    Mutant(
        "the shuffler's server takes any terms of the guest",
        "F",
        f"{RUN}:Server.run",
        (("lambda: check_promise(self.terms, self.settings)", "dict"),),
        contract(CASE, "e"),
    ),
    Mutant(
        "shuffler does not ask whether enough records hide each other",
        "F",
        f"{RUN}:Shuffler._counted",
        (("        check_records(records, self.settings.min_messages)\n", ""),),
        contract(CASE, "d"),
    ),
    Mutant(
        "shuffler refuses a value outside the declared range",
        "D",
        f"{RUN}:check_table",
        (
            (
                "    require_distinct_ids(frame)\n",
                "    require_distinct_ids(frame)\n    for _, block in feature_blocks(frame).collect():\n        if not (abs(block) < 1e6).all():\n"
                + "            "
                + aloud("A value lies outside its range.")
                + "\n",
            ),
        ),
        contract(CASE, "d"),
    ),
    Mutant(
        "shuffler does not ask a client's cap before it announces records",
        "F",
        f"{RUN}:Client.run",
        (("            charges.check([(event, 1) for _, event in events])\n", ""),),
        contract(CASE, "d"),
    ),
)
