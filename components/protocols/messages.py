"""Messages that several components exchange, as `common.wire.kinds` reads them; each component takes those of its protocols."""

from ..common.wire.kinds import DOCUMENT, Bytes, Flag, Int, List, Messages, Record, Rows, Text, Tuple, optional

LONG_INT = Int(1 << 14)
"""Shares, which are below a Paillier modulus."""
CIPHERTEXT = Bytes(1 << 12)
BLOCK = Bytes(1 << 30)
"""The ciphertexts of a block of rows, one after the other."""
MANY = 1 << 20
"""Batches, columns, rounds or parties."""

AGREEMENT: Messages = {
    "preflight": Record({"facts": optional(DOCUMENT), "problem": optional(Text(1 << 16)), "plugin": Text(100)}),
    "verdict": Record({"problem": optional(Text(1 << 16)), "terms": optional(DOCUMENT)}),
}
"""Before every task, and between the steps of some."""

PAILLIER_KEY: Messages = {
    "public_key": Record({"n": LONG_INT, "blinding_base": optional(Int(1 << 15)), "proof": Bytes(1 << 17)})
}

FOLDS: Messages = {
    name: Rows(Tuple((Int(64), Int(64))), keys=Text(1 << 12)) for name in ("training_rows", "held_out_rows")
}
"""Sample ids, with their places in the guest's part."""

SHARED_DESCENT: Messages = {
    **PAILLIER_KEY,
    # To show losses, or parts of scores.
    "consent": Flag(),
    "all_consent": Flag(),
    "masks": List(Record({"weights": BLOCK, "left": BLOCK}), MANY),
    "products": List(Record({"weights": BLOCK, "inner": BLOCK}), MANY),
    "step": Record(
        {
            "hidden_weights": List(LONG_INT, MANY),
            "hidden_losses": List(List(LONG_INT, MANY), MANY),
            "loss_shares": List(LONG_INT, MANY),
            "training_state": optional(Text(20)),
        }
    ),
    "leading_bits": List(LONG_INT, MANY),
    "weight_shares": List(LONG_INT, MANY),
}
"""Trainings whose weights stay shared, of `shared_descent`."""

NOISY_ROUNDS: Messages = {
    "ready": Flag(),
    "present": List(Text(200), 1 << 14),
    "message": BLOCK,
    "shuffled": BLOCK,
    "public_key": Bytes(32),
    "server_key": Bytes(32),
}
"""Rounds of a horizontal training, of `noisy_rounds`."""
