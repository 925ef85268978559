"""What all parties agree on before binning: checks of each party's table, the noise, and what the ledger is charged.

Whether a job goes on depends on columns' names and types, numbers of rows, ids, and policies; on labels only where they are
flips that were released, or public. A guest whose labels are all alike is refused nothing with noise: that would show it.
"""

import operator
from dataclasses import dataclass, field, replace
from typing import Any

from fate_dp.privacy.events import Event, Unit
from fate_dp.privacy.mechanisms.bin_counts import BinCountNoise, LaplaceBinCountNoise

from ..common import frames
from ..common.charges import Charges, has_synthetic_rows, home_of, job_of, observers_of, refuse_derived_labels
from ..common.federation import Document
from ..common.frames import DataFrame, Table
from ..common.job_files import origin_of_this_task
from ..common.preflight import Preflight, Refusal, require_same
from ..common.provenance import LabelPrivacy, find_label_privacy, labels_to_protect, record_use
from ..common.vocabulary import LABEL, NONE, RECORD
from ..protocols.bin_rules import QuantileBins, Rule
from .own_columns import checked_rules, event_blocks, quantile_charges
from .settings import LAPLACE, NOISY, Settings

PURPOSE = "dp_binning"
REFUSAL = "The cap that this party's operator set for private steps does not allow this binning."
Charged = list[tuple[Event, int]]


@dataclass
class BinningAgreement(Preflight):
    """What guest and hosts check alike; ``rules`` are of the party's columns, in their order."""

    settings: Settings
    frame: DataFrame
    rules: dict[str, Rule] = field(init=False)
    noise: BinCountNoise | LaplaceBinCountNoise | None = field(init=False, default=None)
    charges: Charges | None = field(init=False, default=None)
    charged: Charged = field(init=False, default_factory=list)

    @property
    def asked(self) -> dict[str, Any]:
        settings = self.settings
        return {"woe": settings.woe, "privacy": settings.privacy, "key_length": settings.he_param["key_length"]}

    @property
    def bins(self) -> int:
        """An upper bound on the bins of all columns, from parameters alone."""
        return sum(each.most_bins for each in self.rules.values())

    @property
    def cuts_quantiles(self) -> bool:
        """Whether a column of this party is cut at quantiles, which bins_epsilon pays for."""
        return any(isinstance(each, QuantileBins) for each in self.rules.values())

    def check_table(self) -> None:
        """Rows, ids, a rule for each column; raises ValueError."""
        frames.require_rows(self.frame)
        frames.require_distinct_ids(self.frame)
        special = home_of(self.ctx).policy.special_values_of(origin_of_this_task())
        self.rules = checked_rules(self.frame, self.settings, special)
        self.charged = quantile_charges(self.rules, self.settings.bins_epsilon, observers_of(self.ctx))
        if (self.settings.privacy in NOISY or self.charged) and has_synthetic_rows(self.frame):
            raise Refusal("The table was over-sampled; put dp_binning before smote.")

    def add_noise(self, own_columns: int, label_columns: int, counts: int) -> None:
        """Settle this party's noise, and what it will be charged as."""
        epsilon = self.settings.epsilon
        assert epsilon is not None, "Noise without an epsilon is refused by the settings."
        if self.settings.noise == LAPLACE:
            self.noise = LaplaceBinCountNoise(epsilon, own_columns, label_columns, counts)
        else:
            self.noise = BinCountNoise.of(epsilon, self.settings.delta, own_columns, label_columns, counts)
        unit = Unit.LABEL if self.settings.privacy == LABEL else Unit.RECORD
        self.charged = [*self.charged, (replace(self.noise.event(observers_of(self.ctx)), unit=unit), 1)]

    def check_cap(self) -> None:
        if self.charged:
            settings = self.settings
            self.charges = Charges(
                self.ctx,
                self.frame,
                REFUSAL,
                label_source=settings.label_source if settings.privacy == LABEL else None,
                reads_labels=settings.privacy == RECORD,
            )
            self.charges.check(self.charged)

    def charge(self) -> None:
        """Write the ledger's lines, before the first quantile is chosen and the first message is sent."""
        if self.charges is not None:
            self.charges.record(self.charged, PURPOSE)

    def mark_released(self) -> None:
        if self.charges is not None:
            self.charges.mark_released()


@dataclass
class HostAgreement(BinningAgreement):
    """A host's checks."""

    def check(self) -> Document:
        frames.refuse_label(self.frame)
        if not self.frame.schema.columns.to_list():
            raise Refusal("The host's table has no feature columns; it needs at least one.")
        self.check_table()
        if self.settings.privacy == RECORD:
            self.add_noise(len(self.rules), 0, 2 * self.bins)
        self.check_cap()
        digest = frames.alignment_digest(self.frame)
        return {"digest": digest, **self.asked, "columns": len(self.rules), "bins": self.bins}


@dataclass
class GuestAgreement(BinningAgreement):
    """The guest's checks; ``events`` are its labels as 0 and 1, ``labels`` what its ledger knows of them, where it matters."""

    events: Table = field(init=False)
    labels: LabelPrivacy | None = field(init=False, default=None)
    hosts_bins: dict[str, int] = field(init=False, default_factory=dict)

    def check(self) -> Document:
        if self.settings.woe and self.frame.schema.label_name is None:
            raise Refusal("The guest's table has no label column; upload it with label_name set, or set woe to false.")
        self.check_table()
        if not self.settings.woe:
            return {}
        self.events = event_blocks(frames.label_blocks(self.frame))
        if self.settings.privacy != NONE:
            refuse_derived_labels(self.frame)
        if self.settings.privacy == LABEL:
            labels_to_protect(home_of(self.ctx), self.frame, self.settings)
        elif self.settings.privacy == NONE:
            self.labels = find_label_privacy(home_of(self.ctx), self.frame, self.settings.label_source)
            check_unprotected(self.labels)
            self._check_classes()
        return {}

    def commit(self, hosts: dict[str, Document]) -> Document:
        frames.check_aligned(self.frame, hosts)
        require_same(self.asked, hosts)
        self.hosts_bins = {name: facts["bins"] for name, facts in hosts.items()}
        columns, bins = sum(facts["columns"] for facts in hosts.values()), sum(self.hosts_bins.values())
        if self.settings.privacy == LABEL:
            self.add_noise(0, columns, bins)
        elif self.settings.privacy == RECORD:
            self.add_noise(len(self.rules), columns, bins + 2 * self.bins)
        self.check_cap()
        return {
            "flips": self.labels.epsilon if self.labels and self.labels.private else None,
            "sigma": self.noise.sigma if self.noise else None,
        }

    def charge(self) -> None:
        """Labels that are declared public get their line 'not private'."""
        super().charge()
        if self.labels is not None:
            record_use(home_of(self.ctx), self.labels, job_of(self.ctx), self.frame.shape[0])

    def _check_classes(self) -> None:
        """Of labels that are flips, or public, it may be said that they are all alike."""
        events = self.events.mapValues(lambda values: int(values.sum())).reduce(operator.add)
        if events in (0, self.frame.shape[0]):
            raise ValueError("All labels are of one class. Bring both 1 and others.")


def check_unprotected(labels: LabelPrivacy) -> None:
    """Whether labels of which the ledger knows this can do without noise; raises ValueError."""
    flips = labels.flips
    if labels.private and (flips is None or flips.classes != 2 or flips.bounds is not None):
        raise Refusal(
            "privacy is none, but the labels are neither public nor flips of two classes as label_flip released them; put "
            "label_flip directly before this task, or set privacy to label."
        )
