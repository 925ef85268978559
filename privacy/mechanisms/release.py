"""What a mechanism hands back: the released value, and the event that an accountant must be charged with for it."""
from dataclasses import dataclass, replace

import numpy as np

from fate_dp.privacy.events import Event, NotPrivate

REPEATABLE = "The randomness came from a reproducible stream: whoever knows the seed can subtract the noise."


@dataclass(frozen=True, eq=False)
class Release:
    """A value that may be shown to ``event.observers`` once ``event`` has been charged.

    :param value: a number or an array, in the unit of the query.
    :param event: the ``Event`` that bounds what the value says.
    """

    value: object
    event: Event

    def scaled(self, by):
        """The same release times ``by``, a public number or array: post-processing, at no further cost.

        So a noisy sum becomes a mean over a public expected batch size. Dividing by a realised size would read the
        data again, and nothing here does.
        """
        return replace(self, value=np.multiply(self.value, by))


def event_of(process, stream, *, unit, relation, observers, slack=0.0):
    """The event of ``process`` when all its randomness came from ``stream``.

    A stream that somebody could repeat gives a ``NotPrivate`` event (epsilon infinity), whatever the noise.

    :param slack: total-variation distance between what is released and ``process``; above 1 it says no more than 1.
    """
    if not stream.private:
        process, slack = NotPrivate(REPEATABLE), 0.0
    return Event(process, unit, relation, observers, min(1.0, slack))
