"""flipback: post-processing of flipped labels, so epsilon does not change.

What the joint scores reveal was counted by the hosts' ledgers when the first training released them. The revised labels
enter the guest's ledger as derived ones, so that the next training knows their epsilon.
"""

import math
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fate_dp.privacy.labels.flipback import Flipback, FlipbackSettings, marked
from fate_dp.privacy.labels.flips import LabelRelease, Releases, total_of, united

from ..common import frames
from ..common.charges import PartyHome, home_of, job_of
from ..common.federation import Context, Document, TableInput, TableOutput, check_roles
from ..common.frames import DataFrame
from ..common.preflight import Preflight, Refusal, show_summary
from ..common.provenance import LabelPrivacy, find_label_privacy, scores_digest
from .settings import Settings


@dataclass
class FlipbackGuestPreflight(Preflight):
    """The guest's checks; ``flips`` are what the labels are, ``model`` what the scores rest on, ``labels`` the revised ones."""

    settings: Settings
    frame: DataFrame
    scored: DataFrame
    flips: LabelRelease = field(init=False)
    model: Releases = field(init=False)
    mode: str = field(init=False)
    labels: np.ndarray = field(init=False)

    def check(self) -> Document:
        home, frame = home_of(self.ctx), self.frame
        frames.check_guest_table(frame)
        self.flips = revertible_flips(find_label_privacy(home, frame, None))
        check_scores(frame, self.scored)
        self.model = releases_of_model(home, self.scored)
        flipped = frames.collect_column(frames.label_blocks(frame))
        settings = FlipbackSettings(mode=self.settings.mode, fraction=self.settings.fraction, max_rounds=1)
        flipback = Flipback(settings, flipped, self.flips.epsilon, stream=secrets.SystemRandom())
        probabilities = frames.collect_column(frames.feature_blocks(self.scored[["predict_score"]]).mapValues(np.ravel))
        self.labels, self.mode = flipback.relabel(flipped, probabilities), flipback.mode
        return {}


def revise_labels(
    ctx: Context, settings: Settings, input_data: TableInput, scores: Any, output_data: TableOutput
) -> None:
    check_roles(ctx, arbiter=False)
    frame, home, job = input_data.read(), home_of(ctx), job_of(ctx)
    checks = FlipbackGuestPreflight(ctx, settings, frame, scores.read())
    checks.agree()
    flips, result, releases = checks.flips, with_labels(frame, checks.labels), united([checks.flips], checks.model)
    home.ledger.record_derived(
        parent_entry_id=flips.entry_id,
        rows=frames.labelled_stream(result, home.key, flips.source),
        description=f"flipback ({checks.mode}): post-processing, no further epsilon{_others(releases)}",
        releases=checks.model,
        **job._asdict(),
    )
    output_data.write(result)
    facts = {
        "mechanism": "flipback, post-processing of flipped labels",
        "mode": checks.mode,
        "epsilon of the labels (nats, unit label, replace-one)": total_of(releases),
        "further epsilon": 0,
        "rows": frame.shape[0],
    }
    show_summary(ctx, facts)


def revertible_flips(privacy: LabelPrivacy) -> LabelRelease:
    """The release that the labels are; Bayes' rule and swaps know two classes, as label_flip released them."""
    if privacy.derived:
        raise Refusal("The labels went through flipback before; it needs the labels as label_flip released them.")
    flips = privacy.flips
    if flips is None:
        raise Refusal(
            "The labels are not flips of one release; flipback works on the labels as label_flip released them."
        )
    if flips.bounds is not None:
        raise Refusal("The labels are noisy numbers, which flipback cannot revise; it works on flips of 2 classes.")
    if flips.classes != 2:
        raise Refusal(f"The labels were flipped among {flips.classes} classes; flipback works on 2.")
    return flips


def check_scores(frame: DataFrame, scored: DataFrame) -> None:
    """Scores must stand beside these very labels; which labels their model was trained on the ledger says."""
    if "predict_score" not in scored.schema.columns or frames.ids_digest(scored) != frames.ids_digest(frame):
        raise Refusal("scores are not of the rows of input_data; use the train_output_data of a training on it.")
    labelled = scored.schema.label_name is not None
    if not labelled or not np.array_equal(
        frames.collect_column(frames.label_blocks(scored)), frames.collect_column(frames.label_blocks(frame))
    ):
        raise Refusal("scores come from a training on other labels; use the train_output_data of one on input_data.")


def releases_of_model(home: PartyHome, scored: DataFrame) -> Releases:
    """The label releases that the scores carry; a model of true labels would carry those into 'flipped' ones."""
    releases = home.ledger.releases_of_scores(scores_digest(home, scored))
    if releases is None:
        raise Refusal(
            "scores are not known to the guest's ledger, so nobody can say which labels their model was trained on; use "
            "the train_output_data of a dp_hetero_lr of this version, as it wrote it."
        )
    if not math.isfinite(total_of(releases)):
        raise Refusal("scores come from a model of labels without privacy; use those of one that was trained on flips.")
    return releases


def with_labels(frame: DataFrame, labels: np.ndarray) -> DataFrame:
    """The frame with new labels in row order, marked as derived ones; the column becomes float64."""
    starts, labels = frames.block_starts(frame), marked(labels)

    def relabelled(blocks: Iterable[tuple[int, np.ndarray]]) -> Iterator[tuple[int, np.ndarray]]:
        for key, block in blocks:
            yield key, labels[starts[key] : starts[key] + len(block)]

    table = frames.label_blocks(frame).mapPartitions(relabelled, preserves_partitioning=True)
    return frames.replace_labels(frame, table, soft=True)


def _others(releases: Releases) -> str:
    """Names releases besides the flips themselves, so that a line of the ledger says what its labels rest on."""
    if len(releases) == 1:
        return ""
    names = ", ".join(f"{release.source} at {release.epsilon:g}" for release in releases[1:])
    return f"; the scoring model rests on other releases, too ({names}), so these labels have epsilon {total_of(releases):g}"
