"""From how many clients on shuffling pays: the error that each trust model adds to a round's mean, at equal privacy.

Compared at one (epsilon, delta) under replace-one, the only relation that all three have an account for, with the same
records per client, the same share of all records per round, and the same rounds. The error is the root of the expected
squared l2 distance to the mean gradient without noise, in units of the clip C, with all clients present. B is the expected
batch, d the dimension, n the clients, t the tolerated ones:

- ``local``: z C sqrt(n d) / B, z the multiplier of each client's own noise;
- ``secure_sum``: z C sqrt(d n / (n - t)) / B, z that of the sum's noise;
- ``shuffle``: at most the norm of one answer over the root of the number of messages, ``duchi_norm`` / sqrt(B): an answer
  of mean x and norm L has variance L^2 - |x|^2, and x is at most C, small beside L.

At fixed records per client the errors of ``local`` and of ``shuffle`` both fall with 1 / sqrt(n), and shuffling gains only
through the larger epsilon0 that more messages allow, up to answers of length C sqrt(pi d / 2) without privacy. So with many
records per client, which ``local`` adds up before it adds noise once, shuffling may never pay. Where it pays from the
first, that is Duchi's sampler being better than Gaussian noise on a single record, not amplification.
"""

from __future__ import annotations

import math
from dataclasses import replace

from fate_dp.components.protocols.noisy_rounds.account import calibrate_terms, scheduled_messages
from fate_dp.components.protocols.noisy_rounds.terms import (
    AGGREGATIONS,
    LOCAL,
    SECURE_SUM,
    SHUFFLE,
    InvalidTerms,
    RoundTerms,
)
from fate_dp.privacy.events import REPLACE_ONE
from fate_dp.privacy.mechanisms.clipping import MAX_RECORDS
from fate_dp.privacy.mechanisms.local_numbers import duchi_norm

# Relative: how far above the first number of clients at which shuffling pays the one found may lie.
PRECISION = 0.02
STRIDE = 4
NO_PRIVACY = 300.0


def mean_error(terms: RoundTerms) -> float:
    """Root-mean-square l2 error that the noise adds to the mean of the first round, in units of its clip."""
    noise = terms.epsilon0 if terms.aggregation == SHUFFLE else terms.noise_multiplier
    if noise is None:
        raise InvalidTerms(
            f"epsilon0 or noise_multiplier must be given, or calibrated, in aggregation {terms.aggregation}."
        )
    if terms.aggregation == SHUFFLE:
        return duchi_norm(terms.dimension, 1.0, noise) / math.sqrt(scheduled_messages(terms, 0))
    copies = terms.clients if terms.aggregation == LOCAL else terms.clients / (terms.clients - terms.max_dropouts)
    return noise * math.sqrt(copies * terms.dimension) / terms.batch_size


def with_clients(terms: RoundTerms, clients: int) -> RoundTerms:
    """The same terms for another number of clients with as many records each and the same share of them per round."""
    records = round(terms.records / terms.clients * clients)
    return replace(
        terms,
        clients=clients,
        records=records,
        batch_size=terms.sampling_probability * records,
        client_records=None,
        client_weights=None,
        scales=None,
    )


def error_at(terms: RoundTerms, trust: str, epsilon: float, delta: float, clients: int) -> float:
    """``mean_error`` of a trust model with calibrated noise; infinite where it has too few clients for any account."""
    try:
        plain = _plain(with_clients(terms, clients), trust)
        return mean_error(calibrate_terms(plain, epsilon, delta, REPLACE_ONE))
    except InvalidTerms:
        return math.inf


def errors_at(terms: RoundTerms, epsilon: float, delta: float, clients: int) -> dict[str, float]:
    """{trust: error} of all three trust models."""
    return {trust: error_at(terms, trust, epsilon, delta, clients) for trust in AGGREGATIONS}


def shuffling_pays_from(
    terms: RoundTerms, epsilon: float, delta: float, most_clients: int = 10**6, against: str = LOCAL
) -> int | None:
    """The number of clients from which on ``shuffle`` has the smaller error.

    None if there is none up to ``most_clients``, or up to 2^27 records altogether.

    At most 2 % above the first such number, if the errors cross once: the search tries numbers by factors of 4 and
    narrows the first interval at whose upper end shuffling pays.

    Args:
        terms: unit ``record``; its numbers of clients and records give the records per client.
        against: ``local`` or ``secure_sum``.
    """
    if against not in (LOCAL, SECURE_SUM):
        raise InvalidTerms(f"against must be {LOCAL} or {SECURE_SUM}, got {against!r}.")

    # Noise that each client needs for its own records does not depend on how many clients there are.
    multiplier = calibrate_terms(_plain(terms, LOCAL), epsilon, delta, REPLACE_ONE).noise_multiplier

    def other_error(clients: int) -> float:
        if against == SECURE_SUM:
            return error_at(terms, SECURE_SUM, epsilon, delta, clients)
        return mean_error(replace(_plain(with_clients(terms, clients), LOCAL), noise_multiplier=multiplier))

    def pays(clients: int) -> bool:
        # Even answers without any privacy are this long.
        least_private = replace(_plain(with_clients(terms, clients), SHUFFLE), epsilon0=NO_PRIVACY)
        if mean_error(least_private) > other_error(clients):
            return False
        return error_at(terms, SHUFFLE, epsilon, delta, clients) <= other_error(clients) < math.inf

    fewest = max(2, terms.max_dropouts + 1)
    most_clients = max(fewest, min(most_clients, int(MAX_RECORDS * terms.clients / terms.records)))
    below, enough = None, fewest
    while not pays(enough):
        if enough == most_clients:
            return None
        below, enough = enough, min(enough * STRIDE, most_clients)
    while below is not None and enough - below > max(1, PRECISION * below):
        middle = round(math.sqrt(below * enough))
        middle = min(max(middle, below + 1), enough - 1)
        if pays(middle):
            enough = middle
        else:
            below = middle
    return enough


def _plain(terms: RoundTerms, trust: str) -> RoundTerms:
    return replace(terms, aggregation=trust, noise_multiplier=None, epsilon0=None, scales=None)
