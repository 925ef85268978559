"""The range of a sensitivity: how far one unit of data can move the answer to a query."""
from fate_dp.privacy.number_kinds import is_real

LEAST, LARGEST = 1e-150, 1e150


class InvalidSensitivity(ValueError):
    """A sensitivity is outside its range."""


def check_sensitivity(sensitivity):
    """Return ``sensitivity`` as a float; raise ``InvalidSensitivity`` unless it is a number from 1e-150 to 1e150.

    Within this range neither squares nor grids leave the range of floating point.
    """
    if not is_real(sensitivity) or not LEAST <= sensitivity <= LARGEST:
        raise InvalidSensitivity(f"sensitivity is {sensitivity!r} but must be a number from {LEAST} to {LARGEST}.")
    return float(sensitivity)
