"""Parameters of the flipback component, checked. No FATE in here."""
from fate_dp.privacy.flipback import FlipbackSettings


def mode(value) -> str:
    return FlipbackSettings(mode=value).mode


def fraction(value) -> float:
    return FlipbackSettings(fraction=value).fraction
