"""The one-record summaries that FATE-Board draws as a table."""
from fate_dp.components.align.alignment import Alignment
from fate_dp.components.common.provenance import LabelPrivacy
from fate_dp.components.dp_hetero_lr.convergence import in_words

from .epochs import Progress
from .model import JoinedModel
from .settings import ShareSettings


def guest_summary(
    settings: ShareSettings, alignment: Alignment, model: JoinedModel, progress: Progress, privacy: LabelPrivacy
) -> dict:
    return {
        "mechanism": "training on additive shares of rows, with labels that were flipped or declared public",
        **host_summary(alignment, model, progress),
        "label source": privacy.source,
        "epsilon of the labels (nats, unit label, replace-one)": privacy.epsilon if privacy.private else "infinity",
        "family": settings.training.family,
        "converged": in_words(progress.converged, progress.losses),
        "last loss": progress.losses[-1],
    }


def host_summary(alignment: Alignment, model: JoinedModel, progress: Progress) -> dict:
    hidden = "hidden by align; whoever sees the losses or the weights can tell it"
    return {
        "joined rows": alignment.rows,
        "number of matches": "known to both parties" if alignment.hide_size is None else hidden,
        "joint weights": len(model.factors),
        "opened to": model.reveal,
        "epochs run": progress.epochs_run,
        "features have differential privacy": "no",
    }
