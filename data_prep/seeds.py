"""Independent random streams from one seed: each step of a preparation has its own, named after the step.

Changing an option of one step therefore leaves the draws of all others as they were. Nothing here is secret or private:
whoever knows the seed can repeat every draw, and noise for differential privacy never comes from here.
"""
import hashlib
import json

import numpy as np

from fate_dp.privacy.number_kinds import is_whole


class BadSeed(ValueError):
    """A seed that is not a whole number of at least 0."""


def seed_sequence(seed: int, *step) -> np.random.SeedSequence:
    """The entropy of the step that the texts and numbers of `step` name; the same arguments give the same stream."""
    if not is_whole(seed) or seed < 0:
        raise BadSeed(f"seed is {seed!r}; it must be a whole number of at least 0.")
    digest = hashlib.sha256(json.dumps([str(part) for part in step]).encode()).digest()
    return np.random.SeedSequence([int(seed), *np.frombuffer(digest, dtype="<u4").tolist()])


def generator(seed: int, *step) -> np.random.Generator:
    """A fresh generator at the start of the step's stream."""
    return np.random.default_rng(seed_sequence(seed, *step))
