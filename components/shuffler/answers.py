"""A party's answers to one request, made and sealed block by block.

An engine such as Spark may compute a block twice. The coins of a block are therefore a function of a key that the party
draws once per task, of the request and of the block: a record never answers one request in two ways. What is
sealed twice differs, but holds the same answers, and only one of the two is sent.
"""
from functools import partial

import numpy as np

from fate_dp.components.common.frames import feature_blocks
from fate_dp.privacy.mechanisms.grid_randomized_response import grid_randomized_response
from fate_dp.privacy.noise.stream import KeyedStream

from .account import OBSERVERS
from .encoder import Encoder
from .messages import MessageFormat

ANSWER_BYTES = 2
MESSAGE_BYTES = MessageFormat(ANSWER_BYTES).ciphertext_bytes


def sealed_answers(frame, request, number, epsilon0, server_key, session, key) -> list:
    """The party's ciphertexts for request ``number``: one of ``MESSAGE_BYTES`` per record, on the driver.

    :param server_key: the server's public key.
    :param session: name of the task, the same at all parties.
    :param key: 32 secret bytes, drawn for this task.
    """
    kernel = partial(
        _sealed_block, request=request, number=number, epsilon0=epsilon0, server_key=server_key, session=session,
        key=key,
    )  # fmt: skip
    blocks = feature_blocks(frame[[request.column]]).map(kernel).collect()
    return [ciphertext for _, block in sorted(blocks) for ciphertext in block]


def payloads_of(answers) -> list:
    """Indices (n,) of a grid as bytes of one size."""
    return [int(answer).to_bytes(ANSWER_BYTES, "big") for answer in answers]


def answers_of(payloads, request) -> np.ndarray:
    """Indices (n,) from what the server opened.

    Raises:
        ValueError: a payload is no answer to the request.
    """
    if any(len(payload) != ANSWER_BYTES for payload in payloads):
        raise ValueError(f"A message about the {request.name} does not hold {ANSWER_BYTES} bytes.")
    answers = np.frombuffer(b"".join(payloads), dtype=f">u{ANSWER_BYTES}").astype(np.int64)
    if (answers >= len(request.grid)).any():
        raise ValueError(f"A message about the {request.name} is no point of its grid.")
    return answers


def _sealed_block(block, values, request, number, epsilon0, server_key, session, key):
    answers = randomized_block(block, values[:, 0], request, number, epsilon0, key)
    return block, Encoder(server_key, number, ANSWER_BYTES, session).encode(payloads_of(answers))


def randomized_block(block, values, request, number, epsilon0, key) -> np.ndarray:
    """Indices of the request's grid, one per value of the block; the same call gives the same ones."""
    stream = KeyedStream(key, f"shuffler request {number} block {block}")
    return grid_randomized_response(
        request.on_grid(values), request.grid, epsilon0, observers=OBSERVERS, random=stream
    ).value
