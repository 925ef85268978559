"""What all parties agree on before the first round: the same parameters, tables that fit, terms with a stated guarantee.

In two steps, each of which ends with one verdict for everybody: first what each party brings, after which the guest
calibrates the noise; then what that costs, which each data party computes anew and holds against its own cap.
"""
import logging
from dataclasses import dataclass, field
from typing import Optional

import numpy as np

from fate_dp.components.common.charges import Charges
from fate_dp.components.common.dataset_names import remembered_dataset
from fate_dp.components.common.party_home import home_of
from fate_dp.components.common.preflight import agree
from fate_dp.components.common.provenance import refuse_derived_labels

from .adaptive import ContributionStep, contribution_step, groups_of
from .job_model import ModelSource, spec_of_job
from .preflight_checks import (
    Federation, check_alike, check_module, check_parameters, check_public, check_table, federation_of, refuse_data,
)  # fmt: skip
from .round_terms import calibrated, charged_events, check_promise, guarantee_of, round_terms
from .rounds.server import Server
from .rounds.terms import RoundTerms
from .settings import ADAPTIVE, SOURCE_RULE, TrainSettings, given_settings
from .step_sizes import settled

logger = logging.getLogger(__name__)
REFUSAL = "The cap that this party's operator set for private steps does not allow this training."


@dataclass
class Agreement:
    """The public terms of a task; ``source`` and ``charges`` are a data party's own.

    ``promise`` is what the guest computed and every data party computed anew; ``step`` only with adaptive noise.
    """

    settings: Optional[TrainSettings] = None
    federation: Optional[Federation] = None
    terms: Optional[RoundTerms] = None
    promise: dict = field(default_factory=dict)
    step: Optional[ContributionStep] = None
    source: Optional[ModelSource] = None
    charges: Optional[Charges] = field(default=None, repr=False)


def agree_on_terms(ctx, given: dict, frame) -> Agreement:
    """This party's view of what was agreed on; raises `preflight.Refused` at every party."""
    agreement, facts = Agreement(), {}
    agreed = agree(
        ctx.sub_ctx("tables"), lambda: _bring(ctx, given, frame, agreement, facts),
        lambda hosts: _set(agreement, facts, hosts),
    )  # fmt: skip
    agree(ctx.sub_ctx("terms"), lambda: _consent(ctx, frame, agreement, agreed))
    warning = agreement.terms.delta_warning()
    if warning:
        logger.warning(warning)
    return agreement


def start_weights(source: ModelSource) -> np.ndarray:
    """float64 (d,): public, from the seed that the job names."""
    from .models.weights import flat_weights

    return flat_weights(source.module())


def _bring(ctx, given, frame, agreement, facts) -> dict:
    settings = agreement.settings = given_settings(given)
    federation = agreement.federation = federation_of(ctx.federation.parties, settings)
    me = tuple(ctx.federation.local_party)
    if me not in federation.data:
        if frame is not None:
            refuse_data()
        return {}
    check_table(frame, settings)
    policy = home_of(ctx).policy
    if settings.noise == SOURCE_RULE:
        check_public(policy, remembered_dataset(home_of(ctx), frame))
    else:
        refuse_derived_labels(home_of(ctx), frame)
    check_module(policy, settings.model["name"])
    spec = spec_of_job(settings, len(frame.schema.columns))
    agreement.source = ModelSource.of(spec, settings.loss, policy.model_modules, settings.class_factors)
    facts["columns"], facts["dimension"] = frame.schema.columns.to_list(), len(start_weights(agreement.source))
    facts["groups"] = groups_of(agreement.source) if settings.noise == ADAPTIVE else None
    # Public for shuffle, which is stated under replace-one only.
    facts["records"] = frame.shape[0] if settings.trust == "shuffle" else None
    return facts


def _set(agreement, own, hosts) -> dict:
    """At the guest: the terms for all."""
    settings, federation = agreement.settings, agreement.federation
    facts = {name: own if name == federation.names[0] else hosts[name] for name in federation.names}
    check_alike(facts)
    records = [fact["records"] for fact in facts.values()] if settings.trust == "shuffle" else None
    terms = round_terms(settings, federation.ids, own["dimension"], records)
    step = contribution_step(settings, terms, own["groups"])
    terms = calibrated(settings, terms, step)
    # What the server will refuse is refused now.
    chosen, terms = settled(settings, terms)
    Server(terms, np.zeros(terms.dimension), chosen.optimizer, chosen.learning_rate_scheduler)
    return {
        "parameters": settings.to_json(), "dimension": terms.dimension, "client_records": records, "groups": own["groups"],
        "noise_multiplier": terms.noise_multiplier, "epsilon0": terms.epsilon0,
        "promise": guarantee_of(settings, terms, step).to_json(),
    }  # fmt: skip


def _consent(ctx, frame, agreement, agreed) -> dict:
    settings, ids = agreement.settings, agreement.federation.ids
    check_parameters(settings.to_json(), agreed["parameters"])
    terms = round_terms(settings, ids, agreed["dimension"], agreed["client_records"])
    step = agreement.step = contribution_step(settings, terms, agreed["groups"])
    agreement.settings, terms = settled(settings, terms.with_noise(agreed["noise_multiplier"], agreed["epsilon0"]))
    agreement.terms = terms
    agreement.promise = agreed["promise"]
    if agreement.source is not None:
        guarantee = guarantee_of(settings, terms, step)
        check_promise(settings, terms, guarantee)
        agreement.promise = guarantee.to_json()
        agreement.charges = Charges(ctx, frame, REFUSAL, public_copy=settings.noise == SOURCE_RULE)
        agreement.charges.check(charged_events(settings, terms, step=step))
    return {}
