"""Epsilon of training with Gaussian noise on Poisson-sampled batches: the figure that DP-SGD papers report.

Each step, every unit takes part by an independent coin of ``sampling_probability``, contributes a vector clipped to
norm C, and N(0, (noise_multiplier C)^2) is added to the sum. Batches cut by a shuffled loader are *not* this mechanism.
"""
from fate_dp.privacy import events
from fate_dp.privacy.accounting.accountant import check_count, make_accountant


def subsampled_gaussian_epsilon(
    sampling_probability, noise_multiplier, steps, delta, accountant="pld", relation=events.ADD_OR_REMOVE
):
    """Upper bound of epsilon (nats) after ``steps`` steps at ``delta``; infinite where none is known.

    With ``sampling_probability`` 1 nothing is sampled, and the ``pld`` accountant answers exactly.

    :param sampling_probability: greater than 0 and at most 1.
    :param noise_multiplier: sigma over the *clip*, whatever the relation.
    :param steps: whole number of at least 1.
    :param delta: strictly between 0 and 1.
    :param accountant: ``pld`` (tight) or ``rdp``.
    :param relation: ``add_or_remove`` with a public normaliser, or ``replace_one`` (about twice the epsilon; the bound
        of ``rdp`` is loose there).
    :raises InvalidEvent, InvalidCount, InvalidDelta, InvalidAccountant: one sentence on what is wrong.
    """
    composed = make_accountant(accountant, relation)
    step = subsampled_gaussian_event(sampling_probability, noise_multiplier, relation)
    composed.compose(step, check_count("steps", steps))
    return composed.epsilon(delta)


def subsampled_gaussian_event(sampling_probability, noise_multiplier, relation, unit="record", observers="model"):
    """One step as an event; the epsilon of the step depends on neither unit nor observers."""
    process = events.PoissonSampledGaussian(sampling_probability, noise_multiplier)
    return events.Event(process, unit, relation, observers)
