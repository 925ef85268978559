"""What one party received in one round of a horizontal training: all that an attack may read, beside public knowledge.

No view holds a private record; an attack that needs more than a view says so in its docstring.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fate_dp.components.dp_homo_nn.models.spec import dimension
from fate_dp.privacy.validation import InvalidArgument, is_finite, one_of, whole

Array = NDArray[np.float64]

GRADIENT, UPDATE = "gradient", "update"
KINDS = (GRADIENT, UPDATE)
"""The mean gradient of a batch; or old minus new weights after several steps on it."""
SERVER = "server"


@dataclass(frozen=True)
class Defence:
    """What stands between the records and the observer.

    Attributes:
        name: short, as a row of a table has it.
        words: a whole sentence.
        clip: largest norm of one record's gradient, public; None without.
        deviation: standard deviation of the noise on each number that was received.
        epsilon: of the whole training that the round belongs to, in nats, at ``delta``; infinite without a guarantee.
        delta: 0 without a guarantee.
    """

    name: str
    words: str
    clip: float | None = None
    deviation: float = 0.0
    epsilon: float = math.inf
    delta: float = 0.0

    def __post_init__(self) -> None:
        if self.clip is not None and not (is_finite(self.clip) and self.clip > 0):
            raise InvalidArgument.of("clip", self.clip, "None or a finite number greater than 0")
        if not (is_finite(self.deviation) and self.deviation >= 0):
            raise InvalidArgument.of("deviation", self.deviation, "a finite number of at least 0")


PLAIN = Defence("plain averaging", "The server sees the mean gradient of one client's batch as it is.")


@dataclass(frozen=True)
class LocalSteps:
    """Steps of plain gradient descent at a client, each on its whole batch, before it sends its weights."""

    steps: int
    rate: float

    def __post_init__(self) -> None:
        whole("steps", self.steps, 1)
        if not (is_finite(self.rate) and self.rate > 0):
            raise InvalidArgument.of("rate", self.rate, "a finite number greater than 0")


@dataclass(frozen=True, eq=False)
class RoundView:
    """What one party received in one round, and what it knows beside that.

    Attributes:
        observer: who received it.
        knows: what the observer knows of the batch, a whole sentence.
        kind: what ``received`` is, one of `KINDS`.
        module: the public model at the round's start weights, in float64; a copy of what it is made with.
        received: float64 (d,), in the order of the module's parameters.
        records: size of the batch, which the observer knows.
        record_shape: of one record, as the module takes it.
        defence: what the records were protected by.
        local: the client's own steps; for an update only.
    """

    observer: str
    knows: str
    kind: str
    module: nn.Module = field(repr=False)
    received: Array = field(repr=False)
    records: int
    record_shape: tuple[int, ...]
    defence: Defence = PLAIN
    local: LocalSteps | None = None

    def __post_init__(self) -> None:
        one_of("kind", self.kind, KINDS)
        whole("records", self.records, 1)
        received = np.array(self.received, dtype=np.float64)
        if received.shape != (dimension(self.module),) or not np.isfinite(received).all():
            allowed = f"{dimension(self.module)} finite numbers, one for each weight of the module"
            raise InvalidArgument.of("received", received, allowed)
        if (self.kind == UPDATE) != (self.local is not None):
            raise InvalidArgument(
                f"The view is of kind {self.kind}, and its local steps are {self.local}: an update has them, a gradient has "
                "none."
            )
        received.flags.writeable = False
        object.__setattr__(self, "received", received)
        object.__setattr__(self, "module", deepcopy(self.module).double().eval())

    @property
    def target(self) -> torch.Tensor:
        """What was received, as a tensor of its own: float64 (d,)."""
        return torch.tensor(self.received)

    def parts(self) -> list[torch.Tensor]:
        """What was received, in the shapes of the module's parameters."""
        parameters = list(self.module.parameters())
        flat = self.target.split([parameter.numel() for parameter in parameters])
        return [part.view(parameter.shape) for part, parameter in zip(flat, parameters)]


def require(view: object, attack: str, kinds: Sequence[str] = KINDS, records: int | None = None) -> RoundView:
    """The view, if the attack can read it; what is wrong with it is one sentence.

    ``records`` is the one size of a batch that the attack can do, None for all sizes.
    """
    if not isinstance(view, RoundView):
        raise InvalidArgument(
            f"{attack} reads a RoundView of a horizontal training but was given a {type(view).__name__}."
        )
    if view.kind not in kinds:
        raise InvalidArgument(
            f"{attack} reads a view of kind {' or '.join(kinds)} but was given one of kind {view.kind}."
        )
    if records is not None and view.records != records:
        raise InvalidArgument(
            f"{attack} reads a view of {records} record but was given one of a batch of {view.records}."
        )
    return view
