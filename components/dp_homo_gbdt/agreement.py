"""What a training must have before any message about data: settings, roles and tables that fit together, and a budget."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fate_dp.privacy.accounting.total import total_epsilon
from fate_dp.privacy.bins import TableBins

from ..common.charges import Charges
from ..common.federation import Context, Document, Federation, PartyId, own_party, require
from ..common.frames import DataFrame, feature_names, require_numeric
from ..common.preflight import Preflight, Refusal, about_settings
from ..protocols.noisy_rounds import party_tables
from ..protocols.noisy_rounds.account import OBSERVERS, calibrate_terms, events_of, relations_of
from ..protocols.noisy_rounds.party_tables import REFUSAL, ROUNDING, Guarantee
from ..protocols.noisy_rounds.terms import RoundTerms
from ..protocols.noisy_rounds.training import AgreedTraining, training_federation
from .boosting import round_terms
from .settings import TrainSettings, given_settings

NOT_NUMERIC = "number its categories before"
CLASSES = 2


def federation_of(parties: Iterable[PartyId]) -> Federation:
    """Roles of a task's parties: one guest, hosts with data and one arbiter."""
    parties = list(parties)
    require(parties, "host", "dp_homo_gbdt trains over at least two parties with data.")
    return training_federation(parties, "dp_homo_gbdt")


def guarantee_of(terms: RoundTerms, relation: str) -> Guarantee:
    """What all planned rounds promise; any party can compute it anew."""
    epsilons = {each: total_epsilon(events_of(terms, each), terms.delta) for each in relations_of(terms)}
    return Guarantee(terms.unit, relation, terms.delta, epsilons, None, OBSERVERS)


def check_promise(settings: TrainSettings, terms: RoundTerms, guarantee: Guarantee) -> None:
    """At each data party: refuse noise of the guest that does not keep what was asked for."""
    asked, reached = settings.epsilon, guarantee.epsilons[settings.relation]
    if asked is not None and reached > asked * ROUNDING:
        raise Refusal(f"The guest's noise costs epsilon {reached:g}, while the job asks for {asked:g}.")
    wanted = settings.noise_multiplier
    if wanted is not None and terms.noise_multiplier != wanted:
        raise Refusal(f"The guest asks for noise_multiplier {terms.noise_multiplier!r}, while the job says {wanted!r}.")


@dataclass(frozen=True)
class TreesAgreement(AgreedTraining[TrainSettings]):
    """What all parties agreed on."""

    bins: TableBins


@dataclass(frozen=True)
class TreesDataAgreement(TreesAgreement):
    """The same at a data party, with its own ledger."""

    charges: Charges


def agree_on_terms(ctx: Context, given: Mapping[str, object], frame: DataFrame | None) -> TreesAgreement:
    """This party's view of what was agreed on, a `TreesDataAgreement` where it has data."""
    tables = TreesTables(ctx.sub_ctx("tables"), given, frame)
    return party_tables.agree_in_two_steps(tables, lambda agreed: TreesConsent(ctx.sub_ctx("terms"), tables, agreed))


@dataclass
class TreesTables(Preflight):
    """What each party brings; the guest sets the terms for all."""

    given: Mapping[str, Any]
    frame: DataFrame | None
    settings: TrainSettings = field(init=False)
    federation: Federation = field(init=False)
    columns: list[str] = field(default_factory=list)

    def check(self) -> Document:
        with about_settings():
            settings = self.settings = given_settings(self.given)
            self.federation = federation_of(self.ctx.federation.parties)
        if own_party(self.ctx) == self.federation.server:
            return {}
        frame = party_tables.check_labelled_rows(self.frame, settings.records, "the arbiter")
        self.columns = feature_names(frame)
        require_numeric(frame, NOT_NUMERIC)
        party_tables.check_labels(frame, CLASSES)
        return {"columns": self.columns}

    @about_settings()
    def commit(self, hosts: dict[str, Document]) -> Document:
        settings, names = self.settings, self.federation.names
        party_tables.check_same_columns(
            {name: self.columns if name == names[0] else hosts[name]["columns"] for name in names}
        )
        settings.bins_of(self.columns)
        terms = round_terms(settings, len(names))
        if settings.epsilon is not None:
            terms = calibrate_terms(terms, settings.epsilon, settings.delta, settings.relation)
        return {
            "parameters": settings.to_json(),
            "columns": self.columns,
            "noise_multiplier": terms.noise_multiplier,
            "promise": guarantee_of(terms, settings.relation).to_json(),
        }


@dataclass
class TreesConsent(Preflight):
    """Whether this party goes along with the terms that the guest set; afterwards it has its ``agreement``."""

    tables: TreesTables
    agreed: Document
    agreement: TreesAgreement = field(init=False)

    def check(self) -> Document:
        settings, federation, agreed = self.tables.settings, self.tables.federation, self.agreed
        party_tables.check_parameters(settings.to_json(), agreed["parameters"])
        terms = round_terms(settings, len(federation.data)).with_noise(agreed["noise_multiplier"])
        bins, guarantee = settings.bins_of(agreed["columns"]), guarantee_of(terms, settings.relation)
        party_tables.check_told({"promise": guarantee.to_json()}, agreed)
        if own_party(self.ctx) == federation.server:
            self.agreement = TreesAgreement(settings, federation, terms, guarantee.to_json(), bins)
            return {}
        check_promise(settings, terms, guarantee)
        party_tables.check_told({"columns": self.tables.columns}, agreed)
        charges = Charges(self.ctx, self.tables.frame, REFUSAL)
        charges.check(events_of(terms, settings.relation))
        self.agreement = TreesDataAgreement(settings, federation, terms, guarantee.to_json(), bins, charges)
        return {}
