"""Plays a component's parties in one process and records what passes every door: for everybody who writes components."""

from .doors import Doors, Killed
from .engine import Silence
from .parties import Artifact, ComponentStep, Played, Step, frame_at, play
from .timeline import (
    Charge,
    Draw,
    Event,
    FileWritten,
    LogLine,
    Message,
    Output,
    Sentence,
    StreamOpened,
    Timeline,
    leaves,
)

__all__ = [
    "Artifact",
    "Charge",
    "ComponentStep",
    "Doors",
    "Draw",
    "Event",
    "FileWritten",
    "Killed",
    "LogLine",
    "Message",
    "Output",
    "Played",
    "Sentence",
    "Silence",
    "Step",
    "StreamOpened",
    "Timeline",
    "frame_at",
    "leaves",
    "play",
]
