"""The one-record summary that FATE-Board draws as a table. No loss: it would be another release."""

from .round_terms import POOLED
from .settings import SOURCE_RULE

TRUSTED = {
    "secure_sum": "the server sees sums of all parties only",
    "local": "the server sees every party's noisy message",
    "shuffle": "the server sees shuffled messages of records, the shuffler who sent them but not what",
}
SOURCE_RULE_MECHANISM = "the source's own rule: inputs and loss coefficients with noise once, clipped means; no guarantee"
MECHANISMS = {
    "secure_sum": "clipped sums of Poisson samples, discrete Gaussian shares, pairwise masks",
    "local": "clipped sums of Poisson samples, discrete Gaussian noise at each party",
    "shuffle": "Duchi's l2 sampler on one clipped gradient per record and epoch, shuffled",
}


def summary_of(agreement, course) -> dict:
    """Flat public facts, the same at every party that trains."""
    settings, terms, promise = agreement.settings, agreement.terms, agreement.promise
    facts = {
        "mechanism": SOURCE_RULE_MECHANISM if settings.noise == SOURCE_RULE else MECHANISMS[terms.trust],
        "trust": f"{terms.trust}: {TRUSTED[terms.trust]}",
        "model": f"{settings.model['name']}, {terms.dimension} parameters",
        "unit": promise["unit"],
        "delta": promise["delta"],
        "relation that is charged": promise["relation"],
        "accountant": promise["accountant"],
        "observers": ", ".join(promise["observers"]),
    }
    for relation, epsilon in promise["epsilon"].items():
        facts[f"epsilon (nats, {relation}, all {terms.rounds} rounds)"] = epsilon
    if settings.noise == SOURCE_RULE:
        facts["epsilon that the source claims"] = settings.epsilon
    elif terms.epsilon0 is None:
        facts["noise over the clip"] = terms.noise_multiplier
    else:
        facts["epsilon0 of one message"] = terms.epsilon0
        facts[POOLED] = promise[POOLED]
    return {
        **facts,
        "noise": settings.noise,
        "clip": terms.clips[0] if len(terms.clips) == 1 else f"{terms.clips[0]:g} to {terms.clips[-1]:g}",
        "optimizer": _optimizer(settings.optimizer),
        "clip follows the quantile": terms.clip_quantile or "no",
        "factors of the classes, before the clip": _listed(settings.class_factors),
        "larger steps for the class weights": settings.step_factor,
        "records of all parties": settings.records,
        "sampling probability": terms.sampling_probability,
        "rounds planned": terms.rounds,
        **course.to_json(),
        "parties with data": terms.clients,
        "drop-outs and colluding parties tolerated": terms.tolerated,
        "warning": terms.delta_warning() or "none",
    }


def _optimizer(optimizer) -> str:
    params = ", ".join(f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
                       for name, value in optimizer["optimizer_params"].items())  # fmt: skip
    return f"{optimizer['method']}: {params}"


def _listed(factors) -> str:
    return ", ".join(f"{factor:g}" for factor in factors) if factors else "none"
