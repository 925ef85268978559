"""Parameters of align. No FATE in here."""

from dataclasses import asdict, dataclass
from typing import Any

from ..common.parameters import label_source, mapping, number, parameter
from ..common.preflight import Refusal
from ..common.vocabulary import he_parameter

MAX_EPSILON = 20.0
DEFAULT_HIDE_SIZE = {"epsilon": 1.0, "delta": 1e-8, "pool": None}
"""Deltas add up over the jobs on a table, and a usual cap has 1e-6 or 1e-5 in all; a small one costs few dummies."""


@dataclass(frozen=True)
class HideSize:
    """How the number of matches is hidden; public.

    ``epsilon`` (nats) is of one record's presence, against the other party, replace-one; ``delta`` is what the event is
    charged at, and ``pool`` the even number of each party's dummies.
    """

    epsilon: float
    delta: float
    pool: int


def hide_size(value: object) -> HideSize | None:
    """true, false, or a mapping with epsilon, delta and pool: secret dummies hide the number of matches."""
    from fate_dp.privacy.mechanisms.dummy_count import charged_delta, check_pool, pool_size

    if value is None or value is False:
        return None
    filled = mapping("hide_size", {} if value is True else value, DEFAULT_HIDE_SIZE)
    epsilon = number("hide_size.epsilon", filled["epsilon"], above=0, at_most=MAX_EPSILON)
    delta = number("hide_size.delta", filled["delta"], above=0)
    if delta >= 1:
        raise Refusal.of("hide_size.delta", delta, "a finite number above 0 and below 1")
    least = pool_size(epsilon, delta)
    if filled["pool"] is None:
        return HideSize(epsilon, charged_delta(epsilon, least), least)
    pool = check_pool(filled["pool"])
    if pool < least:
        raise Refusal.of("hide_size.pool", pool, f"at least {least} with epsilon {epsilon:g} and delta {delta:g}")
    return HideSize(epsilon, charged_delta(epsilon, pool), pool)


@dataclass(frozen=True)
class Settings:
    """The records of the guest and one host, joined by match id as additive shares; nobody learns which ids matched.

    Values are fixed-point numbers below 16: standardise features before. The table of shares is for ``share_lr``.
    ``input_data`` is the output of a reader, or of ``label_flip``, at both parties; flips that label_flip released are found
    without ``label_source``. What ``hide_size`` costs is charged to the ledger of each party.
    """

    hide_size: HideSize | None = parameter(
        "true, or a mapping with epsilon, delta and pool: a secret number of dummies hides the number of matches; "
        "None means that both learn it",
        None,
        check=hide_size,
    )
    he_param: dict[str, Any] = he_parameter()
    label_source: str | None = parameter(
        "namespace/name/column of labels that the guest's operator declared public",
        None,
        check=label_source,
        note="namespace/name/column that the labels come from, where the guest's operator declared it public.",
    )
    worker_memory: int = parameter(
        "MiB that one worker process holds of records at once, at most; each party has its own",
        256,
        at_least=16,
        at_most=1 << 20,
        note="MiB that one worker process holds of records at once; a whole number of at least 16.",
    )

    def to_json(self) -> dict[str, Any]:
        """Builtins, the same at all parties that were asked for the same."""
        return {"he_param": self.he_param, "hide_size": self.hide_size and asdict(self.hide_size)}
