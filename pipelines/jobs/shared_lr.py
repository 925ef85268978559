"""Ready-made pipelines: records joined as shares, a regression trained on the shares, and its prediction."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .hetero_lr import Parties, Tables, evaluation, reader_of

if TYPE_CHECKING:
    from fate_client.pipeline import FateFlowPipeline


@dataclass(frozen=True)
class JoinedTrainingPlan:
    """What to train: epsilon None means no flips, on labels that the guest's operator declared public.

    ``alignment`` and ``training`` are further parameters of `clients.Align` and `clients.ShareLR`. The
    evaluation is of the training rows' scores, so it is there with ``train_scores`` only.
    """

    parties: Parties
    tables: Tables
    epsilon: float | None
    alignment: dict = field(default_factory=dict)
    training: dict = field(default_factory=dict)


def training_pipeline(plan: JoinedTrainingPlan) -> FateFlowPipeline:
    """reader -> [label_flip] -> align -> share_lr [-> evaluation, against the labels that were trained on]."""
    from ..clients import Align, LabelFlip, ShareLR

    reader = reader_of(plan.parties, plan.tables)
    tasks, rows, alignment = [reader], reader.outputs["output_data"], dict(plan.alignment)
    if plan.epsilon is None:
        alignment["label_source"] = plan.tables.label_source()
    else:
        flip = LabelFlip("label_flip_0", epsilon=plan.epsilon, label_source=plan.tables.label_source(), input_data=rows)
        tasks.append(flip)
        rows = flip.outputs["output_data"]
    align = Align("align_0", input_data=rows, **alignment)
    model = ShareLR(
        "share_lr_0", train_data=align.outputs["output_data"], alignment=align.outputs["alignment"], **plan.training
    )
    tasks += [align, model]
    if plan.training.get("train_scores"):
        tasks.append(evaluation(plan.parties, model.outputs["train_output_data"]))
    return new_pipeline(plan.parties).add_tasks(tasks)


def prediction_pipeline(trained: FateFlowPipeline, parties: Parties, tables: Tables) -> FateFlowPipeline:
    """reader -> align -> deployed share_lr -> evaluation, for a pipeline that `run_job` has trained."""
    from ..clients import Align

    trained.deploy([trained.share_lr_0])
    deployed = trained.get_deployed_pipeline()
    reader = reader_of(parties, tables)
    align = Align("align_1", input_data=reader.outputs["output_data"])
    deployed.share_lr_0.test_data = align.outputs["output_data"]
    deployed.share_lr_0.alignment = align.outputs["alignment"]
    scored = deployed.share_lr_0.outputs["test_output_data"]
    return new_pipeline(parties).add_tasks([reader, align, deployed, evaluation(parties, scored)])


def new_pipeline(parties: Parties) -> FateFlowPipeline:
    """Of guest and host: shares are of two parties, and nobody helps them."""
    from fate_client.pipeline import FateFlowPipeline

    return FateFlowPipeline().set_parties(guest=parties.guest, host=[parties.host])
