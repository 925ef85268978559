"""The parameters that mean the same in every component, and what they were called before.

``privacy`` says whose data noise protects: a label, a record, a client (all data of a party), or none. ``epsilon`` and ``delta``
say how well, ``noise`` is the law of the noise and ``noise_spread`` how it is divided among coordinates. ``he_param`` has the
``key_length``, as in FATE's components. No FATE in here.
"""

from collections.abc import Container, Mapping
from typing import Any

from fate_dp.privacy.validation import DEFAULT_DELTA

from .parameters import OneOf, mapping, name, parameter
from .preflight import Refusal

LABEL, RECORD, CLIENT, NONE = "label", "record", "client", "none"
SPREADS = UNIFORM, ADAPTIVE = "uniform", "adaptive"
# A guarantee that fails for one record in a hundred is none.
MAX_DELTA = 0.01
DEFAULT_HE = {"kind": "paillier", "key_length": 2048}


def he_param(value: Any) -> dict[str, Any]:
    """FATE's homomorphic encryption dictionary: Paillier with at least 2048 bits."""
    from fate_dp.crypto.paillier import check_key_length

    filled = mapping("he_param", value, DEFAULT_HE)
    filled["kind"] = name("he_param.kind", filled["kind"], ("paillier",))
    check_key_length(filled["key_length"])
    return filled


def delta_parameter(of: str) -> Any:
    return parameter(f"delta of {of}", DEFAULT_DELTA, above=0, at_most=MAX_DELTA)


def spread_parameter(condition: str = "") -> Any:
    return parameter(f"how noise is spread: uniform or adaptive{condition}", UNIFORM, check=OneOf(SPREADS))


def he_parameter() -> Any:
    return parameter(
        "encryption: kind paillier, key_length of at least 2048", DEFAULT_HE, check=he_param, title="HEParam"
    )


OLD_NAMES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "align": {"key_length": ("he_param",)},
    "dp_binning": {"key_length": ("he_param",)},
    "dp_hetero_lr": {
        "noise": ("privacy", "noise_spread"),
        "noise_epsilon": ("epsilon",),
        "noise_delta": ("delta",),
        "noise_radius": ("clip",),
    },
    "dp_homo_nn": {"unit": ("privacy",), "noise": ("noise_spread",)},
}
"""{component: {old name: what took its place}}."""
OLD_VALUES: Mapping[tuple[str, str], Mapping[str, Mapping[str, str]]] = {
    ("dp_hetero_lr", "noise"): {UNIFORM: {"privacy": RECORD}, ADAPTIVE: {"privacy": RECORD, "noise_spread": ADAPTIVE}},
    ("dp_binning", "privacy"): {"flips": {"privacy": NONE}},
}
"""{(component, name): {old value: what is written today}}."""


def refuse_old_names(component: str, known: Container[str], given: Mapping[str, Any]) -> None:
    """Raise one sentence for the first given parameter whose name is an old one of some that are ``known``."""
    for old, today in OLD_NAMES.get(component, {}).items():
        if given.get(old) is not None and today[0] in known:
            raise Refusal(
                f"{old} is {given[old]!r}; {component} calls it {' and '.join(today)} now, so set that instead."
            )


def with_new_names(component: str, written: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that an earlier release wrote down, in a job or in what it recorded, as they are written today."""
    found: dict[str, Any] = {}
    for old, value in written.items():
        today, *_ = OLD_NAMES.get(component, {}).get(old, (old,))
        if today == "he_param" != old:
            value = {old: value}
        words = OLD_VALUES.get((component, old), {}).get(value) if isinstance(value, str) else None
        found |= words or {today: value}
    return found
