"""What a training must have before any message about data: settings, roles, tables and models that fit together."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fate_dp.privacy.ledger.policy import Policy

from ..common.charges import Charges, home_of
from ..common.federation import Context, Document, Federation, PartyId, own_party
from ..common.frames import DataFrame
from ..common.preflight import Preflight, Refusal, about_settings
from ..common.units import Units
from ..common.vocabulary import ADAPTIVE, RECORD
from ..protocols.noisy_rounds import party_tables
from ..protocols.noisy_rounds.party_tables import REFUSAL
from ..protocols.noisy_rounds.training import AgreedTraining, training_federation
from .adaptive import ContributionStep, contribution_step
from .models.registry import ModelSource, input_count, spec_of_job
from .models.spec import dimension
from .relevance import first_layer
from .round_terms import calibrated, charged_events, check_promise, guarantee_of, promise_of, round_terms, settled
from .rounds.server import Server
from .settings import TrainSettings, given_settings, module_name


def federation_of(parties: Iterable[PartyId], settings: TrainSettings) -> Federation:
    """Roles of a task's parties: one guest, hosts with data, one arbiter and, for shuffle, the named shuffler."""
    federation = training_federation(parties, "dp_homo_nn", settings.shuffler)
    if settings.shuffler is not None and federation.shuffler is None:
        raise Refusal.of("shuffler", settings.shuffler, "the party id of a host of this task")
    if not federation.hosts:
        raise Refusal("The job names no host with data; dp_homo_nn trains over at least two parties.")
    return federation


def check_table(frame: DataFrame | None, settings: TrainSettings) -> Units:
    """Rows, labels 0 .. classes - 1 of at least two kinds, sound features; returns the declared units of the columns."""
    checked = party_tables.check_labelled_rows(
        frame, settings.records if settings.privacy == RECORD else None, "the shuffler"
    )
    columns = checked.schema.columns.to_list()
    unknown = next((name for name in settings.units or {} if name not in columns), None)
    if unknown is not None:
        raise Refusal.of("units", unknown, "a column of the tables")
    found = Units.declared(settings.units, columns)
    found.check(checked)
    party_tables.check_labels(frame, settings.classes)
    return found


def check_module(policy: Policy, name: str) -> None:
    """A model beyond the fixed list must be allowed, by name, by the operator of this very party."""
    module = module_name(name)
    if module is not None and module not in policy.model_modules:
        raise ValueError(
            f"model.name is {name!r}, but policy.yaml of this party allows no model {module!r} under model_modules; it "
            f"allows {', '.join(sorted(policy.model_modules)) or 'none'}."
        )


def check_alike(facts: Document) -> None:
    """At the guest: {data party: facts}, its own first; columns and model must be the same."""
    party_tables.check_same_columns({name: theirs["columns"] for name, theirs in facts.items()})
    own, *_ = facts.values()
    for name, theirs in facts.items():
        if theirs["dimension"] != own["dimension"]:
            cure = "Every operator allows the same model."
            allowed = f"{own['dimension']}, as at the guest"
            raise Refusal.of(f"number of the model's parameters at {name}", theirs["dimension"], allowed, cure)


@dataclass(frozen=True)
class HomoNNAgreement(AgreedTraining[TrainSettings]):
    """What all parties agreed on."""

    step: ContributionStep | None


@dataclass(frozen=True)
class HomoNNDataAgreement(HomoNNAgreement):
    """The same at a data party, with its own model and ledger."""

    source: ModelSource
    units: Units
    charges: Charges


def agree_on_terms(ctx: Context, given: Mapping[str, object], frame: DataFrame | None) -> HomoNNAgreement:
    """This party's view of what was agreed on, a `HomoNNDataAgreement` where it has data."""
    tables = HomoNNTables(ctx.sub_ctx("tables"), given, frame)
    return party_tables.agree_in_two_steps(tables, lambda agreed: HomoNNConsent(ctx.sub_ctx("terms"), tables, agreed))


