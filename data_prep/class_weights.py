"""Weights that balance classes without looking at anybody's labels: the private route, `class_weights` of dp_homo_nn.

Counts of a party's own labels would be a release from its data. A public prior, such as a published default rate, is
none; and as no weight exceeds a public maximum, nobody's influence on a loss grows beyond what the maximum says.
"""

from collections.abc import Iterable, Mapping

from fate_dp.privacy.validation import InvalidArgument, positive


def weights_of_classes(probabilities: Iterable[float], maximum: float) -> tuple[float, ...]:
    """Weight of each class, min(maximum, 1 / (classes * its public probability)), in their order.

    Under the prior and without a cap each class has the same total weight, and the mean weight is 1. Multiply gradients
    by weights *before* clipping: a record's contribution then still ends within the clip; weights after it would raise
    the sensitivity `maximum`-fold. Divide the sum by a public number, never by the weights' total, which depends on all
    labels.
    """
    probabilities = tuple(probabilities)
    return tuple(min(maximum, 1 / (len(probabilities) * probability)) for probability in probabilities)


def check_prior(prior: Mapping, maximum: float) -> None:
    """Two classes or more, probabilities above 0 that add to 1 within 1e-9, and a maximum above 0."""
    if len(prior) < 2:
        raise InvalidArgument.of("number of classes of the prior", len(prior), "at least 2")
    for value, probability in prior.items():
        positive(f"prior of class {value}", probability)
    if abs(sum(prior.values()) - 1) > 1e-9:
        raise InvalidArgument(f"sum of the prior must be 1, got {sum(prior.values()):.10g}.")
    positive("maximum", maximum)
