"""Arguments that all audits share, checked in one place."""
from fate_dp.privacy.number_kinds import is_finite, is_whole


class InvalidAudit(ValueError):
    """An argument of an audit is outside its range."""


def check_number(name, value, least, most, is_open=False):
    """Return ``value`` as a float; raise ``InvalidAudit`` unless it is a number from ``least`` to ``most``.

    :param is_open: whether the two ends are excluded.
    """
    if not is_finite(value) or not least <= value <= most or is_open and value in (least, most):
        allowed = f"strictly between {least} and {most}" if is_open else f"from {least} to {most}"
        raise InvalidAudit(f"{name} is {value!r} but must be a number {allowed}.")
    return float(value)


def check_count(name, value, least, most):
    """Return ``value`` as an int; raise ``InvalidAudit`` unless it is a whole number from ``least`` to ``most``."""
    if not is_whole(value) or not least <= value <= most:
        raise InvalidAudit(f"{name} is {value!r} but must be a whole number from {least} to {most}.")
    return int(value)
