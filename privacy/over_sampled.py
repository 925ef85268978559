"""What a private step may still claim on a table that SMOTE has over-sampled.

A synthetic row lies between a record and one of its nearest neighbours, and which neighbours those are, and how many
rows each class gets, depends on all records and all labels of the table. One replaced record, or one replaced label,
can thus move any number of rows, so that the sensitivity of whatever follows has no bound: epsilon is infinite for the
units record and label.

Two statements hold. Flips of labels that were released, and charged, before over-sampling keep what they were charged:
SMOTE reads flipped labels then, which is post-processing. The unit client is not touched where each client
over-samples its own rows alone, as everything here does: the rows are a function of that client's data.
"""
from dataclasses import replace

from fate_dp.privacy.events import Event, NotPrivate

REASON = "SMOTE interpolated between records before this step, so one record or label moves rows without bound"
UNITS_WITHOUT_GUARANTEE = ("record", "label")


def event_after_over_sampling(event: Event) -> Event:
    """What a step that claims ``event`` must be charged as when its table holds synthetic rows.

    :returns: an event without guarantee for the same unit, relation and observers; ``event`` itself for the unit
        client.
    """
    if event.unit not in UNITS_WITHOUT_GUARANTEE:
        return event
    return replace(event, process=NotPrivate(REASON), slack=0.0)
