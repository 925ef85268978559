"""Names of records and of dummies, as they are hashed: a dummy's name is no record's. No FATE in here.

There are two public pools of K dummies. Each party brings the whole pool of the other, and of its own a secret number
d, from 0 to K: so d of them match. In place of the rest of its own pool it brings fillers, which the other never has,
since the size of its table would otherwise tell d: it is the number of its records plus 2 K.
"""
OTHER = {"guest": "host", "host": "guest"}


def record_name(match_id: str) -> str:
    return f"record {match_id}"


def dummy_names(role: str, number: int, pool: int) -> list:
    """The 2 K dummies that a party brings.

    Args:
        role: the party's, 'guest' or 'host'.
        number: d; secret.
        pool: K; public.
    """
    own = [_dummy(role, at) if at < number else f"filler {role} {at}" for at in range(pool)]
    return own + [_dummy(OTHER[role], at) for at in range(pool)]


def _dummy(role, at):
    return f"dummy {role} {at}"
