"""kymatio 0.3 imports ``scipy.special.sph_harm``, which later releases of scipy renamed; only its 3D part uses it."""
from contextlib import contextmanager

import scipy.special


@contextmanager
def with_old_scipy_names():
    """Within the block ``scipy.special`` has the old name; afterwards it is as it was."""
    if hasattr(scipy.special, "sph_harm"):
        yield
        return
    scipy.special.sph_harm = scipy.special.sph_harm_y
    try:
        yield
    finally:
        del scipy.special.sph_harm
