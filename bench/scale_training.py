"""What guest and host do in the scale benchmark: label_flip, then dp_hetero_lr on the flips, or dp_scorecard; each is timed."""

import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bench import epoch_task
from bench.scale_tables import LABEL, made_frame
from fate_dp.components.common.wire.channel import with_plain_messages
from fate_dp.components.dp_hetero_lr import component as of_training
from fate_dp.components.dp_scorecard import component as of_scorecard
from fate_dp.components.label_flip import component as of_flips
from tests.support.local_parties import Artifact, cpu_seconds

SOURCE = f"bench/scale/{LABEL}"
EPSILON = 2.0
CUTS = (-0.84, -0.25, 0.25, 0.84)
"""Five bins of a standard normal column, of which no record is asked."""
GUEST, HOST = ("guest", "9999"), ("host", "10000")


@dataclass
class Stage:
    """One component at one party: CPU seconds of its processes, and when it began and ended by the machine's clock."""

    cpu: float
    began: float
    ended: float


@dataclass
class PartyRun:
    """What one party did, and its weights."""

    stages: dict = field(default_factory=dict)
    weights: np.ndarray | None = None

    def timed(self, name, work, *arguments):
        """The result of ``work(*arguments)``, as the stage ``name``."""
        used, began = cpu_seconds(), time.monotonic()
        result = work(*arguments)
        self.stages[name] = Stage(cpu_seconds() - used, began, time.monotonic())
        return result


def chain(ctx, rows, epochs, labels_file) -> PartyRun:
    """Flip and train at one party; the guest leaves its flipped labels in a file for the check."""
    import fate_dp.components.dp_hetero_lr.train
    import fate_dp.components.label_flip.guest  # noqa: F401

    role, run = ctx.federation.local_party[0], PartyRun()
    frame = run.timed("loading", made_frame, ctx, rows, role)
    written = Artifact()
    run.timed("label_flip", _flip, _task_of(ctx, "label_flip"), role, Artifact(frame), written)
    model = run.timed("dp_hetero_lr", _train, _task_of(ctx, "dp_hetero_lr"), role, written.frame, epochs)
    from fate_dp.components.common.frames import collect_column, label_blocks
    from fate_dp.components.dp_hetero_lr.model import columns_of

    run.weights = columns_of(model)[0]
    if role == "guest":
        np.save(labels_file, collect_column(label_blocks(written.frame)).astype(np.int8))
    return run


def scorecard(ctx, rows) -> PartyRun:
    """dp_scorecard with noise on its tables, at one party."""
    import fate_dp.components.dp_scorecard.train  # noqa: F401

    role, run = ctx.federation.local_party[0], PartyRun()
    frame = run.timed("loading", made_frame, ctx, rows, role, CUTS)
    run.timed("dp_scorecard", _score, _task_of(ctx, "dp_scorecard"), role, frame)
    return run


def _task_of(ctx, name):
    """A context of its own on the same engine, as each task of a job has one."""
    from fate.arch.context import Context
    from fate.arch.federation import FederationBuilder

    own = ctx.federation
    builder = FederationBuilder(f"{own.session_id}-{name}", tuple(own.local_party), [GUEST, HOST])
    return Context(computing=ctx.computing, federation=builder.build_standalone(ctx.computing))


@with_plain_messages(of_flips.MESSAGES)
def _flip(ctx, role, read, written):
    from fate_dp.components.common.charges import home_of
    from fate_dp.components.label_flip import guest
    from fate_dp.components.label_flip.settings import Settings
    from fate_dp.privacy.ledger.policy import declare_source

    if role == "host":
        guest.pass_on(ctx, read, written)
        return
    declare_source(home_of(ctx).path / "policy.yaml", SOURCE)
    guest.flip(ctx, Settings(epsilon=EPSILON, classes=(0.0, 1.0), label_source=SOURCE), read, written)


@with_plain_messages(of_training.MESSAGES)
def _train(ctx, role, frame, epochs):
    from fate_dp.components.dp_hetero_lr import train as stage
    from fate_dp.components.dp_hetero_lr.settings import TrainSettings, flipback

    settings = TrainSettings(epochs=epochs, **epoch_task.OURS, label_source=SOURCE, flipback=flipback({"mode": "none"}))
    if role == "guest":
        return stage.train_guest(ctx, settings, frame, None, None)[0]
    return stage.train_host(ctx, settings, frame, None, None)


@with_plain_messages(of_scorecard.MESSAGES)
def _score(ctx, role, frame):
    from fate_dp.components.dp_scorecard import train as stage
    from fate_dp.components.dp_scorecard.settings import TrainSettings

    settings = TrainSettings(bins=len(CUTS) + 1, privacy="record", epsilon=EPSILON, he_param=epoch_task.HE_PARAM)
    (stage.train_guest if role == "guest" else stage.train_host)(ctx, settings, frame)


def weights_off(rows, epochs, weights, labels_file: Path) -> float:
    """The largest distance of the joint weights from gradient descent in the clear on the same flips."""
    from bench.hetero_lr_engine import plain_weights
    from bench.scale_tables import BLOCK_ROWS, block_rows

    labels, total = np.load(labels_file), 0.0
    for number in range(-(-rows // BLOCK_ROWS)):
        made = block_rows(number, rows)
        target = labels[number * BLOCK_ROWS :][: len(made.labels)] - 0.5
        columns = np.column_stack([made.guest, np.ones(len(target)), made.host, target])
        total = total + columns.T @ columns
    return float(np.abs(weights - plain_weights(total / rows, epochs)).max())
