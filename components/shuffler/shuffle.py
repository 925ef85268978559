"""The shuffler's part: it sees who sent how many ciphertexts, and hands them on in an order that says nothing.

It waits until the round is complete: what is passed on depends neither on the order in which messages came nor on when.
"""
from typing import List, Sequence

from fate_dp.privacy.mechanisms.permutation import random_permutation

from .messages import InvalidMessage, check_enough


def shuffle(
    ciphertexts: Sequence[bytes], least_messages: int, presumed_dishonest: int = 0, random=None
) -> List[bytes]:
    """All messages of a round in a uniformly random order.

    Args:
        ciphertexts: what arrived from all clients; their contents cannot be read here.
        least_messages: how many messages the guarantee was computed for. Vectors in pieces count with all pieces.
        presumed_dishonest: how many of the messages came from parties that are not counted as honest, since messages
            of parties that collude with the server hide nobody.
        random: a stream; None for the operating system's entropy. From a stream that the server can repeat, the order
            hides nothing.

    Raises:
        TooFewMessages: fewer arrived; nothing is passed on.
        InvalidMessage: ciphertexts differ in size, or one arrived twice; nothing is passed on.
    """
    check_enough(len(ciphertexts), least_messages, presumed_dishonest)
    if len({len(ciphertext) for ciphertext in ciphertexts}) > 1:
        raise InvalidMessage("Messages of this round differ in size; all must have one size, or their senders show.")
    repeated = len(ciphertexts) - len(set(ciphertexts))
    if repeated:
        raise InvalidMessage(f"{repeated} messages of this round arrived twice; every message counts once.")
    return [ciphertexts[at] for at in random_permutation(len(ciphertexts), random).tolist()]
