"""The shared rows of a task: what align wrote, checked at this party, and with the other party's."""
from dataclasses import dataclass
from typing import List

from fate_dp.components.align.alignment import LABEL, MEMBERSHIP, Alignment
from fate_dp.components.align.shares_table import belongs_to, share_blocks
from fate_dp.components.common.parties import roles
from fate_dp.components.common.record_stream import ids_digest


@dataclass(frozen=True)
class SharedRows:
    """This party's shares of the rows and what align says of them."""

    frame: object
    alignment: Alignment

    @classmethod
    def of(cls, frame, document: dict) -> "SharedRows":
        """Raises ValueError where table and alignment do not belong together."""
        alignment = Alignment.from_json(document)
        if frame.shape[0] != alignment.rows or not belongs_to(frame, alignment.session):
            raise ValueError(
                f"The table's {frame.shape[0]} rows are not the {alignment.rows} of its alignment; connect output_data "
                "and alignment of one align."
            )
        return cls(frame, alignment)

    @property
    def features(self) -> List[str]:
        """Joint feature columns in their public order."""
        return [*self.alignment.guest, *self.alignment.host]

    def training_blocks(self):
        """Table of this party's shares of [features, membership, label]."""
        return share_blocks(self.frame, [*self.features, MEMBERSHIP, LABEL])

    def blocks(self, names: List[str]):
        """Table of this party's shares of some columns."""
        return share_blocks(self.frame, names)

    def facts(self) -> dict:
        """What the guest needs to know to see that both parties hold shares of the same rows."""
        return {"session": self.alignment.session, "digest": ids_digest(self.frame)}

    def check_same(self, hosts: dict) -> None:
        """At the guest: the host's shares must be of the same rows, in the same blocks and order."""
        for name, facts in hosts.items():
            if facts != self.facts():
                raise ValueError(
                    f"The tables of guest and {name} are not of one alignment; use what one align wrote at both."
                )


def check_two_parties(ctx) -> None:
    """Refuse a task of others than one guest and one host; all see the same list and raise the same sentence."""
    present = roles(ctx)
    if sorted(present) != ["guest", "host"]:
        raise ValueError(f"The task names the roles {', '.join(present)}; shares are of one guest and one host.")
