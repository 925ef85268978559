"""Features in units that every party can apply on its own: from frozen public limits and units, and from no data."""
from __future__ import annotations

import numpy

from .columns import NUMERIC, PUBLIC_LIMITS, PUBLIC_UNITS


def to_public_units(frame):
    """A copy of a pandas `frame` with each numeric feature clamped to its public limits, then centred and scaled.

    The value becomes (clamped value - centre) / spread; every other column stays as it is. Raises ValueError for a
    value that is missing or not finite, which no limit bounds.
    """
    changed = {}
    for column in NUMERIC:
        values = frame[column].to_numpy(dtype=numpy.float64)
        if not numpy.isfinite(values).all():
            wrong = values[~numpy.isfinite(values)][0]
            raise ValueError(f"The column {column} has {wrong}; finite numbers are allowed.")
        centre, spread = PUBLIC_UNITS[column]
        changed[column] = (values.clip(*PUBLIC_LIMITS[column]) - centre) / spread
    return frame.assign(**changed)
