"""What is known of an alignment: the form of its shares, its columns, its size. No FATE in here, nothing secret."""
from dataclasses import dataclass
from typing import Optional, Tuple

from fate_dp.crypto.joined_records import FRACTION_BITS, SHARE_BITS

from .halves import LOW_BITS

LABEL, MEMBERSHIP = "label", "membership"
_FORMAT = {"fraction_bits": FRACTION_BITS, "share_bits": SHARE_BITS, "low_bits": LOW_BITS}


@dataclass(frozen=True)
class Alignment:
    """An alignment as both parties know it, and with ``own``, ``label_privacy`` and ``dataset`` what this party alone knows.

    The other party's columns are known by number: ``guest_x0``, ``host_x0`` and so on. With its size hidden, an
    alignment also has rows that stand for no record. They are zero everywhere, in the membership column too, which is 1
    for every record: with the membership in the place of an intercept they add nothing to any sum.

    Attributes:
        session: random name of this alignment, the same at both parties.
        rows: number of joined rows, dummies included.
        guest: columns of the guest's features.
        host: columns of the host's features.
        labelled: whether there is a label column, of the guest.
        hide_size: None, or {epsilon, delta, pool}: each party adds 0 to pool dummies.
        own: this party's own names of its features, in the order of its columns.
        label_privacy: at the guest, what its ledger says of the labels: source, epsilon, unit and relation; None where
            they are neither flips that label_flip released nor declared public, and at the host.
        dataset: this party's own name of its table in its ledger; empty in what an earlier version wrote.
    """

    session: str
    rows: int
    guest: Tuple[str, ...]
    host: Tuple[str, ...]
    labelled: bool
    hide_size: Optional[dict] = None
    own: Tuple[str, ...] = ()
    label_privacy: Optional[dict] = None
    dataset: str = ""

    @property
    def names(self) -> list:
        """All joined columns in their public order; the membership comes last."""
        return [*self.guest, *self.host, *([LABEL] if self.labelled else []), MEMBERSHIP]

    def to_json(self) -> dict:
        """Builtins, as FATE stores a model."""
        return {
            **_FORMAT,
            "session": self.session,
            "rows": self.rows,
            "columns": {"guest": list(self.guest), "host": list(self.host), "label": self.labelled},
            "hide_size": self.hide_size,
            "own": {"columns": list(self.own), "label_privacy": self.label_privacy, "dataset": self.dataset},
        }

    @classmethod
    def from_json(cls, document: dict) -> "Alignment":
        """Raises ValueError for what `to_json` did not write, or wrote with another format of shares."""
        try:
            form = {name: document[name] for name in _FORMAT}
            columns, own = document["columns"], document["own"]
            guest, host = tuple(columns["guest"]), tuple(columns["host"])
            read = cls(
                document["session"], document["rows"], guest, host, columns["label"], document["hide_size"],
                tuple(own["columns"]), own["label_privacy"], own.get("dataset", ""),
            )  # fmt: skip
        except (KeyError, TypeError) as error:
            raise ValueError("The alignment is no model that align wrote; connect align's alignment.") from error
        if form != _FORMAT:
            raise ValueError(f"The alignment has shares of the format {form}; this version reads {_FORMAT}.")
        return read


def feature_names(role: str, count: int) -> Tuple[str, ...]:
    """Public names of a party's features: their own names stay with the party."""
    return tuple(f"{role}_x{number}" for number in range(count))
