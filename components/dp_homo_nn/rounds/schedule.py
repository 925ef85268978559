"""Which record sends its message in which round of trust ``shuffle``: once per epoch, in secret order.

An epoch has P = ceil(records / batch_size) rounds. All records have public places 0 .. records - 1, client by client;
which of a client's records stands at which of its places is a permutation that the client draws anew for every epoch
and keeps. The record at place i sends in the epoch's round i mod P. So the number of messages of a round and of a
client is public, differs by at most 1 from round to round, and does not depend on the data under replace-one; and a
replaced record changes one message in one round of every epoch, whatever the permutations are (they do not depend on
the records, and a mixture over them is no worse than its worst case).

**Honest messages.** Messages of a client that colludes with an observer hide nobody, those of a client that drops out
do not come. With c colluding of t tolerated clients, whose messages in a round are at most m_1 >= m_2 >= ...,
``honest_messages`` = floor(records / P) - (m_1 + .. + m_{t-c}) - (m_1 + .. + m_c), and a round with fewer than
``least_messages`` = honest_messages + (m_1 + .. + m_c) ends at the shuffler, before anything is passed on.
"""
import math

import numpy as np

from fate_dp.privacy.number_kinds import is_whole

from .terms import InvalidTerms


def rounds_per_epoch(terms):
    """P, at least 1."""
    # A quotient that rounding put just above a whole number stands for that number.
    return max(1, math.ceil(terms.records / terms.batch_size * (1 - 1e-12)))


def epochs_of(terms, rounds):
    """In how many rounds one record sends at most.

    :param rounds: a number of rounds, the first ones; or the numbers (from 0) of the rounds that ran, of which several
        may lie in one epoch, or two in two.
    """
    if is_whole(rounds):
        return -(-rounds // rounds_per_epoch(terms))
    return len({number // rounds_per_epoch(terms) for number in rounds})


def client_sizes(terms):
    """Records of each client: the public numbers, or as equal ones as possible."""
    if terms.client_records is not None:
        return terms.client_records
    share, rest = divmod(terms.records, terms.clients)
    return tuple(share + (position < rest) for position in range(terms.clients))


def senders(terms, position, round_number):
    """Places, within the client at ``position``, of the records that send in a round: int64 array."""
    sizes, period = client_sizes(terms), rounds_per_epoch(terms)
    first = (round_number - sum(sizes[:position])) % period
    return np.arange(first, sizes[position], period, dtype=np.int64)


def scheduled_messages(terms, round_number):
    """Messages of all clients in a round if none is missing."""
    period = rounds_per_epoch(terms)
    return len(range(round_number % period, terms.records, period))


def honest_messages(terms):
    """The least number of honest messages of any round that is passed on.

    :raises InvalidTerms: when it is below 1.
    """
    dropping = _most_messages(terms, terms.tolerated - terms.colluding)
    messages = terms.records // rounds_per_epoch(terms) - dropping - _most_messages(terms, terms.colluding)
    if messages < 1:
        raise InvalidTerms(
            f"batch_size is {terms.batch_size:g}, but of so few messages in a round none may be left that is honest "
            f"once {terms.tolerated} of {terms.clients} clients are missing or collude; raise batch_size, or lower "
            "tolerated."
        )
    return messages


def least_messages(terms):
    """The number of messages below which a round ends at the shuffler."""
    return honest_messages(terms) + _most_messages(terms, terms.colluding)


def _most_messages(terms, clients):
    """The most messages that so many clients send in one round together."""
    period = rounds_per_epoch(terms)
    return sum(sorted((-(-size // period) for size in client_sizes(terms)), reverse=True)[:clients])
