"""The one-record summaries that FATE-Board draws as a table."""
from fate_dp.components.common.provenance import LabelPrivacy
from fate_dp.privacy.mechanisms.randomized_response import flip_probability

from .classes import class_names
from .convergence import in_words
from .model import PartyModel
from .score_release import ScoreRelease
from .solvers import solver_of


def guest_summary(model: PartyModel, terms: dict, privacy: LabelPrivacy, flipback_mode: str) -> dict:
    return {
        "mechanism": "training on encrypted shares of labels that were flipped or declared public",
        "label source": privacy.source,
        "epsilon of the labels (nats, unit label, replace-one)": privacy.epsilon if privacy.private else "infinity",
        "flip probability": _flip_probability(privacy),
        "observers": "host, arbiter, whoever gets the model",
        "rows": terms["rows"],
        "solver": solver_of(model.settings),
        "family": model.settings.family,
        "classes": class_names(terms["classes"]) if model.settings.family == "binomial" else "none",
        "sigmoid": model.settings.sigmoid if model.settings.family == "binomial" else "none",
        "flipback mode": flipback_mode,
        "noise": model.noise["kind"],
        "features and labels have differential privacy (unit record, replace-one)": _promise(model.noise),
        "fingerprint of all data parties' keys": model.keys_fingerprint,
        "epochs run": model.epochs_run,
        "converged": in_words(model.converged, model.losses),
        "last loss": model.losses[-1],
        "guest features with intercept": model.features,
    }


def _flip_probability(privacy: LabelPrivacy):
    """Of one draw; a model of several, or of labels that flipback revised, has none of its own."""
    if not privacy.private:
        return 0.0
    flips = privacy.flips
    if flips is not None and flips.bounds is not None:
        return "none: unbiased noise on numbers"
    return "several releases or revised labels" if flips is None else flip_probability(flips.epsilon, flips.classes)


def host_summary(model: PartyModel, release: ScoreRelease) -> dict:
    return {
        "features": model.features,
        "fingerprint of all data parties' keys": model.keys_fingerprint,
        "epochs run": model.epochs_run,
        "joint scores shown to the guest (different models, all jobs)": release.released(),
        "cap on them": release.cap,
        "noise": model.noise["kind"],
        "features have differential privacy (unit record, replace-one)": _promise(model.noise),
    }


def _promise(noise: dict) -> str:
    """Of the model alone: predictions read rows again, without noise."""
    if noise.get("epsilon", "infinity") == "infinity":
        return "no"
    observers = ", ".join(noise["observers"])
    return f"epsilon {noise['epsilon']:g} (nats), delta {noise['delta']:g}, of this training, against {observers}"
