"""What one training of solver cross_product sends between two data parties, from public numbers alone: bytes and delays.

Sizes follow from the protocol: ciphertexts are of one width, numbers below a modulus take its bytes. What frames them on
the wire (names, the broker) is not counted, some 100 bytes a message.
"""

from collections.abc import Collection
from dataclasses import dataclass

from fate_dp.crypto.modulus_proof import ROOTS, SQUARE_ROOTS
from fate_dp.crypto.paillier import PublicKey

from .agreement import JointTable, training_terms
from .cross_product.statistics import encrypts
from .settings import TrainSettings

SCORE_BYTES = 2
"""Of a rounded score that is below 2^15 steps, 256 at the default step."""
EPSILON = 1.0
"""The default penalty follows from it, and no size does."""


@dataclass(frozen=True)
class Traffic:
    """Bytes of all messages both ways, and messages that wait for one another: so often the line's delay passes."""

    bytes: int
    delays: int

    def seconds(self, delay: float, rate: float) -> float:
        """What waiting for the line takes at most, computing aside; ``delay`` in seconds each way, ``rate`` in bits a second."""
        if not delay >= 0:
            raise ValueError(f"delay must be a number of seconds, at least 0, got {delay!r}.")
        if not rate > 0:
            raise ValueError(f"rate must be a number of bits a second above 0, got {rate!r}.")
        return self.delays * delay + 8 * self.bytes / rate


def traffic(rows: int, features: tuple[int, int], settings: TrainSettings, flipback: bool = False) -> Traffic:
    """Traffic of all epochs of ``settings`` on standardised features, all rows in one batch.

    ``features`` are of guest and host, without the guest's intercept; with ``flipback`` the planned rounds of it count.
    """
    epochs, key_length = settings.epochs, settings.he_param["key_length"]
    planned = settings.flipback.planned_epochs(epochs) if flipback else []
    counts = [features[0] + int(settings.init_param["fit_intercept"]), features[1]]
    table = JointTable(rows, counts, mean_square_bits=1)
    terms = training_terms(settings.descent(), table, EPSILON, None, planned)
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
    line = _Line()
    line.before_epochs(guest_encrypts=encryptor == 0)
    line.epochs(epochs, steps.steps, planned, terms.pace(terms.learning_rates()).lags)
    return Traffic(keys + products + prepared + opened + weights + rounds, max(line.guest, line.host))


@dataclass
class _Line:
    """How many messages, one after the other, each of two parties waited for: it sends its next one when it has those."""

    guest: int = 0
    host: int = 0

    def to_guest(self) -> None:
        self.guest = max(self.guest, self.host + 1)

    def to_host(self) -> None:
        self.host = max(self.host, self.guest + 1)

    def swap(self) -> None:
        """One message each way, neither of which waits for the other."""
        self.guest, self.host = max(self.guest, self.host + 1), max(self.host, self.guest + 1)

    def before_epochs(self, guest_encrypts: bool) -> None:
        """Greetings, facts and verdict, keys, encrypted rows and their masked products."""
        self.swap()
        self.to_guest()
        self.to_host()
        self.swap()
        rows, products = (self.to_host, self.to_guest) if guest_encrypts else (self.to_guest, self.to_host)
        rows()
        products()

    def epochs(self, epochs: int, prepared: int, rounds: Collection[int], lags: bool) -> None:
        """All steps, ``prepared`` of them at a time, the rounds of flipback, and the weights at the end.

        The guest's word on all steps comes before other messages than those of the next step, and after every step where
        it may not lag.
        """
        unsaid = 0
        for epoch in range(epochs):
            if epoch in rounds:
                if epoch:
                    self.swap()  # Own weights.
                self.to_guest()  # Scores.
                self.to_host()  # The products of new targets.
            if epoch % prepared == 0:
                self.swap()  # Masks.
                self.swap()  # Their products.
            self.swap()
            unsaid += 1
            if not lags or (epoch + 1) % prepared == 0 or epoch + 1 in rounds or epoch + 1 == epochs:
                self._settle(unsaid)
                unsaid = 0
        self.swap()

    def _settle(self, unsaid: int) -> None:
        """Hidden losses, the host's share of the loss, the guest's word on the last step and on the one before."""
        self.swap()
        if unsaid > 1:
            self.swap()
        else:
            self.to_guest()
        self.to_host()


def _bytes(bits: int) -> int:
    return -(-bits // 8)