@dataclass
class HomoNNTables(Preflight):
    """What each party brings; the guest sets the terms for all."""

    given: Mapping[str, Any]
    frame: DataFrame | None
    settings: TrainSettings = field(init=False)
    federation: Federation = field(init=False)
    source: ModelSource | None = None
    units: Units | None = None
    facts: Document = field(default_factory=dict)

    def check(self) -> Document:
        with about_settings():
            settings = self.settings = given_settings(self.given)
            self.federation = federation_of(self.ctx.federation.parties, settings)
        frame = self.frame
        if own_party(self.ctx) not in self.federation.data:
            if frame is not None:
                # The shuffler's own messages would be among those that it shuffles, and hide nobody from it.
                raise Refusal(
                    "This party was given a table, but it holds no data in this training; keep its reader out."
                )
            return {}
        self.units = check_table(frame, settings)
        assert frame is not None
        policy = home_of(self.ctx).policy
        check_module(policy, settings.model["name"])
        columns = frame.schema.columns.to_list()
        spec = spec_of_job(settings, len(columns))
        source = self.source = ModelSource.of(spec, settings.loss, policy.model_modules, settings.class_factors)
        with about_settings():
            # A module that no record may be trained with is refused here, and not by a round of its own.
            source.gradients().probe((input_count(spec),))
        self.facts = {
            "columns": columns,
            "dimension": dimension(source.module()),
            "groups": first_layer(source.module()).groups if settings.noise_spread == ADAPTIVE else None,
            # Public for shuffle, which is stated under replace-one only.
            "records": frame.shape[0] if settings.aggregation == "shuffle" else None,
        }
        return self.facts

    @about_settings()
    def commit(self, hosts: dict[str, Document]) -> Document:
        settings, federation, own = self.settings, self.federation, self.facts
        facts = {name: own if name == federation.names[0] else hosts[name] for name in federation.names}
        check_alike(facts)
        records = [fact["records"] for fact in facts.values()] if settings.aggregation == "shuffle" else None
        terms = round_terms(settings, federation.ids, own["dimension"], records)
        step = contribution_step(settings, terms, own["groups"])
        terms = calibrated(settings, terms, step, federation.ids)
        # What the server will refuse is refused now.
        chosen, terms = settled(settings, terms)
        assert chosen.optimizer is not None
        Server(terms, np.zeros(terms.dimension), chosen.optimizer, chosen.learning_rate_scheduler)
        return {
            "parameters": settings.to_json(),
            "dimension": terms.dimension,
            "client_records": records,
            "groups": own["groups"],
            "noise_multiplier": terms.noise_multiplier,
            "epsilon0": terms.epsilon0,
            "own_noise": terms.own_noise,
            "own_sampling": terms.own_sampling,
            "promise": promise_of(settings, terms, step, federation.ids),
        }


@dataclass
class HomoNNConsent(Preflight):
    """Whether this party goes along with the terms that the guest set; afterwards it has its ``agreement``."""

    tables: HomoNNTables
    agreed: Document
    agreement: HomoNNAgreement = field(init=False)

    def check(self) -> Document:
        settings, federation, agreed = self.tables.settings, self.tables.federation, self.agreed
        party_tables.check_parameters(settings.to_json(), agreed["parameters"])
        terms = round_terms(settings, federation.ids, agreed["dimension"], agreed["client_records"])
        step = contribution_step(settings, terms, agreed["groups"])
        own = {name: agreed[name] for name in ("own_noise", "own_sampling")}
        noised = replace(terms.with_noise(agreed["noise_multiplier"], agreed["epsilon0"]), **own)
        chosen, terms = settled(settings, noised)
        promise = promise_of(settings, terms, step, federation.ids)
        source, units = self.tables.source, self.tables.units
        party_tables.check_told({"promise": promise}, agreed)
        if source is None or units is None:
            self.agreement = HomoNNAgreement(chosen, federation, terms, promise, step)
            return {}
        me, facts, records = own_party(self.ctx), self.tables.facts, agreed["client_records"]
        position = federation.data.index(me)
        told = {**agreed, "records": records and records[position]}
        party_tables.check_told({name: facts[name] for name in ("dimension", "groups", "records")}, told)
        personal = terms.at(position)
        check_promise(settings, personal, guarantee_of(settings, personal, step), me[1])
        charges = Charges(self.ctx, self.tables.frame, REFUSAL)
        charges.check(charged_events(settings, personal, step=step))
        self.agreement = HomoNNDataAgreement(chosen, federation, terms, promise, step, source, units, charges)
        return {}
