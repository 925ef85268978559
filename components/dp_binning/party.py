"""A party's part of dp_binning: agree, charge, cut the columns, count events by bin, write table and model.

Who learns what, beside its own table (`label_sums` says how):

- label: every host those sums with the guest's noise; the guest's own counts are exact, and stay at the guest;
- record: the same, and both counts of every bin get noise of the column's own party, so that every model may be shown;
- none: every host the sums of labels that are flips, which is post-processing of these, or public.

The guest learns nothing of a host's rows but how many columns and bins the host declared. Nobody sends another party
anything for a single record but blinded ciphertexts. Tables of bins' numbers stay at their parties, each as private as the
values that it was made of.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from fate_dp.privacy.bins import TableBins
from fate_dp.privacy.evidence import BinTable, Evidence, ones_and_others, weight_of_evidence
from fate_dp.privacy.mechanisms.bin_counts import FRACTION_BITS

from ..common.federation import Context, Document, ModelOutput, TableOutput, check_roles
from ..common.frames import DataFrame, require_numeric, require_rows
from ..common.preflight import Preflight, Refusal, show_summary
from ..common.vocabulary import NONE, RECORD
from .agreement import BinningAgreement, GuestAgreement, HostAgreement
from .label_sums import ask_guest, serve_hosts
from .own_columns import NOT_NUMERIC, bin_events, bin_totals, code_blocks, table_bins, with_codes
from .settings import NOISY, Settings

MECHANISMS = {
    "none": "none of its own",
    "label": "noise of the guest on sums of labels by bin",
    "record": "noise of every party on its counts by bin",
}
UNCOUNTED = "none: nothing is counted"
"""In place of these without WOE."""
LAW = "law of this party's noise"


@dataclass(frozen=True)
class ColumnCounts:
    """What a party knows of one column's bins after the protocol."""

    table: BinTable
    evidence: Evidence


def train(
    ctx: Context, settings: Settings, frame: DataFrame, output_data: TableOutput, output_model: ModelOutput
) -> None:
    """Check, charge, serve the hosts or ask the guest for sums of its labels, write the party's own table and model."""
    check_roles(ctx, arbiter=False)
    own = (GuestAgreement if ctx.is_on_guest else HostAgreement)(ctx, settings, frame)
    terms = own.agree()
    own.charge()
    bins = table_bins(frame, own.rules, settings.bins_epsilon)
    codes, rows, key_length = code_blocks(frame, bins), frame.shape[0], settings.he_param["key_length"]
    counts: BinTable | None = None
    if settings.woe and isinstance(own, GuestAgreement):
        serve_hosts(ctx, own.events, rows, own.hosts_bins, key_length, own.noise)
        if bins.total:
            counts = ones_and_others(bin_events(codes, own.events, bins), bin_totals(codes, bins))
    elif settings.woe:
        events = ask_guest(ctx, codes, bins, own.bins, rows, key_length)
        counts = ones_and_others(events, bin_totals(codes, bins))
    output_data.write(with_codes(frame, codes))
    finish(own, terms, bins, counts, output_model)


def finish(
    own: BinningAgreement, terms: Document, bins: TableBins, counts: BinTable | None, output_model: ModelOutput
) -> None:
    """Add the party's own noise to its counts, compute WOE and IV, write the model, show the summary."""
    columns = []
    if counts is not None:
        counts = with_own_noise(own, counts)
        columns = [evidence_of(counts, span, terms, own.settings) for span in pairwise(bins.offsets)]
    output_model.write(document(own, terms, bins, columns), metadata={})
    own.mark_released()
    show_summary(own.ctx, summary(own, bins, columns, terms["flips"]))


def with_own_noise(own: BinningAgreement, counts: BinTable) -> BinTable:
    """With privacy record both counts of every bin get this party's noise; the guest's is in a host's events before."""
    if own.settings.privacy != RECORD or own.noise is None:
        return counts
    events, others = own.noise.draw((2, counts.events.size)) / 2.0**FRACTION_BITS
    return BinTable(counts.events + events, counts.others + others)


