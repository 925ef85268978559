"""Faults that the fuzzer must find: holes that FATE-DP once had, as they would come back, and others.

Of the eight holes of the hostile reading three concern what leaves beside the promise and no ledger knows of: the exact bit
that columns take few values, canaries that are made of real records, and the firewall around labels. No sequence plays them,
and their own tests hold them. Other faults stand in their places.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.mutants.planting import Mutant


def _mutant(name: str, symbol: str, *edits: tuple[str, str]) -> Mutant:
    return Mutant(name, "A", symbol, edits)


def reached(mutant: Mutant, steps: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a sequence may come to the fault: one in a component's own code only where a task runs that component."""
    area, component, *_ = mutant.module.split(".")
    played = {task["component"] for step in steps for task in step.get("tasks", ())}
    return area != "components" or component == "common" or component in played


CHARGES, TOTALS, DATASETS = "components.common.charges", "privacy.ledger.totals", "privacy.ledger.datasets"

MUTANTS = (
    # The holes.
    _mutant(
        "derived labels pass once one row has another label",
        f"{CHARGES}:refuse_derived_labels",
        ("are_marked(labels).any()", "are_marked(labels).all()"),
    ),
    _mutant(
        "another source of the same labels is a second budget",
        f"{DATASETS}:DatasetLedger.remember_dataset",
        ("labels is None else", "labels != LABELS else"),
    ),
    _mutant(
        "rows that data_split or sample chose bear a promise",
        "components.common.row_origin:mixed_rows",
        ("if how.reads == LABELS or not labels_alone:", "if False:"),
    ),
    _mutant(
        "a promise for labels bears rows that were chosen by labels",
        "components.common.row_origin:mixed_rows",
        ("if how.reads == LABELS or not labels_alone:", "if not labels_alone:"),
    ),
    _mutant(
        "a total counts parties by what they are called in vertical jobs",
        f"{TOTALS}:TotalsView",
        ("self.observer == EVERYBODY or", "self.observer == EVERYBODY and {'guest', 'host'} & {*event.observers} or"),
    ),
    _mutant(
        "dp_binning charges labels as records",
        "components.dp_binning.agreement:BinningAgreement.add_noise",
        ("Unit.LABEL if self.settings.privacy == LABEL else Unit.RECORD", "Unit.RECORD"),
    ),
    # In place of those that no sequence plays.
    _mutant(
        "a host's noise is drawn and not charged",
        "components.dp_scorecard.agreement:ScorecardPreflight.charge",
        ("if self.charges is not None", "if self.charges is not None and self.ctx.is_on_guest"),
    ),
    _mutant(
        "only the first round is charged",
        "components.dp_homo_gbdt.train:TreesMember.charge_round",
        ("return training.charge(", "return number > 0 or training.charge("),
    ),
    _mutant(
        "noise on labels is drawn and not charged",
        "components.dp_hetero_lr.noise:OwnNoise.charge",
        (
            "        if self.epsilon is not None:\n            drawn",
            "        if self.epsilon is not None and self.kind != LABEL:\n            drawn",
        ),
    ),
    # Others.
    _mutant(
        "flips do not say whose labels they are",
        "components.label_flip.guest:LabelFlipGuestPreflight.commit",
        ("remembered_dataset(home, frame, labels=source)", "pass"),
    ),
    _mutant("families that meet stay two", "privacy.ledger.database:joined", ("in others:", "in ():")),
    _mutant(
        "the largest cap of several sources holds",
        "privacy.ledger.policy:Policy.label_cap",
        ("return min(", "return max("),
    ),
    _mutant(
        "the largest cap of several tables holds",
        "privacy.ledger.policy:Policy.dataset_cap",
        ("return reduce(BudgetCap.smaller, caps)", "return max(caps, key=lambda cap: cap.epsilon)"),
    ),
    _mutant(
        "flips are charged once they have left",
        "components.label_flip.guest:LabelFlipGuestPreflight",
        ("release: Any = field(init=False)", "release = property(lambda self: self.deferred())"),
        ("self.release = home.ledger.record_flips(", "self.deferred = lambda: home.ledger.record_flips("),
    ),
    _mutant(
        "a warm start costs nothing",
        "components.common.provenance:LabelPrivacy.after",
        ("if warm_start is None:", "if True:"),
    ),
    _mutant(
        "records are those of a table's name",
        f"{CHARGES}:remembered_dataset",
        (
            "record_tag_stream(frame, home.key, space)",
            "record_tag_stream(frame, home.key, repr(tables_of_this_task(key)))",
        ),
    ),
    _mutant(
        "a task that is tried again is not charged again",
        f"{CHARGES}:Charges.record",
        ('f"{self._job.task_id} {secrets.token_hex(16)}"', 'f"{self._job.job_id} {account} {purpose} {event}"'),
    ),
    _mutant(
        "steps that protect records cost their labels nothing",
        f"{CHARGES}:Charges._claimed",
        ("(self._reads_labels or event.unit == Unit.LABEL)", "event.unit == Unit.LABEL"),
    ),
    _mutant(
        "flips of another key are forgotten",
        f"{TOTALS}:SPENT_BY_FLIPS",
        ("GROUP BY subject, key_id", "GROUP BY subject"),
    ),
    _mutant(
        "flips of another source are forgotten",
        f"{TOTALS}:SPENT_BY_FLIPS",
        ("e.subject IN ({RELATED})", "e.subject = :dataset"),
    ),
    _mutant(
        "steps that are stated under add-or-remove are forgotten",
        f"{TOTALS}:TotalsView",
        ("event.unit == self.unit and", "event.unit == self.unit and event.relation == self.relation and"),
    ),
    _mutant(
        "tables of another key are another family",
        f"{DATASETS}:_touched",
        (
            "asked = [(FAMILIES_OF_RECORDS, ()), (FAMILIES_OF_OTHER_KEYS, (key_id,))]",
            "asked = [(FAMILIES_OF_RECORDS, ())]",
        ),
    ),
)
