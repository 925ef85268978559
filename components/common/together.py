"""Work that every party of a task does, or none."""
from dataclasses import dataclass
from typing import Callable

from .preflight import agree


@dataclass(frozen=True)
class Together:
    """``Together(ctx)(stage, work)`` returns what ``work()`` does here; if it fails at one party, all raise one sentence.

    All parties of the context call it, in the same order of stages.
    """

    ctx: object

    def __call__(self, stage: str, work: Callable):
        done = {}

        def check():
            done["result"] = work()
            return {}

        agree(self.ctx.sub_ctx(stage), check)
        return done["result"]
