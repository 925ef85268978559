"""Bytes of all messages of one training of dp_hetero_lr between two data parties: counted from the sizes of its messages.

Sizes follow from public numbers alone, as the protocol has it: ciphertexts are of one width, numbers below a modulus take
its bytes. What frames them on the wire (pickles, names, the broker) is not counted, some 100 bytes a message.
"""

from fate_dp.components.dp_hetero_lr.agreement import JointTable, training_terms
from fate_dp.components.dp_hetero_lr.cross_product.statistics import encrypts
from fate_dp.components.dp_hetero_lr.settings import TrainSettings
from fate_dp.components.protocols.training_terms import Descent
from fate_dp.crypto.modulus_proof import ROOTS, SQUARE_ROOTS
from fate_dp.crypto.paillier import PublicKey
from fate_dp.privacy.flipback import FlipbackSettings

SCORE_BYTES = 2
"""Of a rounded score that is below 2^15 steps, 256 at the default step."""
EPSILON = 1.0


def megabytes(rows: int, features: tuple, epochs: int, key_length: int, flipback: bool) -> float:
    """MB of 10^6 bytes, of a training on standardised features.

    Args:
        features: of guest and host, the guest's intercept not among them.
        flipback: default rounds of flipback, their scores and new targets included; without it none.
    """
    settings = TrainSettings(epochs=epochs, tol=0.0)
    planned = FlipbackSettings().planned_epochs(epochs) if flipback else []
    counts = [features[0] + 1, features[1]]
    terms = training_terms(Descent.of(settings), JointTable(rows, counts, mean_square_bits=1), EPSILON, None, planned)
    key = PublicKey(1 << key_length - 1)
    layout, steps = terms.sums_layout(rows, key), terms.step_layout(key)
    widths, ciphertext, total = [counts[0] + 1, counts[1]], key.ciphertext_bytes, sum(counts)
    encryptor = encrypts(0, 1, widths, layout.slots, bool(planned))
    per_row = layout.plaintexts(widths[encryptor])
    keys = 2 * (key_length // 8 * (1 + ROOTS + SQUARE_ROOTS) + ciphertext)
    products = ciphertext * per_row * (rows + widths[1 - encryptor])
    chunks = -(-epochs // steps.steps)
    answers = total + -(-steps.steps // steps.losses_together)
    prepared = 2 * chunks * ciphertext * (2 * total + answers)
    opened = 2 * epochs * total * _bytes(steps.gradient_bits) + epochs * (4 * total + 1) * _bytes(steps.loss_bits)
    weights = (1 + len(planned)) * total * _bytes(steps.gradient_bits)
    rounds = len(planned) * (SCORE_BYTES * rows + ciphertext * per_row)
    return (keys + products + prepared + opened + weights + rounds) / 1e6


def _bytes(bits: int) -> int:
    return -(-bits // 8)
