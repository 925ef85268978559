"""The one-record summaries that FATE-Board draws as a table."""
from fate_dp.components.common.provenance import LabelPrivacy

from .epochs import Progress
from .model import JoinedModel
from .settings import ShareSettings


def guest_summary(settings: ShareSettings, model: JoinedModel, progress: Progress, privacy: LabelPrivacy) -> dict:
    return {
        **host_summary(model, progress),
        "label source": privacy.source,
        "epsilon of the labels (nats, unit label, replace-one)": privacy.epsilon if privacy.private else "infinity",
        "family": settings.training.family,
        "converged": str(progress.converged),
        "last loss": progress.losses[-1],
    }


def host_summary(model: JoinedModel, progress: Progress) -> dict:
    return {
        "joint weights": len(model.factors),
        "opened to": model.reveal,
        "epochs run": progress.epochs_run,
        "features have differential privacy": "no",
    }
