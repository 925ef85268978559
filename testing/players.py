"""Plays a component's parties."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from fate.arch.context import Context
from fate.arch.trace import _profile

from fate_dp.components.common.federation import PartyId
from fate_dp.components.common.wire.channel import plain_messages
from fate_dp.components.common.wire.kinds import Messages
from fate_dp.privacy.private_files import HOME_VARIABLE, KEY_FILE, party_folder, publish_if_absent

from .doors import Doors, Killed
from .engine import Exchange, MemoryFederation, MemorySession, Silence
from .parties import ComponentStep
from .timeline import Timeline

Step = Callable[[Any], Any]
"""What each party does: a function of its FATE context."""


@dataclass
class Played:
    """What a play came to.

    Attributes:
        values: {party: what the step returned}; a party that failed has none.
        errors: {party: the exception that ended it}.
        metrics: {party: records that it showed on the board}.
        home: the folder of all parties' keys, ledgers and policies.
    """

    timeline: Timeline
    home: Path
    values: dict[PartyId, Any] = field(default_factory=dict)
    errors: dict[PartyId, BaseException] = field(default_factory=dict)
    metrics: dict[PartyId, list] = field(default_factory=dict)

    def check(self) -> Played:
        """Raise the first party's error, if there is one."""
        for error in self.errors.values():
            raise error
        return self


def play(
    step: Step,
    parties: Sequence[PartyId],
    home: Path,
    *,
    messages: Messages | None = None,
    task: str = "task",
    doors: Doors | None = None,
) -> Played:
    """Let every party do ``step`` in one process, one at a time, with recorders at their doors.

    ``breakpoint()`` stops at any place; the other parties wait meanwhile. Randomness follows from ``doors.secret``, keys of
    the parties from the name of ``home`` alone, so that the same play gives the same values.

    Args:
        parties: (role, party id) of all.
        home: parties' folders are made here, or found.
        messages: what the parties may send each other; None for those that the component of a `ComponentStep` declares.
        task: name of the task, which FATE calls a federation session.
    """
    recorders = doors or Doors(Timeline())
    own = step.messages if isinstance(step, ComponentStep) else {}
    known = own if messages is None else messages
    exchange, played = Exchange(tuple(parties)), Played(recorders.timeline, home)

    def play_party(party: PartyId) -> None:
        with exchange.turn_of(party), recorders.of(party):
            ctx = Context(computing=MemorySession(), federation=MemoryFederation(exchange, task, party))
            try:
                with plain_messages(ctx, known) as plain:
                    played.values[party] = step(plain)
            except (Exception, Killed, Silence) as error:
                played.errors[party] = error
            played.metrics[party] = list(ctx.metrics.handler.get_metrics())

    with ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, {HOME_VARIABLE: str(home)}))
        # FATE notes the whole call stack at every operation on a table, which takes most of a play's time.
        stack.enter_context(mock.patch.object(_profile, "_call_stack_strings", list))
        for _, number in parties:
            place_key(home, number)
        stack.enter_context(recorders.set_up())
        threads = [threading.Thread(target=play_party, args=(party,), daemon=True) for party in parties]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return played


def place_key(home: Path, number: str) -> None:
    """A party's key, which follows from the home's name, unless it has one."""
    path = party_folder(home, number) / KEY_FILE
    if not path.exists():
        publish_if_absent(path, hashlib.sha256(f"{home.name} of {number}".encode()).digest())
