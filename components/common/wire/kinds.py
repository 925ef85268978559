"""Every name that a message of ours can have, and what comes under it; anything else is refused before it is looked at.

A kind is a type, None, ``[kind]`` (a list of such), ``{key: kind}`` (a dict with these keys), or `Rows`. Several kinds
under one name are different components' messages. Shapes, lengths and values are checked by whoever reads a message.
"""
import re
from dataclasses import dataclass
from typing import Optional

import numpy as np

_NUMBERED = re.compile(r"_\d+$")


@dataclass(frozen=True)
class Rows:
    """A table whose values are of this kind."""

    values: object


KINDS = {
    # Before a task, and between its steps.
    "asks": (bool,),
    "preflight": ({"facts": (dict, None), "problem": (str, None), "plugin": str},),
    "verdict": ({"problem": (str, None), "terms": (dict, None)},),
    # dp_hetero_lr, align, share_lr.
    "public_key": (dict, bytes),
    "terms": (dict,),
    "mean_square_bits": (int,),
    "training_state": (str,),
    "training_rows": (Rows(tuple),),
    "held_out_rows": (Rows(tuple),),
    "encrypted_rows": (Rows(bytes),),
    "masked_products": ([[bytes]], [bytes]),
    "masks": ([dict],),
    "products": ([dict],),
    "hidden_weights": ([int],),
    "hidden_losses": ([[int]],),
    "leading_bits": ([int],),
    "loss_shares": ([int],),
    "weight_shares": ([int],),
    "scores": (Rows(np.ndarray),),
    "consent": (bool,),
    "all_consent": (bool,),
    "encrypted_scores": (Rows(bytes),),
    "decrypted": ([bytes],),
    "weight_change": (float,),
    "loss_part": (bytes,),
    "queries": (Rows(bytes),),
    "answers": (Rows(bytes),),
    "records": (Rows(bytes), int),
    "double_tags": (Rows(int),),
    "masked": (Rows(bytes), [bytes]),
    "label_excess": (int,),
    "encrypted_columns": (Rows(bytes),),
    "masked_scores": (Rows([bytes]),),
    "score_shares": (Rows(np.ndarray),),
    "label_shares": (Rows(np.ndarray),),
    # dp_homo_nn, shuffler.
    "start_weights": (np.ndarray,),
    "round": (dict,),
    "ready": (bool,),
    "present": ([str],),
    "message": (bytes,),
    "contributions": (np.ndarray, None),
    "scales": ([float],),
    "outcome": (dict,),
    "shuffled": (bytes,),
    "server_key": (bytes,),
    "messages": (bytes,),
    "statistics": (list, dict),
}


def kinds_of(name: str) -> Optional[tuple]:
    """The kinds under a name, None where it is no name of ours; ``messages_7`` is one of the messages."""
    return KINDS.get(name, KINDS.get(_NUMBERED.sub("", name)))


def is_one_of(value, kinds: tuple) -> bool:
    """Whether a plain value is of one of these kinds."""
    return any(_is(value, kind) for kind in kinds)


def rows_of(kinds: tuple) -> tuple:
    """Kinds that the values of a table can have, none where no table is among ``kinds``."""
    return tuple(kind.values for kind in kinds if isinstance(kind, Rows))


def _is(value, kind) -> bool:
    if isinstance(kind, tuple):
        return is_one_of(value, kind)
    if isinstance(kind, list):
        return type(value) is list and all(_is(item, kind[0]) for item in value)
    if isinstance(kind, dict):
        return type(value) is dict and value.keys() == kind.keys() and all(_is(value[key], kind[key]) for key in kind)
    if kind is None:
        return value is None
    return type(value) is kind
