"""Parameters of label_flip. No FATE in here."""

from dataclasses import dataclass

from fate_dp.privacy.mechanisms.local_numbers import check_bins, check_bounds, piecewise_law
from fate_dp.privacy.validation import check_epsilon

from ..common.parameters import classes, label_source, parameter
from ..common.preflight import Refusal

CLASSES = (0.0, 1.0)


@dataclass(frozen=True)
class Settings:
    """Randomised response on the guest's labels, or unbiased noise on numbers, once per record and epsilon.

    ``label_source`` is the unit of the budget in the guest's ledger. With ``bounds`` labels become noisy, and unbiased, so
    that linear regression (family gaussian) learns from them.
    """

    epsilon: float = parameter(
        "privacy loss of one label in nats, replace-one", check=check_epsilon, note="A finite number greater than 0."
    )
    label_source: str = parameter("namespace/name/column of the labels, the unit of the budget", check=label_source)
    classes: tuple[float, ...] = parameter("all label values that may occur", CLASSES, check=classes)
    bounds: tuple[float, float] | None = parameter(
        "for labels that are numbers: public lower and upper bound, in place of classes; labels become noisy, unbiased",
        None,
        check=check_bounds,
        note="Public lower and upper bound of labels that are numbers.",
    )
    bins: int | None = parameter(
        "with bounds: number of points of the public grid; None means as many as suit epsilon best",
        None,
        check=check_bins,
        note="Bins",
    )

    def __post_init__(self) -> None:
        """Refuse what does not go together: labels are classes or numbers."""
        if self.bounds is not None:
            if tuple(self.classes) != CLASSES:
                raise Refusal(
                    f"classes is {list(self.classes)} and bounds is {list(self.bounds)}; labels are classes or numbers: set one."
                )
            piecewise_law(self.epsilon, self.bounds, self.bins)
        elif self.bins is not None:
            raise Refusal.of("bins", self.bins, "left out without bounds, since bins are grid points within them")
