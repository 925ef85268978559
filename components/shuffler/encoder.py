"""A client's part: payloads become sealed messages that only the server can read."""
from typing import List, Optional, Sequence

from fate_dp.crypto.key_agreement import check_public_key
from fate_dp.crypto.sealed_box import seal_all

from .messages import MessageFormat, Piece, label_of


class Encoder:
    """Seals the messages of one round.

    Args:
        server_key: the server's public key, 32 bytes.
        round_number: from 0.
        payload_bytes: size of the largest payload, public and the same for all clients.
        session: name of the job, the same at the server.
        threads: None for as many as this process has cores.

    Raises:
        InvalidPublicKey, ValueError: one sentence on what is wrong.
    """

    def __init__(
        self,
        server_key: bytes,
        round_number: int,
        payload_bytes: int,
        session: str = "",
        threads: Optional[int] = None,
    ):
        self.format = MessageFormat(payload_bytes)
        self._server_key = check_public_key(server_key, "the server")
        self._label, self._threads = label_of(session, round_number), threads

    def encode(self, payloads: Sequence[bytes]) -> List[bytes]:
        """A ciphertext of `MessageFormat.ciphertext_bytes` for each payload; private until sealed.

        Raises:
            InvalidMessage: a payload is too long.
        """
        return self.encode_pieces([Piece(0, payload) for payload in payloads])

    def encode_pieces(self, pieces: Sequence[Piece]) -> List[bytes]:
        """The same for pieces of vectors (`splitting.Splitting.pieces`)."""
        return seal_all(self.format.contents(pieces), self._server_key, self._label, self._threads)
