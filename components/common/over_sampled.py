"""Synthetic rows in a table, and what a private step on such a table must be charged as.

Over-sampled rows keep their mark, the prefix of their match ids, through every FATE component that keeps match ids, so
that a step knows them without asking what ran before it. The ids stay in their blocks.
"""
from fate_dp.data_prep.over_sampling import SYNTHETIC_PREFIX
from fate_dp.privacy.events import Event
from fate_dp.privacy.over_sampled import event_after_over_sampling

from .frames import match_id_blocks


def has_synthetic_rows(frame) -> bool:
    """Whether any row of the table was made by over-sampling, here or before the upload."""
    # Not reduced: FATE reduces no table without blocks.
    return any(found for _, found in match_id_blocks(frame).mapValues(_any_synthetic).collect())


def record_event(frame, event: Event) -> Event:
    """What a step on ``frame`` that claims ``event`` must give to ``Ledger.record``: no guarantee after SMOTE."""
    return event_after_over_sampling(event) if has_synthetic_rows(frame) else event


def _any_synthetic(match_ids) -> bool:
    return any(match_id.startswith(SYNTHETIC_PREFIX) for match_id in match_ids)
