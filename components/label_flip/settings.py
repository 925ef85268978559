"""Public configuration of label_flip, checked. No FATE in here: the client checks with it before submission."""
from typing import Optional, Tuple

from fate_dp.privacy.mechanisms.piecewise import check_bounds, piecewise_law

CLASSES = (0.0, 1.0)


def bounds(value) -> Tuple[float, float]:
    """Public lower and upper bound of labels that are numbers."""
    return check_bounds(value)


def check_together(epsilon: float, classes: Tuple[float, ...], bounds: Optional[tuple], bins: Optional[int]) -> None:
    """Refuse what does not go together: labels are classes or numbers."""
    if bounds is None:
        if bins is not None:
            raise ValueError(f"bins is {bins}, but bounds is not set; bins are grid points of numbers within bounds.")
        return
    if tuple(classes) != CLASSES:
        raise ValueError(f"classes is {list(classes)} and bounds is {list(bounds)}; labels are classes or numbers: set one.")
    piecewise_law(epsilon, bounds, bins)
