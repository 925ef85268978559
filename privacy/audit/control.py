"""Audits that can fail: beside every claim stands a control, the same without privacy, which the attack must break.

An attack too weak to see a leak finds none anywhere. So ``audit_claim`` runs it on the control as well, and an audit
whose control was not broken is void, whatever it found.
"""
import math
from dataclasses import dataclass


class VoidAudit(RuntimeError):
    """The attack did not break the control, so what it found about the mechanism means nothing."""


@dataclass(frozen=True)
class Audit:
    """What an attack found, all in the unit of the attack (epsilon in nats, or mu).

    ``claimed`` is the upper bound that was claimed, ``found`` the lower bound on the mechanism, ``control`` that on the
    control.
    """

    claimed: float
    found: float
    control: float

    @property
    def refutes(self):
        """Whether the mechanism leaks more than claimed, at the confidence of the attack."""
        return self.found > self.claimed


def audit_claim(attack, mechanism, control, claimed):
    """Audit a claimed upper bound; returns an ``Audit``.

    :param attack: function of a mechanism that returns a lower bound, with a confidence of its own.
    :param mechanism: what is claimed to be private, in the form the attack takes.
    :param control: the same without privacy.
    :param claimed: the claim, in the unit of what ``attack`` returns.
    :raises VoidAudit: when the bound on the control does not exceed the claim, or that on the mechanism is NaN.
    """
    broken = attack(control)
    if not broken > claimed:
        raise VoidAudit(
            f"The audit is void: on the control without privacy the attack proves no more than {broken:.4g}, "
            f"which does not exceed the claim of {claimed:.4g}."
        )
    found = attack(mechanism)
    if math.isnan(found):
        raise VoidAudit(
            "The audit is void: on the mechanism the attack gives NaN, which refutes nothing whatever leaks."
        )
    return Audit(claimed=claimed, found=found, control=broken)
