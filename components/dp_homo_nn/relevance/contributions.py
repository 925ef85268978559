"""Contributions of a model's groups of first-layer weights, and their private release in each trust model.

A record's absolute relevances per group (``first_layer``) are divided by their sum, so that it contributes at most 1 in
l1, hence in l2, in whole steps of 2^-30. The model that is explained must be public (start weights) or private already
(after private rounds): then the record's part of the sum depends on that record alone.

*One party's release* (``local``, and the noise of a trusted party): Laplace noise,
``privacy.adaptive_scales.release_contributions``, epsilon-DP. Every client pays on its own sum; dividing by the records
of all clients and adding up is post-processing, with noise of variance 2 clients / (n epsilon)^2 under add-or-remove.

*One secure sum* (``ContributionSum``): every client adds a discrete Gaussian share, so that the sum, which is all that
anybody sees, carries the noise once. Adding or removing a record moves it by at most 1 in l2; replacing one by at most
sqrt(2), since parts are not negative, and is charged as 2. With ``sampling_probability`` every record takes part by a
secret coin of its own (``poisson_sample``): a tenth of the work, and amplification by sampling pays for the noise.

A record's part is the same to the last bit whoever is beside it: its relevances are (`propagation`), and its sum over
groups is one of whole numbers (`privacy.adaptive_scales.normalised_sums`).
"""
from dataclasses import dataclass, replace
from typing import Optional

import numpy as np
import torch

from fate_dp.components.dp_homo_nn.record_arithmetic import UnsoundArithmetic
from fate_dp.components.dp_homo_nn.relevance.first_layer import first_layer
from fate_dp.components.dp_homo_nn.relevance.propagation import layers_of, relevance
from fate_dp.privacy.accounting.secure_sum import SecureSum, noise_share_sigma, secure_sum_event
from fate_dp.privacy.adaptive_scales import MOST_RECORDS, STEPS_OF_RECORD, InvalidScales, normalised_sums
from fate_dp.privacy.mechanisms.release import Release, event_of
from fate_dp.privacy.noise.discrete_gaussian import discrete_gaussian, discrete_gaussian_slack
from fate_dp.privacy.noise.stream import open_stream
from fate_dp.privacy.number_kinds import is_whole

RECORDS_AT_ONCE = 64


def group_sums(module, features, input_shape=None):
    """Sum over records of their contributions per group of first-layer weights; secret.

    A record with a NaN or an infinity, or without any relevance, contributes zero.

    :param module: the explained model, public or already private; its layers are those of ``propagation``.
    :param features: float array (n, m), as the model takes them; private. No record is fine.
    :param input_shape: shape of one record for a model that does not unflatten its input itself; None for (m,).
    :returns: int64 array (G,), in steps of 2^-30.
    :raises NotExplained: for a model with other layers.
    :raises UnsoundArithmetic: this machine gives a record other bits in company; one sentence.
    """
    layers, groups = layers_of(module), first_layer(module)
    # A saturated unit would hide an infinity.
    features = np.asarray(features, dtype=np.float64)
    rows = features[np.isfinite(features).all(axis=tuple(range(1, features.ndim)))]
    total = np.zeros(groups.groups, dtype=np.int64)
    for start in range(0, len(rows), RECORDS_AT_ONCE):
        block = torch.from_numpy(rows[start : start + RECORDS_AT_ONCE])
        block = block if input_shape is None else block.reshape(len(block), *input_shape)
        if start == 0:
            _check_bits(layers, groups, block.shape[1:])
        total += normalised_sums(groups.parts(relevance(layers, block, groups.at)))
    return total


def _check_bits(layers, groups, shape):
    """Refuse a machine on which the relevances of made-up records depend on their companions."""
    records = torch.rand(3, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    together = groups.parts(relevance(layers, records, groups.at))
    for order in ([2, 0, 1], [1]):
        if not np.array_equal(groups.parts(relevance(layers, records[order], groups.at)), together[order]):
            raise UnsoundArithmetic("relevances")


@dataclass(frozen=True)
class ContributionSum:
    """Public configuration of one secure sum of contributions, over all clients and all their records.

    :param groups: G, length of the sum.
    :param records: n, public; the released mean is the sum divided by the expected number that takes part.
    :param clients: clients that add a share.
    :param tolerated: drop-outs and clients whose shares an observer knows, together; at least 1.
    :param noise_multiplier: sigma over the largest contribution of a record, 1, that the shares have together.
    :param sampling_probability: of each record, by a coin of its own that stays secret; None when all take part.
    """

    groups: int
    records: int
    clients: int
    tolerated: int
    noise_multiplier: float
    sampling_probability: Optional[float] = None

    def __post_init__(self):
        if not is_whole(self.records) or not 1 <= self.records <= MOST_RECORDS:
            raise InvalidScales(f"records is {self.records!r} but must be a whole number from 1 to 2^30.")
        self.secure_sum()

    def secure_sum(self):
        """The ``SecureSum`` on whose event and number of arrivals the guarantee stands; refuses bad fields by name."""
        return SecureSum(
            self.noise_multiplier, self.clients, self.tolerated, self.groups, self.share_sigma_in_steps, 1
        )

    @property
    def share_sigma_in_steps(self):
        """Standard deviation of one client's noise, in steps of 2^-30."""
        return noise_share_sigma(self.noise_multiplier, STEPS_OF_RECORD, self.clients, self.tolerated)

    def event(self, relation, observers=("client", "model", "server")):
        """What the opened sum costs each record, the error of the sampler included; once per run."""
        event = secure_sum_event(self.secure_sum(), "record", relation, self.sampling_probability, observers)
        sampler = self.clients * self.groups * discrete_gaussian_slack(self.share_sigma_in_steps)
        return replace(event, slack=min(1.0, event.slack + sampler))

    def share(self, sums, relation, observers=("client", "model", "server"), random=None):
        """One client's sum with its noise, to be masked: ``Release`` of an int64 array (G,).

        It may leave the client only as a term of the secure sum, whose cost its event states.

        :param sums: int64 array (G,) from ``group_sums`` over the client's records; secret.
        :param random: a stream; None for the operating system's entropy.
        """
        sums = np.asarray(sums)
        if sums.shape != (self.groups,) or sums.dtype != np.int64:
            raise InvalidScales(f"sums have shape {sums.shape} but must be {self.groups} whole numbers, one per group.")
        stream, event = open_stream(random), self.event(relation, observers)
        noise = discrete_gaussian(self.share_sigma_in_steps, sums.shape, stream)
        charged = event_of(
            event.process, stream, unit="record", relation=relation, observers=observers, slack=event.slack
        )
        return Release(sums + noise, charged)

    def mean(self, total):
        """The released mean contributions, float64 (G,), from the opened sum of all shares (int64)."""
        expected = self.records * (1 if self.sampling_probability is None else self.sampling_probability)
        return np.asarray(total, dtype=np.int64) / (expected * STEPS_OF_RECORD)
