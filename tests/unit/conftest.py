"""Fixtures of several files."""

import pytest

from fate_dp.crypto import paillier, powers
from fate_dp.crypto.kernel import kernel


@pytest.fixture(scope="module", params=["native kernel", "gmpy2"])
def arithmetic(request):
    """A file's tests once with the native kernel, where it runs, and once with gmpy2."""
    if request.param == "native kernel" and kernel().library is None:
        pytest.skip(kernel().sentence)
    caches = (paillier._tables, paillier.blinding_of, paillier.drawn_blinding)
    with pytest.MonkeyPatch.context() as patched:
        if request.param == "gmpy2":
            patched.setattr(powers, "ring_for", lambda modulus: None)
        for cache in caches:
            cache.cache_clear()
        yield request.param
    for cache in caches:
        cache.cache_clear()
