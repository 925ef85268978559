"""The server's part: it opens the shuffled messages and learns what was sent, not by whom."""
from typing import List, Optional, Sequence

from fate_dp.crypto.sealed_box import BoxKey

from .messages import InvalidMessage, MessageFormat, Piece, check_enough, check_least, label_of


class Analyzer:
    """Opens each round once; a refused round gives no payload at all.

    Whoever spoils one message spoils the round (parties are semi-honest). A refusal counts wrong messages and never
    points at one.

    Args:
        private_key: the server's key pair, made for this session.
        payload_bytes: as at the clients (`Encoder`).
        least_messages: fewer are refused; vectors in pieces count with all pieces.
        session: name of the job, as at the clients.
        threads: None for as many as this process has cores.
    """

    def __init__(
        self,
        private_key: BoxKey,
        payload_bytes: int,
        least_messages: int,
        session: str = "",
        threads: Optional[int] = None,
    ):
        check_least(least_messages)
        self.format, self.least_messages = MessageFormat(payload_bytes), least_messages
        self._key, self._session, self._threads = private_key, session, threads
        self._opened_rounds: set = set()

    @property
    def public_key(self) -> bytes:
        """32 bytes that clients seal to."""
        return self._key.public_bytes

    def open(self, ciphertexts: Sequence[bytes], round_number: int) -> List[bytes]:
        """The payloads of a round, in the order of the shuffler.

        Raises:
            InvalidMessage: the round was opened before, a message is a duplicate, malformed, or a piece of a vector.
            TooFewMessages: fewer than ``least_messages`` arrived.
            InvalidBox: a message has another size, was sealed to another key, or is of another round or session.
        """
        pieces = self.open_pieces(ciphertexts, round_number)
        if any(piece.position for piece in pieces):
            raise InvalidMessage("Messages hold pieces of vectors where whole payloads were expected (split: none).")
        return [piece.payload for piece in pieces]

    def open_pieces(self, ciphertexts: Sequence[bytes], round_number: int) -> List[Piece]:
        """The same for pieces of vectors, to be added by `splitting.Splitting.sum_of`."""
        label = label_of(self._session, round_number)
        if round_number in self._opened_rounds:
            raise InvalidMessage(f"Round {round_number} was opened before; every round is opened once.")
        check_enough(len(ciphertexts), self.least_messages)
        contents = self._key.open_all(ciphertexts, label, self.format.content_bytes, self._threads)
        pieces = self.format.pieces(contents)
        self._opened_rounds.add(round_number)
        return pieces
