"""The public terms of noise that all data parties of a training share, and the checks of them."""
from typing import Dict, Optional

from fate_dp.crypto.cross_product import MEAN_SQUARE_BITS
from fate_dp.privacy.mechanisms.bounded_rows import RowBounds
from fate_dp.privacy.mechanisms.second_moments import SecondMoments

from .rules import ADAPTIVE, NONE

CURVATURE = 4
"""The c of the Taylor loss z^2 / (2 c) - t z / c with targets t = c (y - 1/2); noise is for family binomial alone."""
TARGET = CURVATURE / 2
FIRST_FIT, TRAINING = "first_fit", "training"
BOUNDS = ("features", "radius", "intercept", "target")
"""Of a party's `RowBounds`, as its facts name them."""


def noise_terms(own: Optional[dict], hosts: Dict[str, Optional[dict]], rows: int) -> Optional[dict]:
    """At the guest: the terms of noise, or None without; in builtins.

    Args:
        own: the guest's `OwnNoise.facts`, None with noise none.
        hosts: {name: facts} of all hosts in the order of their columns.
        rows: number of records, public.

    Raises:
        ValueError: parties disagree, none of them adds noise, or sums with so much noise would not fit their masks.
    """
    parties = {"the guest": own, **hosts}
    kinds = {name: facts["kind"] if facts else NONE for name, facts in parties.items()}
    for name, kind in kinds.items():
        if kind != kinds["the guest"]:
            raise ValueError(
                f"noise is {kinds['the guest']} at the guest and {kind} at {name}; all parties must set the same."
            )
    if own is None:
        return None
    if not any(facts["multipliers"][TRAINING] for facts in parties.values()):
        raise ValueError(
            f"noise is {own['kind']}, but no party sets noise_epsilon, so nobody would add any; set it at the parties "
            "whose records are to be protected, or set noise to none."
        )
    terms = {"kind": own["kind"], "fit": TRAINING, "parties": list(parties.values())}
    for fit in fits_of(terms):
        check_size(fit_of(terms, fit), rows)
    return terms


def fits_of(noise: dict) -> tuple:
    """The fits of a training, each on second moments with noise of its own."""
    return (FIRST_FIT, TRAINING) if noise["kind"] == ADAPTIVE else (TRAINING,)


def fit_of(noise: dict, fit: str) -> dict:
    """The same terms for another fit."""
    return {**noise, "fit": fit}


def moments_of(noise: dict) -> SecondMoments:
    """What every party builds from the terms, the same object at all of them."""
    parties = noise["parties"]
    bounds = [RowBounds(**{name: facts[name] for name in BOUNDS}) for facts in parties]
    return SecondMoments(bounds, [facts["multipliers"][noise["fit"]] for facts in parties])


def check_size(noise: dict, rows: int) -> None:
    """Refuse noise that exceeds what masks are made for: sums of ``rows`` products of mean square 2^8 each."""
    moments = moments_of(noise)
    largest = max(map(moments.largest_noise, range(len(moments.bounds))))
    if largest > rows * 2.0**MEAN_SQUARE_BITS:
        raise ValueError(
            f"The noise may reach {largest:.3g}, and sums over {rows} records are masked up to "
            f"{rows * 2**MEAN_SQUARE_BITS}; raise noise_epsilon, lower noise_radius, or take more records."
        )


def check_own_part(noise: Optional[dict], own: Optional[dict], position: int, features: list) -> None:
    """At a host: what the guest says of noise must hold what this party said of itself; its promise rests on it."""
    if own is None and noise is None:
        return
    agreed = noise is not None and own is not None and noise["kind"] == own["kind"] and noise["fit"] == TRAINING
    if not agreed or len(noise["parties"]) != len(features) or noise["parties"][position] != own:
        raise ValueError("The guest's terms of noise are not those of this host's parameters; it trains on no others.")
    for facts, count in zip(noise["parties"], features):
        if facts["features"] + facts["intercept"] != count:
            raise ValueError("The guest's terms of noise speak of other numbers of features than its other terms do.")