def evidence_of(counts: BinTable, span: tuple[int, int], terms: Document, settings: Settings) -> ColumnCounts:
    """Of one column, whose bins are those from the first of ``span`` to before the second; flips are reverted."""
    first, last = span
    table = BinTable(counts.events[first:last], counts.others[first:last])
    if settings.privacy == NONE and terms["flips"] is not None:
        table = table.with_flips_reverted(terms["flips"])
    return ColumnCounts(table, weight_of_evidence(table, settings.smoothing))


def document(own: BinningAgreement, terms: Document, bins: TableBins, columns: list[ColumnCounts]) -> Document:
    """The model, builtins: the bins of every column, its counts, WOE and IV, and what protects them."""
    settings = own.settings
    noisy = settings.privacy in NOISY
    return {
        "bins": bins.to_wire(),
        "columns": [
            {
                "name": column.name,
                "labels": column.labels(),
                "events": np.round(found.table.events, 6).tolist(),
                "others": np.round(found.table.others, 6).tolist(),
                "woe": found.evidence.woe.tolist(),
                "iv": found.evidence.iv,
            }
            for column, found in zip(bins.columns, columns)
        ],
        "privacy": {
            "level": settings.privacy if settings.woe else None,
            "epsilon": settings.epsilon if noisy else terms["flips"],
            "delta": settings.released_delta if noisy else None,
            "noise": settings.noise if own.noise is not None else None,
            "bins_epsilon": settings.bins_epsilon if own.cuts_quantiles else None,
            "guest_sigma": terms["sigma"],
            "own_sigma": own.noise.sigma if own.noise is not None else None,
        },
        "smoothing": settings.smoothing,
    }


def summary(own: BinningAgreement, bins: TableBins, columns: list[ColumnCounts], flips: float | None) -> Document:
    """What the party's board shows; numbers of its own columns alone. ``flips`` is the labels' epsilon, if they are flips."""
    settings = own.settings
    facts: dict[str, Any] = {
        "mechanism": MECHANISMS[settings.privacy] if settings.woe else UNCOUNTED,
        "privacy": settings.privacy,
        "rows of this party": own.frame.shape[0],
    }
    if settings.privacy in NOISY:
        facts["epsilon (nats, unit record, replace-one)"] = settings.epsilon
        facts["delta"] = settings.released_delta
    elif settings.woe:
        facts["labels"] = "declared public" if flips is None else "flips of label_flip, at their own epsilon"
    if flips is not None:
        facts["epsilon of the labels (nats, unit label, replace-one)"] = flips
    if own.noise is not None:
        facts[LAW] = settings.noise
        facts["standard deviation of this party's noise on a count"] = own.noise.sigma
    if own.cuts_quantiles:
        facts["epsilon of quantiles (nats, unit record, replace-one)"] = settings.bins_epsilon
    return {**facts, **{f"IV of {name}": found.evidence.iv for name, found in zip(bins.names, columns)}}


def apply_bins(ctx: Context, model: Document, frame: DataFrame) -> DataFrame:
    """The stage predict: the numbers of bins of other rows, by the bins of training; no message but the verdict.

    A category that training did not list is rare, and values beyond all cut points are in the outer bins.
    """
    check_roles(ctx, arbiter=False)
    checks = FitModel(ctx, model, frame)
    checks.agree()
    return with_codes(frame, code_blocks(frame, checks.bins))


@dataclass
class FitModel(Preflight):
    """Whether a table can be cut as the model says; ``bins`` are those of its columns, in its order."""

    model: Document
    frame: DataFrame
    bins: TableBins = field(init=False)

    def check(self) -> Document:
        require_rows(self.frame)
        self.bins = bins_for(self.frame, self.model)
        return {}


def bins_for(frame: DataFrame, model: Document) -> TableBins:
    """The model's bins in the order of the table's columns; raises ValueError where these are others."""
    try:
        bins = TableBins.from_wire(model["bins"])
    except KeyError:
        raise Refusal("input_model is no model that dp_binning wrote; connect its output_model.") from None
    names = frame.schema.columns.to_list()
    strange = sorted(set(names) ^ set(bins.names))
    if strange:
        raise ValueError(f"Column {strange[0]!r} must be in both input_model and the table, got one of them.")
    require_numeric(frame, NOT_NUMERIC)
    return TableBins(tuple(bins.columns[bins.names.index(name)] for name in names))
